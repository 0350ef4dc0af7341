#include "gpu_option.h"
#include "file.h"

#include <string.h>

enum exit_code gpu_option_name(const struct cli *cli, const char *name, const char *instead, struct model_gpu *gpu) {
    struct text known = {0};
    char one[64];
    if (model_gpu_find(name, gpu))
        return CLI_OK;
    for (int i = 0; model_gpu_list(i, one, sizeof one); i++)
        text_print(&known, "%s%s", i ? ", " : "", one);
    enum exit_code code = cli_error(cli, CLI_USAGE, "--for: no file of devices/ is for '%s': expected %s%s", name,
                                    text_string(&known), instead);
    text_free(&known);
    return code;
}

static enum exit_code read_file(const struct cli *cli, const char *path, struct model_gpu *gpu) {
    struct text content = {0}, error = {0};
    struct diag diag = {0};
    enum exit_code code = CLI_OK;
    if (!file_load(path, 1 << 20, &content, &error)) {
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    } else {
        struct input input = {path, text_string(&content), content.size};
        if (!model_gpu_read(&input, gpu, &diag))
            code = cli_report(cli, CLI_USAGE, text_string(&diag.text));
    }
    diag_free(&diag);
    text_free(&content);
    text_free(&error);
    return code;
}

enum exit_code gpu_option_read(const struct cli *cli, struct model_gpu *gpu) {
    const char *name = cli_text(cli, "for", "h200");
    if ((strchr(name, '/') || strchr(name, '.')) && !model_gpu_find(name, gpu))
        return read_file(cli, name, gpu);
    return gpu_option_name(cli, name, ", or the path of a device file", gpu);
}
