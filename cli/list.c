/* attile list: the variants of a spec, optionally with the reasons why others were pruned. */
#include "catalog.h"
#include "terminal.h"

const struct option options_list[] = {
    {"why", 0, OPTION_FLAG, NULL, "also list pruned variants, each with the constraint that failed"},
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

enum { PIECE = 1 << 16, MANY = 100000 };

static void print_knobs(const struct variant *variant, struct json *json) {
    json_open_object(json, "knobs");
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = knob_get(&variant->knobs, id);
        if (!knob_in(variant->used, id) || value == AUTO)
            continue;
        const char *formula = knob_formula(&variant->knobs, id);
        if (knob_table[id].words)
            json_put_string(json, knob_table[id].name, formula ? formula : knob_word_name(id, value));
        else
            json_put_integer(json, knob_table[id].name, value);
    }
    json_end(json);
}

static void list_json(struct cli *cli, struct catalog *catalog, bool why, int feasible, int pruned) {
    struct json json;
    struct variant variant;
    cli_json_open(cli, &json);
    json_put_string(&json, "spec", catalog->name);
    json_put_integer(&json, "feasible", feasible);
    json_put_integer(&json, "pruned", pruned);
    json_open_array(&json, "variants");
    while (catalog_next(catalog, &variant)) {
        if (!variant.feasible && !why)
            continue;
        json_open_object(&json, NULL);
        json_put_string(&json, "name", variant.name);
        json_put_bool(&json, "feasible", variant.feasible);
        if (!variant.feasible)
            json_put_string(&json, "reason", variant.reason);
        print_knobs(&variant, &json);
        json_end(&json);
    }
    json_close(&json);
}

/* A pruned variant may have no name, so its knobs identify it. */
static void print_pruned(struct cli *cli, const struct variant *variant) {
    struct text knobs = {0};
    struct variant whole = *variant;
    whole.used |= whole.used ? 0 : KNOB_ALL; /* without a template all knobs count */
    variant_print(&whole, &knobs);
    text_print(&cli->out, "%spruned%s  %s\n        because %s\n", cli->color_out ? "\033[2m" : "",
               cli->color_out ? "\033[0m" : "", text_string(&knobs), variant->reason);
    text_free(&knobs);
}

/* Prints variants as they are found: a spec may stand for millions. */
static enum exit_code list_text(struct cli *cli, struct catalog *catalog, bool why) {
    struct variant variant;
    int feasible = 0, pruned = 0;
    bool written = true;
    while (written && !cli_interrupted() && catalog_next(catalog, &variant)) {
        ++*(variant.feasible ? &feasible : &pruned);
        if (variant.feasible)
            text_print(&cli->out, "%s\n", variant.name);
        else if (why)
            print_pruned(cli, &variant);
        written = cli->out.size < PIECE || cli_write(cli);
    }
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    if (!written)
        return CLI_IO;
    if (!feasible)
        return catalog_count(catalog, cli, &feasible, &pruned);
    cli_note(cli, "%d variant%s, %d pruned%s", feasible, feasible == 1 ? "" : "s", pruned,
             pruned && !why ? "; --why says why" : "");
    return CLI_OK;
}

/* Announces an enumeration that takes long. */
static void announce(const struct cli *cli, const struct spec *spec) {
    double combinations = 1;
    for (int id = 0; spec && id < KNOB_COUNT; id++)
        combinations *= spec->axis[id].count > 1 ? spec->axis[id].count : 1;
    if (combinations >= MANY)
        cli_note(cli, "%.0f combinations to look at; --variant picks some", combinations);
}

enum exit_code verb_list(struct cli *cli) {
    struct catalog catalog;
    int feasible, pruned;
    cli_catch_interrupt();
    enum exit_code code = catalog_open(&catalog, cli);
    bool why = cli_given(cli, "why");
    if (!code)
        announce(cli, catalog.spec);
    if (!code && !cli->json)
        code = list_text(cli, &catalog, why);
    else if (!code) {
        code = catalog_count(&catalog, cli, &feasible, &pruned);
        if (!code || (code == CLI_SPEC && why && pruned > 0))
            list_json(cli, &catalog, why, feasible, pruned);
    }
    catalog_close(&catalog);
    return code;
}
