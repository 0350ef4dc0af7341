/* attile explain --model: the model's estimate of a variant's time, term by term. */
#include "explore.h"
#include "shape_text.h"
#include "terminal.h"

#include <string.h>

static const struct {
    const char *name, *unit, *about;
    size_t offset;
} terms_table[] = {
#define TERM(name, unit, about) {#name, unit, about, offsetof(struct model_terms, name)},
#include "terms.def"
};
enum { TERMS = sizeof terms_table / sizeof *terms_table };

static double term(const struct model_terms *terms, int i) {
    return *(const double *)((const char *)terms + terms_table[i].offset);
}

static void print_terms(struct exploration *e, const struct variant *variant, const struct shape *shape,
                        const struct model_terms *terms) {
    static const char *const headings[] = {"term", "value", "unit", ""};
    struct text *out = &e->cli->out;
    struct table table;
    struct text sizes = {0};
    shape_print(shape, e->spec->family, &sizes);
    text_print(out, "%s%s\npredicted for %s at %s:\n", out->size ? "\n" : "", variant->name, e->gpu.name,
               text_string(&sizes));
    text_free(&sizes);
    print_seconds(out, terms->seconds);
    text_print(out, ", %.1f TFLOP/s, %.0f GB/s; what takes longest: %s\n", terms->flops / terms->seconds * 1e-12,
               terms->bytes / terms->seconds * 1e-9, terms->bound);
    table_open(&table, 4, headings, "lrll");
    for (int i = 0; i < TERMS; i++) {
        table_row(&table);
        table_cell(&table, 0, CELL_PLAIN, "%s", terms_table[i].name);
        table_cell(&table, 1, CELL_PLAIN, "%.4g", term(terms, i));
        table_cell(&table, 2, CELL_PLAIN, "%s", strcmp(terms_table[i].unit, "1") == 0 ? "" : terms_table[i].unit);
        table_cell(&table, 3, CELL_FAINT, "%s", terms_table[i].about);
    }
    table_print(&table, e->cli->color_out, e->cli->width, out);
    table_free(&table);
}

static void json_terms(struct json *json, const struct variant *variant, const struct shape *shape, int family,
                       const struct model_terms *terms) {
    json_open_object(json, NULL);
    json_put_string(json, "variant", variant->name);
    json_open_object(json, "shape");
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families & 1u << family)
            json_put_integer(json, shape_table[id].name, shape_get(shape, (enum shape_id)id));
    json_end(json);
    json_put_string(json, "bound", terms->bound);
    for (int i = 0; i < TERMS; i++)
        json_put_number(json, terms_table[i].name, term(terms, i));
    json_end(json);
}

static void show(struct exploration *e, struct json *json, const struct variant *variant) {
    int unknown = 0;
    for (int k = 0; k < e->shapes.count; k++) {
        struct model_terms terms;
        if (!model_predict_once(&e->gpu, variant, &e->shapes.shape[k], NULL, &terms))
            unknown++;
        else if (e->cli->json)
            json_terms(json, variant, &e->shapes.shape[k], e->spec->family, &terms);
        else
            print_terms(e, variant, &e->shapes.shape[k], &terms);
    }
    if (unknown)
        cli_note(e->cli, "%s: no prediction at %d of %d shapes: the model has no such kernel, or the shape is empty",
                 variant->name, unknown, e->shapes.count);
}

/* True if the model can rank schedules of this problem. */
static bool is_modelled(const struct exploration *e, const struct variant *variant) {
    struct model_terms terms;
    bool any = false;
    for (int k = 0; k < e->shapes.count; k++)
        any |= model_predict_once(&e->gpu, variant, &e->shapes.shape[k], NULL, &terms);
    return any;
}

/* A problem may leave its schedule open; then this shows the model's first choice. */
static enum exit_code show_best(struct exploration *e, struct json *json) {
    struct variant variant;
    enum exit_code code = explore_find(e);
    if (code)
        return code;
    explore_variant(e, &e->candidates.candidate[0], &variant);
    if (e->candidates.count > 1 && is_modelled(e, &variant))
        cli_note(e->cli, "the model's first choice of %d; name schedule knobs to see another", e->candidates.count);
    show(e, json, &variant);
    return CLI_OK;
}

static void show_all(struct exploration *e, struct json *json) {
    struct variant variant;
    while (catalog_next(&e->catalog, &variant))
        if (variant.feasible)
            show(e, json, &variant);
}

enum exit_code explain_model(struct cli *cli) {
    struct exploration e = {.cli = cli};
    struct json json;
    enum exit_code code = explore_open(&e);
    if (!code && cli->json) {
        cli_json_open(cli, &json);
        json_put_string(&json, "gpu", e.gpu.name);
        json_open_array(&json, "predictions");
    }
    if (!code && e.made)
        code = show_best(&e, &json);
    else if (!code)
        show_all(&e, &json);
    if (cli->json && cli->out.size)
        json_close(&json);
    explore_close(&e);
    return code;
}
