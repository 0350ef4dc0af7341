#include "explore.h"
#include "terminal.h"
#include "shape_text.h"
#include "variant_label.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_schedule(int id) { return knob_table[id].group == KNOB_GROUP_SCHEDULE || id == KNOB_target; }

static void print_value(int id, int value, struct text *text) {
    if (knob_table[id].words)
        text_print(text, "%s", knob_word_name((enum knob_id)id, value));
    else
        text_print(text, "%d", value);
}

/* Prints family and problem knobs as on a command line, without implied values. */
static void print_problem(const struct variant *variant, struct text *text) {
    const struct knobs *knobs = &variant->knobs;
    const char *separator = "";
    for (int id = 0; id < KNOB_COUNT; id++) {
        if (is_schedule(id) || !knob_in(variant->used, id) || variant_label_implied(knobs, (enum knob_id)id))
            continue;
        text_print(text, "%s%s=", separator, knob_table[id].name);
        knob_print(knobs, (enum knob_id)id, text);
        separator = " ";
    }
}

/* --- for people --------------------------------------------------------------------------------------------------- */

enum { TIMES_SHOWN = 3, BEST_SHOWN = 16, PRUNED_SHOWN = 6 };

static void print_pruned(const struct exploration *e, struct text *text) {
    const struct candidates *all = &e->candidates;
    int64_t pruned = 0;
    for (int i = 0; i < all->prunings; i++)
        pruned += all->pruning[i].count;
    text_print(text, "%" PRId64 " schedules, %" PRId64 " not possible", all->tried, pruned);
    text_print(text, pruned ? ", most of them because (an example of each):\n" : "\n");
    for (int i = 0; i < all->prunings && i < PRUNED_SHOWN; i++) {
        text_print(text, "%10" PRId64 "  ", all->pruning[i].count);
        terminal_wrap(text, all->pruning[i].example, 12, e->cli->width);
    }
    if (all->prunings > PRUNED_SHOWN)
        text_print(text, "            and %d more constraints\n", all->prunings - PRUNED_SHOWN);
}

static void print_row(const struct exploration *e, struct table *table, const struct explored *x, int rank,
                      const struct variant_label *label) {
    struct text schedule = {0};
    int column = 0, times = e->shapes.count < TIMES_SHOWN ? e->shapes.count : TIMES_SHOWN;
    enum cell_style faint = x->compiled.outcome == COMPILE_GOOD ? CELL_PLAIN : CELL_FAINT;
    variant_label_print(label, &x->variant, &schedule);
    table_row(table);
    table_cell(table, column++, faint, "%d", rank);
    table_cell(table, column++, faint, "%s", text_string(&schedule));
    for (int k = 0; k < times; k++) {
        struct text time = {0};
        print_seconds(&time, x->terms[k].seconds);
        table_cell(table, column++, faint, "%s", x->terms[k].seconds > 0 ? text_string(&time) : "?");
        text_free(&time);
    }
    table_cell(table, column++, faint, isfinite(x->score) ? "%.3f" : "?", x->score);
    if (x->compiled.outcome == COMPILE_GOOD) {
        struct text shared = {0};
        print_bytes(&shared, x->compiled.shared_bytes);
        table_cell(table, column++, CELL_PLAIN, "%d", x->compiled.registers);
        table_cell(table, column++, x->compiled.spill_bytes > 0 ? CELL_BAD : CELL_PLAIN, "%d", x->compiled.spill_bytes);
        table_cell(table, column++, CELL_PLAIN, "%s", text_string(&shared));
        table_cell(table, column++, CELL_PLAIN, "%d", x->compiled.instructions);
        table_cell(table, column++, CELL_PLAIN, "%.2f s", x->compiled.seconds);
        table_cell(table, column++, CELL_GOOD, "%s", x->front ? "front" : "");
        text_free(&shared);
    } else {
        table_cell(table, column++, CELL_BAD, "%s", compile_outcome_name(x->compiled.outcome));
    }
    text_free(&schedule);
}

static void print_compiled(struct exploration *e, const struct explored *first, int count) {
    const char *headings[TABLE_COLUMNS] = {"#", "schedule"};
    static const char *const names[TIMES_SHOWN] = {"A", "B", "C"};
    static const char *const rest[] = {"of best", "regs", "spills", "shared", "instr.", "compiled", "Pareto"};
    char alignment[TABLE_COLUMNS + 1] = "rl";
    struct table table;
    int columns = 2;
    for (int k = 0; k < e->shapes.count && k < TIMES_SHOWN; k++)
        headings[columns] = names[k], alignment[columns++] = 'r';
    for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
        headings[columns] = rest[k], alignment[columns++] = k + 1 < sizeof rest / sizeof *rest ? 'r' : 'l';
    table_open(&table, columns, headings, alignment);
    struct variant_label label = {0};
    for (int i = 0; i < count; i++)
        variant_label_add(&label, &first[i].variant);
    int shown = 0;
    for (int i = 0; i < count; i++)
        if (shown < BEST_SHOWN || first[i].front || e->cli->verbose) {
            print_row(e, &table, &first[i], i + 1, &label);
            shown++;
        }
    table_print(&table, e->cli->color_out, e->cli->width, &e->cli->out);
    table_free(&table);
    if (shown < count)
        text_print(&e->cli->out, "and %d more (-v shows all)\n", count - shown);
    for (int i = 0; i < count; i++)
        if (first[i].compiled.outcome > COMPILE_GOOD)
            text_print(&e->cli->out, "%s %s: %s\n", first[i].variant.name,
                       compile_outcome_name(first[i].compiled.outcome), first[i].compiled.message);
}

static void print_predicted(struct exploration *e, int problem) {
    static const char *const headings[] = {"#", "predicted", "of best", "schedule"};
    struct table table;
    struct variant variant;
    struct variant_label label = {0};
    int count;
    const struct candidate *first = candidates_of(&e->candidates, problem, &count);
    int shown = count < BEST_SHOWN || e->cli->verbose ? count : BEST_SHOWN;
    for (int i = 0; i < shown; i++) {
        explore_variant(e, &first[i], &variant);
        variant_label_add(&label, &variant);
    }
    text_print(&e->cli->out, "first choice: %s\n", label.first.name);
    table_open(&table, 4, headings, "rrrl");
    for (int i = 0; i < shown; i++) {
        struct text time = {0}, schedule = {0};
        explore_variant(e, &first[i], &variant);
        variant_label_print(&label, &variant, &schedule);
        print_seconds(&time, candidates_seconds(&e->candidates, &first[i], 0));
        table_row(&table);
        table_cell(&table, 0, CELL_PLAIN, "%d", i + 1);
        table_cell(&table, 1, CELL_PLAIN, "%s", text_string(&time));
        table_cell(&table, 2, CELL_PLAIN, isfinite(first[i].score) ? "%.3f" : "?", first[i].score);
        table_cell(&table, 3, CELL_PLAIN, "%s", text_string(&schedule));
        text_free(&time);
        text_free(&schedule);
    }
    table_print(&table, e->cli->color_out, e->cli->width, &e->cli->out);
    table_free(&table);
}

static void print_shapes(struct exploration *e, struct text *text) {
    for (int k = 0; k < e->shapes.count; k++) {
        struct text sizes = {0};
        shape_print(&e->shapes.shape[k], e->spec->family, &sizes);
        text_print(text, "  %c  %s\n", k < TIMES_SHOWN ? 'A' + k : ' ', text_string(&sizes));
        text_free(&sizes);
    }
}

void explore_print(struct exploration *e) {
    struct text *out = &e->cli->out;
    print_pruned(e, out);
    text_print(out, "predicted for %s at\n", e->gpu.name);
    print_shapes(e, out);
    const struct explored *at = e->explored, *end = at + e->explored_count;
    for (int problem = 0; problem < e->candidates.problems; problem++) {
        int possible;
        const struct candidate *first = candidates_of(&e->candidates, problem, &possible);
        const struct explored *next = at;
        while (next < end && next->candidate->problem == problem)
            next++;
        text_print(out, "\n");
        struct variant variant;
        explore_variant(e, first, &variant);
        print_problem(&variant, out);
        text_print(out, ": %d possible, %d compiled\n", possible, (int)(next - at));
        if (next > at)
            print_compiled(e, at, (int)(next - at));
        else
            print_predicted(e, problem);
        at = next;
    }
    struct text compiled = {0};
    if (e->explored_count > 0)
        text_print(&compiled, "; %d compiled in %.1f s", e->explored_count, e->compile_seconds);
    cli_note(e->cli, "%d candidates predicted in %.2f s, sorted in %.3f s%s", e->candidates.count,
             e->candidates.search_seconds, e->candidates.sort_seconds, text_string(&compiled));
    text_free(&compiled);
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

static const struct explored *find_explored(const struct exploration *e, const struct candidate *candidate) {
    for (int i = 0; i < e->explored_count; i++)
        if (e->explored[i].candidate == candidate)
            return &e->explored[i];
    return NULL;
}

static double seconds_of(const struct exploration *e, const struct candidate *candidate, const struct explored *x,
                         int shape) {
    return x ? x->terms[shape].seconds : candidates_seconds(&e->candidates, candidate, shape);
}

static void json_compiled(struct json *json, const struct explored *x) {
    const struct compiled *c = &x->compiled;
    json_open_object(json, "compiled");
    json_put_string(json, "outcome", compile_outcome_name(c->outcome));
    if (c->outcome == COMPILE_GOOD) {
        json_put_integer(json, "registers", c->registers);
        json_put_integer(json, "spill_bytes", c->spill_bytes);
        json_put_integer(json, "shared_bytes", c->shared_bytes);
        json_put_integer(json, "threads", c->threads);
        json_put_integer(json, "instructions", c->instructions);
        json_put_number(json, "seconds", c->seconds);
        json_put_bool(json, "pareto", x->front);
    } else {
        json_put_string(json, "message", c->message);
    }
    json_end(json);
}

void explore_print_json(struct exploration *e) {
    struct json json;
    cli_json_open(e->cli, &json);
    json_put_string(&json, "gpu", e->gpu.name);
    json_put_integer(&json, "tried", e->candidates.tried);
    json_put_number(&json, "search_seconds", e->candidates.search_seconds);
    json_put_number(&json, "sort_seconds", e->candidates.sort_seconds);
    json_put_number(&json, "compile_seconds", e->compile_seconds);
    json_open_array(&json, "shapes");
    for (int k = 0; k < e->shapes.count; k++) {
        json_open_object(&json, NULL);
        for (int id = 0; id < SHAPE_COUNT; id++)
            if (shape_table[id].families & 1u << e->spec->family)
                json_put_integer(&json, shape_table[id].name, shape_get(&e->shapes.shape[k], (enum shape_id)id));
        json_end(&json);
    }
    json_end(&json);
    json_open_array(&json, "pruned");
    for (int i = 0; i < e->candidates.prunings; i++) {
        json_open_object(&json, NULL);
        json_put_string(&json, "constraint", e->candidates.pruning[i].rule);
        json_put_integer(&json, "count", e->candidates.pruning[i].count);
        json_put_string(&json, "example", e->candidates.pruning[i].example);
        json_end(&json);
    }
    json_end(&json);
    json_open_array(&json, "candidates");
    for (int i = 0; i < e->candidates.count; i++) {
        const struct candidate *candidate = &e->candidates.candidate[i];
        const struct explored *x = find_explored(e, candidate);
        struct variant variant;
        struct text problem = {0}, schedule = {0};
        explore_variant(e, candidate, &variant);
        variant_print_problem(&variant, &problem, &schedule);
        json_open_object(&json, NULL);
        json_put_string(&json, "variant", variant.name);
        json_put_string(&json, "problem", text_string(&problem));
        json_put_string(&json, "schedule", text_string(&schedule));
        json_put_number(&json, "score", x && isfinite(x->score) ? x->score : candidate->score);
        json_open_array(&json, "predicted_seconds");
        for (int k = 0; k < e->shapes.count; k++)
            json_put_number(&json, NULL, seconds_of(e, candidate, x, k));
        json_end(&json);
        if (x)
            json_compiled(&json, x);
        json_end(&json);
        text_free(&problem);
        text_free(&schedule);
    }
    json_close(&json);
}

/* Expressions contain commas and quotes. */
static void csv_quote(struct text *out, const char *string) {
    text_print(out, "\"");
    for (; *string; string++)
        text_print(out, *string == '"' ? "\"\"" : "%c", *string);
    text_print(out, "\"");
}

void explore_print_csv(struct exploration *e) {
    struct text *out = &e->cli->out;
    text_print(out, "variant,problem,score");
    for (int k = 0; k < e->shapes.count; k++)
        text_print(out, ",seconds_%d", k + 1);
    for (int id = 0; id < KNOB_COUNT; id++)
        if (is_schedule(id))
            text_print(out, ",%s", knob_table[id].name);
    text_print(out, ",outcome,registers,spill_bytes,shared_bytes,instructions,compile_seconds,pareto\n");
    for (int i = 0; i < e->candidates.count; i++) {
        const struct candidate *candidate = &e->candidates.candidate[i];
        const struct explored *x = find_explored(e, candidate);
        struct variant variant;
        explore_variant(e, candidate, &variant);
        struct text problem = {0};
        print_problem(&variant, &problem);
        text_print(out, "%s,", variant.name);
        csv_quote(out, text_string(&problem));
        text_free(&problem);
        double score = x && isfinite(x->score) ? x->score : candidate->score;
        text_print(out, isfinite(score) ? ",%.6g" : ",", score);
        for (int k = 0; k < e->shapes.count; k++)
            text_print(out, ",%.6g", seconds_of(e, candidate, x, k));
        for (int id = 0; id < KNOB_COUNT; id++)
            if (is_schedule(id)) {
                text_print(out, ",");
                if (knob_in(variant.used, id))
                    print_value(id, knob_get(&variant.knobs, (enum knob_id)id), out);
            }
        const struct compiled *c = x ? &x->compiled : NULL;
        if (c && c->outcome == COMPILE_GOOD)
            text_print(out, ",good,%d,%d,%d,%d,%.3f,%d\n", c->registers, c->spill_bytes, c->shared_bytes,
                       c->instructions, c->seconds, x->front);
        else
            text_print(out, ",%s,,,%d,,,\n", c ? compile_outcome_name(c->outcome) : "", candidate->shared_bytes);
    }
}
