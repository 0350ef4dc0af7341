/* attile show: prints the emitted source of a variant as generated, or with the template line that each line came
   from. */
#include "catalog.h"

#include <string.h>

const struct option options_show[] = {
    {"lines", 'n', OPTION_FLAG, NULL, "put line numbers, and the template line each came from, in front"},
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

static void show_lines(struct cli *cli, const struct source *source) {
    const char *at = text_string(&source->text);
    int width = 0;
    for (int i = 0; i < source->lines; i++) {
        const struct line_origin *origin = &source->origin[i];
        int size = origin->file ? (int)strlen(origin->file) : 0;
        width = size > width ? size : width;
    }
    for (int i = 0; *at; i++) {
        const struct line_origin *origin = i < source->lines ? &source->origin[i] : NULL;
        size_t size = strcspn(at, "\n");
        text_print(&cli->out, "%5d  ", i + 1);
        if (origin && origin->file)
            text_print(&cli->out, "%*s:%-4d", width, origin->file, origin->line);
        else
            text_print(&cli->out, "%*s", width + 5, "");
        text_print(&cli->out, "  %.*s\n", (int)size, at);
        at += size + (at[size] == '\n');
    }
}

static void show_json(struct cli *cli, const struct catalog *catalog, const struct variant *variant,
                      const struct source *source) {
    struct json json;
    cli_json_open(cli, &json);
    json_put_string(&json, "spec", catalog->name);
    json_put_string(&json, "variant", variant->name);
    json_put_string(&json, "source", text_string(&source->text));
    json_open_array(&json, "lines");
    for (int i = 0; i < source->lines; i++) {
        json_open_object(&json, NULL);
        json_put_string(&json, "file", source->origin[i].file);
        json_put_integer(&json, "line", source->origin[i].line);
        json_end(&json);
    }
    json_close(&json);
}

static enum exit_code show_first(struct cli *cli, struct catalog *catalog) {
    struct variant variant;
    struct source source = {0};
    while (catalog_next(catalog, &variant) && !variant.feasible)
        ;
    enum exit_code code = catalog_expand(catalog, cli, &variant, &source);
    if (!code && cli->json)
        show_json(cli, catalog, &variant, &source);
    else if (!code && cli_given(cli, "lines"))
        show_lines(cli, &source);
    else if (!code)
        text_append(&cli->out, source.text.bytes, source.text.size);
    source_free(&source);
    return code;
}

enum exit_code verb_show(struct cli *cli) {
    struct catalog catalog;
    int feasible, pruned;
    enum exit_code code = catalog_open(&catalog, cli);
    if (!code)
        code = catalog_count(&catalog, cli, &feasible, &pruned);
    if (!code)
        code = show_first(cli, &catalog);
    if (!code && feasible > 1)
        cli_note(cli, "this is the first of %d variants; --variant picks another (attile list %s)", feasible,
                 catalog.name);
    catalog_close(&catalog);
    return code;
}
