#include "shapes.h"
#include "shape_text.h"

#include <string.h>

static const struct {
    int family;
    struct shape shape;
} usual[] = {
    {family_attention_forward, {.batch = 16, .heads = 16, .kv_heads = 16, .len_q = 1024, .len_kv = 1024}},
    {family_attention_forward, {.batch = 4, .heads = 16, .kv_heads = 16, .len_q = 4096, .len_kv = 4096}},
    {family_attention_forward, {.batch = 1, .heads = 16, .kv_heads = 16, .len_q = 16384, .len_kv = 16384}},
    {family_attention_backward, {.batch = 16, .heads = 16, .kv_heads = 16, .len_q = 1024, .len_kv = 1024}},
    {family_attention_backward, {.batch = 4, .heads = 16, .kv_heads = 16, .len_q = 4096, .len_kv = 4096}},
    {family_attention_backward, {.batch = 1, .heads = 16, .kv_heads = 16, .len_q = 16384, .len_kv = 16384}},
    {family_softmax, {.rows = 16384, .cols = 4096}},
    {family_merge, {.batch = 1, .heads = 16, .len_q = 16384, .parts = 4}},
    {family_append_kv, {.batch = 8, .heads = 64, .kv_heads = 8, .len_q = 2048, .len_kv = 4096}},
};

static enum exit_code parse(struct shapes *shapes, const struct cli *cli, const char *text, int family) {
    char one[512];
    struct text error = {0};
    enum exit_code code = CLI_OK;
    for (const char *at = text; !code && at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        size_t size = strcspn(at, ";");
        if (strspn(at, " ,") == size) /* empty part before or after a ';' */
            continue;
        if (shapes->count == SPEC_SHAPES)
            code = cli_error(cli, CLI_USAGE, "--shapes: more than %d shapes", SPEC_SHAPES);
        else if (size >= sizeof one)
            code = cli_error(cli, CLI_USAGE, "--shapes: this shape is longer than any can be: '%.40s...'", at);
        else {
            memcpy(one, at, size);
            one[size] = '\0';
            if (!shape_parse(one, family, &shapes->shape[shapes->count++], &error))
                code = cli_error(cli, CLI_USAGE, "--shapes: %s", text_string(&error));
        }
    }
    text_free(&error);
    if (!code && shapes->count == 0)
        code = cli_error(cli, CLI_USAGE, "--shapes names no shape");
    return code;
}

enum exit_code shapes_read(struct shapes *shapes, const struct cli *cli, const struct spec *spec) {
    *shapes = (struct shapes){0};
    enum exit_code code = CLI_OK;
    if (cli_given(cli, "shapes"))
        code = parse(shapes, cli, cli_text(cli, "shapes", ""), spec->family);
    else if (spec->shapes > 0)
        for (; shapes->count < spec->shapes; shapes->count++)
            shapes->shape[shapes->count] = spec->shape[shapes->count];
    else
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
            if (usual[i].family == spec->family)
                shapes->shape[shapes->count++] = usual[i].shape;
    for (int i = 0; i < shapes->count; i++)
        if (shapes->shape[i].kv_heads == 0)
            shapes->shape[i].kv_heads = shapes->shape[i].heads;
    return code;
}
