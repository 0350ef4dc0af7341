#include "explain_tiles.h"
#include "catalog.h"
#include "file.h"
#include "shapes.h"
#include "tile_map.h"
#include "shape_text.h"

#include <inttypes.h>
#include <string.h>

enum { PICTURE_WIDTH = 96, USUAL_BLOCK = 64, SEED = 0 };

struct explanation {
    struct cli *cli;
    struct json json;
    struct shapes shapes;
    bool drawn; /* the SVG */
};

/* Prints what is computed and at which sizes: "k <= q and q - k < window, window=64 at batch=1 ...". */
static void print_title(const struct knobs *problem, const struct params *params, const struct shape *shape,
                        struct text *text) {
    const struct formula_scope *scope = &params->formulas.scope;
    unsigned named = params->formulas.mask ? formula_params(params->formulas.mask) : 0;
    if (params->formulas.mask)
        formula_print(params->formulas.mask, text);
    else
        text_print(text, "%s", knob_word_name(KNOB_mask, problem->mask));
    for (int i = 0; i < scope->count; i++) {
        if (!(named >> i & 1))
            continue;
        if (scope->param[i].dims)
            text_print(text, params->given[i] ? ", given %s" : ", random %s", scope->param[i].name);
        else
            text_print(text, ", %s=%g", scope->param[i].name, params->param[i].value[0]);
    }
    struct text sizes = {0};
    shape_print(shape, problem->family, &sizes);
    text_print(text, "; %s", text_string(&sizes));
    text_free(&sizes);
}

static double percent(int64_t part, int64_t whole) { return whole > 0 ? 100.0 * (double)part / (double)whole : 0; }

static void say(struct explanation *e, const struct tile_map *map, const char *name, const char *title) {
    struct text *out = &e->cli->out;
    int64_t tiles = map->count[FORMULA_EMPTY] + map->count[FORMULA_PARTIAL] + map->count[FORMULA_FULL];
    text_print(out, "%s%s\n  %s\n", out->size ? "\n" : "", name, title);
    text_print(out,
               "  %" PRId64 " tiles of %d queries and %d keys: %" PRId64 " empty (%.1f %%), %" PRId64
               " partial, %" PRId64 " full\n",
               tiles, map->block_m, map->block_n, map->count[FORMULA_EMPTY], percent(map->count[FORMULA_EMPTY], tiles),
               map->count[FORMULA_PARTIAL], map->count[FORMULA_FULL]);
    if (map->seen >= 0)
        text_print(out, "  %.1f %% of the pairs are seen; %" PRId64 " tiles are computed in which none is\n",
                   percent(map->seen, map->pairs), map->needless);
    tile_map_draw(map, PICTURE_WIDTH, out);
}

static void say_json(struct explanation *e, const struct tile_map *map, const char *name, const char *title) {
    struct json *json = &e->json;
    json_open_object(json, NULL);
    json_put_string(json, "variant", name);
    json_put_string(json, "mask", title);
    json_put_integer(json, "block_m", map->block_m);
    json_put_integer(json, "block_n", map->block_n);
    json_put_integer(json, "empty", map->count[FORMULA_EMPTY]);
    json_put_integer(json, "partial", map->count[FORMULA_PARTIAL]);
    json_put_integer(json, "full", map->count[FORMULA_FULL]);
    if (map->seen >= 0) {
        json_put_integer(json, "pairs", map->pairs);
        json_put_integer(json, "pairs_seen", map->seen);
        json_put_integer(json, "needless", map->needless);
    }
    json_end(json);
}

static enum exit_code draw_svg(struct explanation *e, const struct tile_map *map, const char *title) {
    struct text svg = {0}, error = {0};
    enum exit_code code = CLI_OK;
    tile_map_svg(map, title, &svg);
    if (svg.failed || !file_save(cli_text(e->cli, "svg", ""), svg.bytes, svg.size, NULL, &error))
        code = cli_error(e->cli, CLI_IO, "%s", svg.failed ? "out of memory" : text_string(&error));
    e->drawn = true;
    text_free(&svg);
    text_free(&error);
    return code;
}

static enum exit_code explain_one(struct explanation *e, const struct knobs *knobs, const char *name,
                                  const struct shape *shape) {
    struct text title = {0}, error = {0};
    struct tile_map map = {0};
    int block_m = knobs->block_m > 0 ? knobs->block_m : USUAL_BLOCK;
    int block_n = knobs->block_n > 0 ? knobs->block_n : USUAL_BLOCK;
    enum exit_code code = CLI_OK;
    struct params *params = params_make_given(knobs, shape, SEED, cli_text(e->cli, "params", NULL), &error);
    if (!params || !params_fit(params, &error))
        code = cli_error(e->cli, CLI_USAGE, "%s", text_string(&error));
    else if (!tile_map_make(&map, knobs, params, block_m, block_n))
        code = cli_error(e->cli, CLI_INTERNAL, "out of memory");
    if (!code) {
        print_title(knobs, params, shape, &title);
        (e->cli->json ? say_json : say)(e, &map, name, text_string(&title));
        if (cli_given(e->cli, "svg") && !e->drawn)
            code = draw_svg(e, &map, text_string(&title));
    }
    tile_map_free(&map);
    params_free(params);
    text_free(&title);
    text_free(&error);
    return code;
}

static enum exit_code explain_shapes(struct explanation *e, const struct knobs *knobs, const char *name) {
    enum exit_code code = CLI_OK;
    for (int i = 0; !code && i < e->shapes.count; i++)
        code = cli_interrupted() ? CLI_INTERRUPTED : explain_one(e, knobs, name, &e->shapes.shape[i]);
    return code;
}

/* A problem with an open schedule has no tiles of its own yet; then those of USUAL_BLOCK are shown. */
static enum exit_code explain_all(struct explanation *e, struct catalog *catalog) {
    struct variant variant;
    enum exit_code code = CLI_OK;
    int explained = 0;
    if (!catalog->spec)
        return explain_shapes(e, &catalog->problem, "the problem");
    while (!code && catalog_next(catalog, &variant))
        if (variant.feasible && ++explained)
            code = explain_shapes(e, &variant.knobs, variant.name);
    if (!code && !explained)
        code = cli_error(e->cli, CLI_USAGE, "no feasible variant of %s is '%s'; see attile list %s", catalog->name,
                         cli_text(e->cli, "variant", "*"), catalog->name);
    return code;
}

static enum exit_code explain_catalog(struct cli *cli, struct catalog *catalog) {
    struct explanation e = {.cli = cli};
    struct spec problem = {.family = catalog->problem.family};
    const struct spec *spec = catalog->spec ? catalog->spec : &problem;
    if (spec->family != family_attention_forward)
        return cli_error(cli, CLI_USAGE, "--tiles is for attention; %s is of family %s", catalog->name,
                         knob_word_name(KNOB_family, spec->family));
    enum exit_code code = shapes_read(&e.shapes, cli, spec);
    struct text error = {0};
    if (!code && cli_given(cli, "svg") && !file_can_save(cli_text(cli, "svg", ""), &error))
        code = cli_error(cli, CLI_IO, "--svg: %s", text_string(&error));
    text_free(&error);
    if (code)
        return code;
    if (cli->json) {
        cli_json_open(cli, &e.json);
        json_open_array(&e.json, "maps");
    }
    code = explain_all(&e, catalog);
    if (cli->json)
        json_close(&e.json);
    return code;
}

enum exit_code explain_tiles(struct cli *cli) {
    struct catalog catalog;
    enum exit_code code = catalog_open(&catalog, cli);
    if (!code)
        code = explain_catalog(cli, &catalog);
    catalog_close(&catalog);
    return code;
}
