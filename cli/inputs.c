#include "inputs.h"
#include "file.h"
#include "shape_text.h"

#include <stdlib.h>
#include <string.h>

static const size_t FILE_LIMIT = (size_t)1 << 36;

/* --- files -------------------------------------------------------------------------------------------------------- */

static enum exit_code read_tensor(struct inputs *inputs, const struct cli *cli, int i) {
    struct text content = {0}, error = {0};
    const char *path = inputs->files.path[i] = text_string(&inputs->path[i]);
    enum exit_code code = CLI_OK;
    if (!file_load(path, FILE_LIMIT, &content, &error))
        code = CLI_IO;
    else if (!npy_parse(path, content.bytes, content.size, &inputs->files.file[i], &error))
        code = CLI_USAGE;
    if (code)
        cli_error(cli, code, "%s", text_string(&error));
    text_free(&content);
    text_free(&error);
    return code;
}

/* Finds the input files: those of the command line first, else those of the spec, whose paths are relative to its
   folder. */
static enum exit_code find_files(struct inputs *inputs, const struct cli *cli, const struct spec *spec, int family) {
    static const char *const all[] = {"q", "k", "v", "d_o", "x", "o_parts", "lse_parts"};
    bool given = false;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        bool used = false;
        for (int i = 0; workload_input_name(family, i); i++)
            if (strcmp(workload_input_name(family, i), all[k]) == 0) {
                used = true;
                text_print(&inputs->path[i], "%s", cli_text(cli, all[k], ""));
            }
        if (cli_given(cli, all[k]) && !used)
            return cli_error(cli, CLI_USAGE, "%s has no tensor %s", knob_word_name(KNOB_family, family), all[k]);
        given = given || cli_given(cli, all[k]);
    }
    if (given && cli_given(cli, "shape"))
        return cli_error(cli, CLI_USAGE, "--shape is for random tensors; the sizes of files are in the files");
    for (int n = 0; !given && !cli_given(cli, "shape") && spec && n < spec->inputs; n++)
        for (int i = 0; workload_input_name(family, i); i++)
            if (strcmp(workload_input_name(family, i), spec->input_file[n].name) == 0)
                file_beside(spec->input.name, spec->input_file[n].path, &inputs->path[i]);
    for (int i = 0; i < WORKLOAD_INPUTS; i++)
        inputs->from_files = inputs->from_files || inputs->path[i].size > 0;
    return CLI_OK;
}

/* Checks that the files fit every variant that will run. */
static enum exit_code check_files(const struct inputs *inputs, const struct cli *cli, struct catalog *catalog) {
    struct variant variant;
    enum exit_code code = CLI_OK;
    catalog_rewind(catalog);
    while (!code && catalog_next(catalog, &variant)) {
        struct shape shape;
        struct text error = {0};
        if (variant.feasible && !workload_shape(&variant.knobs, &inputs->files, &shape, &error))
            code = cli_error(cli, CLI_USAGE, "%s (for variant %s; --variant picks variants)", text_string(&error),
                             variant.name);
        text_free(&error);
    }
    return code;
}

enum exit_code inputs_open(struct inputs *inputs, struct cli *cli, struct catalog *catalog) {
    *inputs = (struct inputs){0};
    const struct spec *spec = catalog->spec;
    int family = spec ? spec->family : catalog->problem.family;
    enum exit_code code = find_files(inputs, cli, spec, family);
    for (int i = 0; !code && i < WORKLOAD_INPUTS; i++)
        if (inputs->path[i].size > 0)
            code = read_tensor(inputs, cli, i);
    if (code)
        return code;
    inputs->shapes = 1;
    if (inputs->from_files)
        return check_files(inputs, cli, catalog);
    if (cli_given(cli, "shape")) {
        struct text error = {0};
        inputs->shape = &inputs->given;
        if (!shape_parse(cli_text(cli, "shape", ""), family, &inputs->given, &error))
            code = cli_error(cli, CLI_USAGE, "--shape: %s", text_string(&error));
        text_free(&error);
        return code;
    }
    if (!spec || spec->shapes == 0)
        return cli_error(cli, CLI_USAGE, "%s names no tensors to run on; give --shape or files", catalog->name);
    inputs->shape = spec->shape;
    inputs->shapes = spec->shapes;
    return CLI_OK;
}

void inputs_close(struct inputs *inputs) {
    for (int i = 0; i < WORKLOAD_INPUTS; i++) {
        npy_free(&inputs->files.file[i]);
        text_free(&inputs->path[i]);
    }
    *inputs = (struct inputs){0};
}

struct shape inputs_shape(const struct inputs *inputs, const struct knobs *knobs, int i) {
    struct shape shape = {0};
    struct text error = {0};
    if (inputs->from_files)
        workload_shape(knobs, &inputs->files, &shape, &error); /* checked by inputs_open */
    else
        shape = inputs->shape[i];
    text_free(&error);
    return shape;
}
