#include "chosen.h"
#include "field.h"
#include "gpu_option.h"
#include "session.h"
#include "shape_text.h"

#include <string.h>

enum exit_code chosen_open(struct chosen *chosen, struct cli *cli, const struct catalog *catalog) {
    const char *name = cli_text(cli, "for", "");
    const struct att_options options = {
        .size = sizeof options, .template_dir = cli_text(cli, "templates", NULL), .no_disk_cache = true};
    *chosen = (struct chosen){.cli = cli};
    enum exit_code code = gpu_option_name(cli, name, "; leave --for out, and SPEC decides", &chosen->gpu);
    if (code)
        return code;
    for (int id = 0; !catalog->spec && id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_SCHEDULE && knob_get(&catalog->given, (enum knob_id)id) != AUTO)
            return cli_error(cli, CLI_USAGE, "--for chooses the schedule, so leave %s out, or --for",
                             knob_table[id].name);
    struct diag diag = {0};
    if (!catalog->spec)
        chosen->own_spec = spec_from_knobs(catalog->name, cli->options.argument[0], &diag);
    if (!catalog->spec && !chosen->own_spec)
        code = cli_report(cli, CLI_SPEC, text_string(&diag.text));
    diag_free(&diag);
    if (!code)
        code = shapes_read(&chosen->shapes, cli, catalog->spec ? catalog->spec : chosen->own_spec);
    if (code)
        return code;
    enum att_status status = session_open_to_choose(&options, chosen->gpu.name, chosen->gpu.arch, &chosen->session);
    if (status == ATT_OK)
        return CLI_OK;
    return cli_report(cli, cli_exit_code(status), chosen->session ? att_message(chosen->session) : "out of memory");
}

void chosen_close(struct chosen *chosen) {
    att_close(chosen->session);
    spec_free(chosen->own_spec);
    text_free(&chosen->seen);
}

/* True if this problem is new. A spec contains it once for each of its schedules. */
static bool is_new(struct chosen *chosen, const struct text *problem) {
    struct text line = {0};
    text_print(&line, "\n%s\n", text_string(problem));
    bool found = strstr(text_string(&chosen->seen), text_string(&line)) != NULL;
    if (!found)
        text_print(&chosen->seen, "%s%s\n", chosen->seen.size ? "" : "\n", text_string(problem));
    text_free(&line);
    return !found;
}

static enum exit_code choose(struct chosen *chosen, const struct text *problem, const struct shape *shape, int family,
                             struct variant *variant) {
    struct text asked = {0}, sizes = {0};
    struct failure failure = {0};
    struct request request;
    struct choice choice = {0};
    enum exit_code code = CLI_OK;
    shape_print(shape, family, &sizes);
    text_print(&asked, "%s %s", text_string(problem), text_string(&sizes));
    if (choose_read(chosen->session, text_string(&asked), NULL, &request, &failure) != ATT_OK)
        code = cli_report(chosen->cli, cli_exit_code(failure.status), text_string(&failure.text));
    else if (!choose_next(chosen->session, &request, &choice, NULL))
        code = cli_error(chosen->cli, CLI_SPEC, "no kernel answers %s: %s", text_string(&asked), choice.reason);
    else if (chosen->cli->verbose)
        cli_note(chosen->cli, "%s: %s (%s)", text_string(&asked), choice.variant.name, choice.rule);
    *variant = choice.variant;
    failure_clear(&failure);
    text_free(&asked);
    text_free(&sizes);
    return code;
}

enum exit_code chosen_each(struct chosen *chosen, struct catalog *catalog,
                           enum exit_code (*take)(void *context, const struct variant *variant), void *context) {
    struct variant variant, answer;
    enum exit_code code = CLI_OK;
    catalog_rewind(catalog);
    while (!code && catalog_next(catalog, &variant)) {
        struct text problem = {0};
        field_print_problem(&variant.knobs, &problem);
        /* A bare problem names no schedule, so it does not matter whether its default one is feasible. */
        bool wanted = (variant.feasible || !catalog->spec) && is_new(chosen, &problem);
        for (int i = 0; !code && wanted && i < chosen->shapes.count; i++) {
            if (!field_fits(&variant.knobs, &chosen->shapes.shape[i]))
                continue;
            code = choose(chosen, &problem, &chosen->shapes.shape[i], variant.knobs.family, &answer);
            code = code ? code : take(context, &answer);
        }
        text_free(&problem);
    }
    return code;
}
