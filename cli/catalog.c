#include "catalog.h"
#include "file.h"
#include "knob_text.h"
#include "variant_names.h"
#include "template_folder.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

enum { SPEC_BYTES = 2 << 20, UNWANTED = -2 }; /* the spec reader has its own limit, with a better message */

/* --- opening ------------------------------------------------------------------------------------------------------ */

static enum exit_code open_templates(struct catalog *catalog, struct cli *cli, struct diag *diag) {
    const char *path = cli_text(cli, "templates", NULL);
    if (path && !(catalog->folder = template_folder_open(path)))
        return cli_error(cli, CLI_INTERNAL, "out of memory");
    catalog->templates = template_folder_parse(catalog->folder, diag);
    return catalog->templates ? CLI_OK : CLI_SPEC;
}

/* True for "name=value": a problem, or a filter by knobs; anything else is a file or a name. */
static bool has_pairs(const char *text) { return strchr(text, '=') != NULL; }

static enum exit_code open_problem(struct catalog *catalog, const char *text, struct diag *diag) {
    unsigned all = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    struct input input = {"<problem>", text, strlen(text)};
    catalog->name = "<problem>";
    for (int id = 0; id < KNOB_COUNT; id++)
        knob_set(&catalog->given, (enum knob_id)id, AUTO);
    if (!problem_parse(&input, all, &catalog->given, &catalog->hints, diag))
        return CLI_SPEC;
    catalog->problem = knobs_default();
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_get(&catalog->given, (enum knob_id)id) != AUTO)
            knob_set(&catalog->problem, (enum knob_id)id, knob_get(&catalog->given, (enum knob_id)id));
    catalog->problem.formulas = catalog->given.formulas;
    return CLI_OK;
}

/* Returns the family that was meant: the first one that begins with this text. A family alone is not a problem yet, but
   newcomers type it. */
static const char *meant_family(const char *path) {
    const char *const *families = knob_table[KNOB_family].words;
    for (const char *const *family = families; *path && *family; family++)
        if (strncmp(*family, path, strlen(path)) == 0)
            return *family;
    return knob_word(KNOB_family, path, strlen(path)) >= 0 ? path
                                                           : diag_nearest(path, strlen(path), next_word, &families);
}

static enum exit_code open_spec(struct catalog *catalog, struct cli *cli, const char *path, struct diag *diag) {
    struct text error = {0};
    catalog->name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    if (!file_load(path, SPEC_BYTES, &catalog->content, &error)) {
        const char *family = meant_family(path);
        cli_error(cli, CLI_IO, "%s%s%s%s", text_string(&error), family ? "; did you mean the problem 'family=" : "",
                  family ? family : "", family ? "'?" : "");
        text_free(&error);
        return CLI_IO;
    }
    catalog->spec = spec_read(catalog->name, text_string(&catalog->content), catalog->content.size, diag);
    return catalog->spec ? CLI_OK : CLI_SPEC;
}

static enum exit_code open_filter(struct catalog *catalog, const struct cli *cli, struct diag *diag) {
    catalog->wanted = knobs_filled(UNWANTED);
    const char *filter = cli_text(cli, "variant", NULL);
    if (!filter)
        return CLI_OK;
    if (!has_pairs(filter)) {
        catalog->pattern = filter;
        return CLI_OK;
    }
    unsigned all = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    struct input input = {"--variant", filter, strlen(filter)};
    return knobs_parse(&input, all, &catalog->wanted, diag) ? CLI_OK : CLI_USAGE;
}

enum exit_code catalog_open(struct catalog *catalog, struct cli *cli) {
    *catalog = (struct catalog){0};
    struct diag diag = {0};
    const char *argument = cli->options.argument[0];
    enum exit_code code = open_filter(catalog, cli, &diag);
    if (!code)
        code = open_templates(catalog, cli, &diag);
    if (!code)
        code = has_pairs(argument) ? open_problem(catalog, argument, &diag) : open_spec(catalog, cli, argument, &diag);
    if (diag.errors)
        cli_report(cli, code, text_string(&diag.text));
    else if (diag.text.size && !cli->quiet)
        cli_report(cli, CLI_OK, text_string(&diag.text));
    diag_free(&diag);
    if (!code)
        catalog_rewind(catalog);
    return code;
}

void catalog_close(struct catalog *catalog) {
    spec_free(catalog->spec);
    template_set_close(catalog->templates);
    template_folder_close(catalog->folder);
    text_free(&catalog->content);
    *catalog = (struct catalog){0};
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

void catalog_rewind(struct catalog *catalog) {
    catalog->started = false;
    if (catalog->spec)
        variants_open(&catalog->variants, catalog->spec, catalog->templates);
}

bool catalog_wants(const struct catalog *catalog, const struct variant *variant) {
    if (catalog->pattern)
        return fnmatch(catalog->pattern, variant->name, 0) == 0;
    for (int id = 0; id < KNOB_COUNT; id++) {
        if (knob_get(&catalog->wanted, id) != UNWANTED && !knob_same(&catalog->wanted, &variant->knobs, id))
            return false;
    }
    return true;
}

bool catalog_next(struct catalog *catalog, struct variant *variant) {
    for (;;) {
        if (catalog->spec ? !variants_next(&catalog->variants, variant) : catalog->started)
            return false;
        if (!catalog->spec)
            variant_complete(catalog->templates, &catalog->problem, true, variant);
        catalog->started = true;
        if (catalog_wants(catalog, variant))
            return true;
    }
}

/* Returns the target with which the problem is feasible, or null. A problem that names no target is for any. */
static const char *target_that_would_do(const struct catalog *catalog) {
    struct knobs knobs = catalog->problem;
    struct variant variant;
    if (catalog->spec || catalog->given.target != AUTO)
        return NULL;
    for (knobs.target = 0; knob_table[KNOB_target].words[knobs.target]; knobs.target++) {
        variant_complete(catalog->templates, &knobs, true, &variant);
        if (variant.feasible)
            return knob_word_name(KNOB_target, knobs.target);
    }
    return NULL;
}

enum exit_code catalog_count(struct catalog *catalog, const struct cli *cli, int *feasible, int *pruned) {
    struct variant variant;
    struct text reason = {0}, clash = {0};
    struct variant_names names = {0};
    bool apart = true;
    *feasible = *pruned = 0;
    catalog_rewind(catalog);
    while (apart && catalog_next(catalog, &variant)) {
        ++*(variant.feasible ? feasible : pruned);
        if (!variant.feasible && *pruned == 1)
            text_print(&reason, "%s", variant.reason);
        apart = !variant.feasible || variant_names_take(&names, &variant, &clash) != VARIANT_NAMES_FAILED;
    }
    variant_names_free(&names);
    catalog_rewind(catalog);
    enum exit_code code = !apart ? CLI_SPEC : *feasible ? CLI_OK : *pruned ? CLI_SPEC : CLI_USAGE;
    if (!apart)
        cli_error(cli, code, "%s: %s", catalog->name, text_string(&clash));
    text_free(&clash);
    if (code == CLI_USAGE)
        cli_error(cli, code, "no variant of %s is '%s'; see attile list %s", catalog->name,
                  cli_text(cli, "variant", "*"), catalog->name);
    const char *target = code == CLI_SPEC ? target_that_would_do(catalog) : NULL;
    if (code == CLI_SPEC)
        cli_error(cli, code,
                  *pruned == 1 ? "%s is not feasible: %s%s%s" : "no variant of %s is feasible; the first: %s%s%s",
                  catalog->name, text_string(&reason), target ? "; it is with target=" : "", target ? target : "");
    text_free(&reason);
    return code;
}

void catalog_print_given(const struct catalog *catalog, struct text *problem, struct text *schedule) {
    const struct variant given = {.knobs = catalog->given, .used = KNOB_ALL};
    variant_print_problem(&given, problem, schedule);
    for (int i = 0; i < SHAPE_COUNT; i++)
        if (shape_get(&catalog->hints.shape, (enum shape_id)i) >= 0)
            text_print(problem, " %s=%" PRId64, shape_table[i].name,
                       shape_get(&catalog->hints.shape, (enum shape_id)i));
    if (catalog->hints.alignment)
        text_print(problem, " alignment=%d", catalog->hints.alignment);
}

enum exit_code catalog_expand(const struct catalog *catalog, const struct cli *cli, const struct variant *variant,
                              struct source *source) {
    struct diag diag = {0};
    bool ok = source_expand(catalog->templates, variant, catalog->name, source, &diag);
    if (!ok)
        cli_report(cli, CLI_SPEC, text_string(&diag.text));
    diag_free(&diag);
    return ok ? CLI_OK : CLI_SPEC;
}
