#include "tune_compare.h"
#include "field.h"
#include "file.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_BYTES = 1 << 20, FIRST_FEW = 8, OWN = 0, TABLES = 1 }; /* the two candidates of a cell */

/* --- a table against no table ------------------------------------------------------------------------------------- */

enum exit_code tune_open_table(const struct cli *cli, const char *device, struct tuned **tuned) {
    const char *path = cli_text(cli, "validate", "");
    struct text content = {0}, error = {0};
    struct diag diag = {0};
    enum exit_code code = CLI_OK;
    *tuned = NULL;
    if (!file_load(path, TABLE_BYTES, &content, &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    else if (!(*tuned = tuned_read(path, text_string(&content), content.size, &diag)))
        code = cli_report(cli, CLI_SPEC, text_string(&diag.text));
    else if (!tuned_is_for(*tuned, device))
        code = cli_error(cli, CLI_USAGE, "%s is the table of %s, and this is %s", path, (*tuned)->device, device);
    text_free(&content);
    text_free(&error);
    diag_free(&diag);
    return code;
}

bool tune_pick_two(const struct template_set *set, const struct tuned *tuned, const struct knobs *like,
                   const struct shape *shape, struct tuner *tuner) {
    struct knobs problem = tuned_problem(like), knobs = *like;
    const struct tuned_row *row = tuned_nearest(tuned, &problem, shape);
    if (!field_add_default(set, like, tuner))
        return false;
    if (!row)
        return true;
    for (int i = 0; i < KNOB_COUNT; i++)
        if (knob_table[i].group == KNOB_GROUP_SCHEDULE || i == KNOB_target)
            knob_set(&knobs, (enum knob_id)i, knob_get(&row->schedule, (enum knob_id)i));
    return field_add(set, &knobs, tuner);
}

struct sum { /* of logarithms */
    double total, least;
    int count;
};

static void print_pair(struct cli *cli, struct table *table, struct json *json, const struct tuner *tuner,
                       const struct tuner_cell *cell, double ratio) {
    enum { PROBLEM, SHAPE, SCHEDULE, OWN_TIME, TABLE_TIME, RATIO };
    const struct entrant *entrant = cell->contest.entrant;
    int second = cell->candidates > TABLES ? TABLES : OWN;
    struct text own = {0}, tables = {0};
    if (cli->json) {
        json_object(json, NULL);
        json_string(json, "problem", cell->problem);
        json_string(json, "shape", cell->shape_text);
        json_string(json, "variant", tuner->kernel[cell->kernel[second]].variant.name);
        json_number(json, "own_seconds", contest_time(&entrant[OWN]));
        json_number(json, "table_seconds", contest_time(&entrant[second]));
        json_number(json, "ratio", ratio);
        json_end(json);
        return;
    }
    print_seconds(&own, contest_time(&entrant[OWN]));
    print_seconds(&tables, contest_time(&entrant[second]));
    table_row(table);
    table_cell(table, PROBLEM, CELL_PLAIN, "%s", cell->problem);
    table_cell(table, SHAPE, CELL_PLAIN, "%s", cell->shape_text);
    table_cell(table, SCHEDULE, CELL_PLAIN, "%s", tuner->kernel[cell->kernel[second]].variant.name);
    table_cell(table, OWN_TIME, CELL_PLAIN, "%s", text_string(&own));
    table_cell(table, TABLE_TIME, CELL_PLAIN, "%s", text_string(&tables));
    table_cell(table, RATIO, ratio < 1 ? CELL_BAD : CELL_GOOD, "%.3f", ratio);
    text_free(&own);
    text_free(&tables);
}

enum exit_code tune_compare(struct cli *cli, const struct tuner *tuner) {
    static const char *const headings[] = {"problem", "shape", "the table's", "template's own", "table's", "ratio"};
    struct table table;
    struct json json;
    struct sum sum = {.least = INFINITY};
    table_open(&table, 6, headings, "lllrrr");
    if (cli->json) {
        cli_json_open(cli, &json);
        json_string(&json, "device", tuner->setting.device);
        json_array(&json, "cells");
    }
    for (int i = 0; i < tuner->cells; i++) {
        const struct tuner_cell *cell = &tuner->cell[i];
        const struct entrant *entrant = cell->contest.entrant;
        bool both = cell->candidates > TABLES;
        if (cell->candidates == 0 || entrant[OWN].passes == 0 || (both && entrant[TABLES].passes == 0))
            continue;
        double ratio = both ? contest_time(&entrant[OWN]) / contest_time(&entrant[TABLES]) : 1;
        sum.total += log(ratio);
        sum.least = fmin(sum.least, ratio);
        sum.count++;
        print_pair(cli, &table, &json, tuner, cell, ratio);
    }
    if (cli->json) {
        json_end(&json);
        json_number(&json, "geometric_mean", exp(sum.total / sum.count));
        json_number(&json, "least", sum.least);
        json_close(&json);
    } else {
        table_print(&table, cli->color_out, &cli->out);
    }
    table_free(&table);
    if (sum.count == 0)
        return cli_error(cli, CLI_USAGE, "nothing was measured in both ways");
    cli_note(cli,
             "the table makes it %.3f times as fast as the templates' own schedules (geometric mean of %d); least %.3f",
             exp(sum.total / sum.count), sum.count, sum.least);
    return CLI_OK;
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

struct judged {  /* a cell */
    double loss; /* time of the model's first choice / best time; 0 = not known */
    int place;   /* of the best, in the model's order, from 0 */
};

static struct judged judge(const struct tuner *tuner, struct tuner_cell *cell, const struct model_gpu *gpu) {
    struct judged judged = {0};
    int *order = malloc(((size_t)cell->candidates + 1) * sizeof *order), first = -1;
    double first_seconds = INFINITY, best_seconds = INFINITY;
    int ranked = order ? contest_rank(&cell->contest, order) : 0;
    for (int pass = 0; ranked > 0 && pass < 2; pass++) /* the best's prediction first, then its place */
        for (int i = 0; i < ranked; i++) {
            struct model_terms terms;
            const struct variant *variant = &tuner->kernel[cell->kernel[order[i]]].variant;
            if (!model_predict(gpu, variant, &cell->shape, NULL, &terms))
                continue;
            if (pass == 0 && i == 0)
                best_seconds = terms.seconds;
            if (pass == 1 && terms.seconds < best_seconds)
                judged.place++;
            if (terms.seconds < first_seconds) {
                first_seconds = terms.seconds;
                first = order[i];
            }
        }
    if (first >= 0 && isfinite(best_seconds))
        judged.loss = contest_time(&cell->contest.entrant[first]) / contest_time(&cell->contest.entrant[order[0]]);
    free(order);
    return judged;
}

void tune_judge_model(const struct cli *cli, const struct tuner *tuner, const struct model_gpu *gpu) {
    double total = 0;
    int count = 0, among = 0;
    for (int i = 0; i < tuner->cells; i++) {
        struct judged judged = judge(tuner, &tuner->cell[i], gpu);
        if (judged.loss <= 0)
            continue;
        total += log(fmax(judged.loss, 1));
        among += judged.place < FIRST_FEW;
        count++;
    }
    if (count > 0)
        cli_note(
            cli,
            "the model's first choice takes %.3f times as long as the best (geometric mean of %d); the best is among "
            "its first %d in %d %%",
            exp(total / count), count, FIRST_FEW, 100 * among / count);
}
