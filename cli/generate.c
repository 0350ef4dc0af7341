/* attile generate: writes the emitted sources of a spec as files, in two passes: everything is expanded once before
   anything is written, so that a mistake leaves the folder unchanged. */
#include "catalog.h"
#include "file.h"
#include "terminal.h"

#include <string.h>

const struct option options_generate[] = {
    {"out", 'o', OPTION_TEXT, "DIR",
     "folder to write into, made when missing; - = standard output (default: generated)"},
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

struct output {
    struct cli *cli;
    const char *folder; /* null while checking */
    struct json *json;  /* null without --json */
    int written, unchanged;
};

static enum exit_code write_source(struct output *output, const struct variant *variant, const struct source *source) {
    if (!output->folder)
        return CLI_OK;
    if (strcmp(output->folder, "-") == 0) {
        text_append(&output->cli->out, source->text.bytes, source->text.size);
        return CLI_OK;
    }
    struct text path = {0}, error = {0};
    bool changed = false;
    text_print(&path, "%s/%s.cu", output->folder, variant->name);
    bool ok = file_save(text_string(&path), source->text.bytes, source->text.size, &changed, &error);
    if (!ok)
        cli_error(output->cli, CLI_IO, "%s", text_string(&error));
    ++*(changed ? &output->written : &output->unchanged);
    if (ok && output->json) {
        json_open_object(output->json, NULL);
        json_put_string(output->json, "variant", variant->name);
        json_put_string(output->json, "file", text_string(&path));
        json_put_bool(output->json, "changed", changed);
        json_end(output->json);
    }
    text_free(&path);
    text_free(&error);
    return ok ? CLI_OK : CLI_IO;
}

static enum exit_code each_source(struct catalog *catalog, struct output *output, int total) {
    struct variant variant;
    struct progress progress;
    enum exit_code code = CLI_OK;
    progress_open(&progress, total, output->cli->quiet);
    catalog_rewind(catalog);
    for (int done = 0; !code && catalog_next(catalog, &variant);) {
        struct source source = {0};
        if (!variant.feasible)
            continue;
        progress_show(&progress, done++, variant.name);
        code = cli_interrupted() ? CLI_INTERRUPTED : catalog_expand(catalog, output->cli, &variant, &source);
        if (!code)
            code = write_source(output, &variant, &source);
        source_free(&source);
    }
    progress_close(&progress);
    return code;
}

static enum exit_code write_all(struct catalog *catalog, struct output *output, int feasible) {
    struct cli *cli = output->cli;
    struct text error = {0};
    const char *folder = cli_text(cli, "out", "generated");
    bool standard = strcmp(folder, "-") == 0;
    if (!standard && !file_make_folder(folder, &error)) {
        cli_error(cli, CLI_IO, "%s", text_string(&error));
        text_free(&error);
        return CLI_IO;
    }
    output->folder = folder;
    enum exit_code code = each_source(catalog, output, feasible);
    if (!standard)
        cli_note(cli, "%s: %d written, %d unchanged", folder, output->written, output->unchanged);
    return code;
}

enum exit_code verb_generate(struct cli *cli) {
    struct catalog catalog;
    struct output output = {.cli = cli};
    struct json json;
    int feasible, pruned;
    if (cli->json && strcmp(cli_text(cli, "out", ""), "-") == 0)
        return cli_error(cli, CLI_USAGE, "--json and -o - both want standard output; write into a folder");
    cli_catch_interrupt();
    enum exit_code code = catalog_open(&catalog, cli);
    if (!code)
        code = catalog_count(&catalog, cli, &feasible, &pruned);
    if (!code)
        code = each_source(&catalog, &output, feasible);
    if (!code && cli->json) {
        cli_json_open(cli, &json);
        json_put_string(&json, "spec", catalog.name);
        json_open_array(&json, "files");
        output.json = &json;
    }
    if (!code)
        code = write_all(&catalog, &output, feasible);
    if (output.json)
        json_close(&json);
    if (!code && pruned)
        cli_note(cli, "%d pruned; attile list --why says why", pruned);
    catalog_close(&catalog);
    return code;
}
