#include "tune_compare.h"
#include "agreement.h"
#include "field.h"
#include "session.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OWN = 0, CHOSEN = 1 }; /* the two candidates of a cell */

/* --- a table against no table ------------------------------------------------------------------------------------- */

enum exit_code tune_open_validated(const struct cli *cli, const struct record *setting, att_session **session) {
    const char *path = cli_text(cli, "validate", "");
    const struct att_options options = {.size = sizeof options,
                                        .tuned_table = path,
                                        .template_dir = cli_text(cli, "templates", NULL),
                                        .no_disk_cache = true};
    enum att_status status = session_open_to_choose(&options, setting->device, setting->arch, session);
    if (status != ATT_OK)
        return cli_report(cli, cli_exit_code(status), *session ? att_message(*session) : "out of memory");
    const struct tuned *own = (*session)->tables.own;
    if (!tuned_is_for(own, setting->device))
        return cli_error(cli, CLI_USAGE, "%s is the table of %s, and this is %s", path, own->device, setting->device);
    return CLI_OK;
}

bool tune_pick_two(att_session *session, const struct knobs *like, const struct shape *shape, struct tuner *tuner) {
    struct text problem = {0};
    struct failure failure = {0};
    struct request request;
    struct choice choice = {0};
    bool good = true;
    field_print_problem(like, &problem);
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families & 1u << like->family)
            text_print(&problem, " %s=%" PRId64, shape_table[id].name, shape_get(shape, (enum shape_id)id));
    if (!problem.failed && choose_read(session, text_string(&problem), NULL, &request, &failure) == ATT_OK &&
        choose_next(session, &request, &choice, NULL)) {
        good = field_add_default(session->templates, &choice.variant.knobs, tuner);
        if (good && tuner->cell[tuner->cells - 1].candidates > OWN) /* else there is nothing to compare with */
            good = field_add(session->templates, &choice.variant.knobs, tuner);
    }
    failure_clear(&failure);
    text_free(&problem);
    return good;
}

struct sum { /* of logarithms */
    double total, least;
    int count;
};

static void print_pair(struct cli *cli, struct table *table, struct json *json, const struct tuner *tuner,
                       const struct tuner_cell *cell, double ratio) {
    enum { PROBLEM, SHAPE, SCHEDULE, OWN_TIME, TABLE_TIME, RATIO };
    const struct entrant *entrant = cell->contest.entrant;
    int second = cell->candidates > CHOSEN ? CHOSEN : OWN;
    struct text own = {0}, tables = {0};
    if (cli->json) {
        json_open_object(json, NULL);
        json_put_string(json, "problem", cell->problem);
        json_put_string(json, "shape", cell->shape_text);
        json_put_string(json, "variant", tuner->kernel[cell->kernel[second]].variant.name);
        json_put_number(json, "own_seconds", contest_time(&entrant[OWN]));
        json_put_number(json, "table_seconds", contest_time(&entrant[second]));
        json_put_number(json, "ratio", ratio);
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
        json_put_string(&json, "device", tuner->setting.device);
        json_open_array(&json, "cells");
    }
    for (int i = 0; i < tuner->cells; i++) {
        const struct tuner_cell *cell = &tuner->cell[i];
        const struct entrant *entrant = cell->contest.entrant;
        bool both = cell->candidates > CHOSEN;
        if (cell->candidates == 0 || entrant[OWN].passes == 0 || (both && entrant[CHOSEN].passes == 0))
            continue;
        double ratio = both ? contest_time(&entrant[OWN]) / contest_time(&entrant[CHOSEN]) : 1;
        sum.total += log(ratio);
        sum.least = fmin(sum.least, ratio);
        sum.count++;
        print_pair(cli, &table, &json, tuner, cell, ratio);
    }
    if (cli->json) {
        json_end(&json);
        json_put_number(&json, "geometric_mean", exp(sum.total / sum.count));
        json_put_number(&json, "least", sum.least);
        json_close(&json);
    } else {
        table_print(&table, cli->color_out, cli->width, &cli->out);
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

static int add_points(const struct tuner *tuner, int number, const struct model_gpu *gpu,
                      struct agreement_point *point) {
    const struct tuner_cell *cell = &tuner->cell[number];
    int points = 0;
    for (int i = 0; i < cell->candidates; i++) {
        const struct entrant *entrant = &cell->contest.entrant[i];
        struct model_terms terms;
        if (entrant->passes > 0 && !entrant->out &&
            model_predict(gpu, &tuner->kernel[cell->kernel[i]].variant, &cell->shape, NULL, &terms))
            point[points++] = (struct agreement_point){number, terms.seconds, contest_time(entrant)};
    }
    return points;
}

void tune_judge_model(const struct cli *cli, const struct tuner *tuner, const struct model_gpu *gpu) {
    size_t most = 1;
    int points = 0;
    for (int i = 0; i < tuner->cells; i++)
        most += (size_t)tuner->cell[i].candidates;
    struct agreement_point *point = calloc(most, sizeof *point);
    struct agreement agreement = {0};
    for (int i = 0; point && i < tuner->cells; i++)
        points += add_points(tuner, i, gpu, point + points);
    if (points > 0)
        agreement_find(point, points, &agreement, NULL, NULL);
    free(point);
    if (agreement.cells > 0)
        cli_note(
            cli,
            "the model's first choice takes %.3f times as long as the best (geometric mean of %d); the best is among "
            "its first %d in %d %%",
            agreement.loss, agreement.cells, AGREEMENT_FIRST, 100 * agreement.first_few / agreement.cells);
}
