/* A tuned table against the templates' own schedules: what is said about existing measurements. */
#include "tune_compare.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 3 };

/* Fills a cell with two candidates: the first takes `own` seconds and the second `chosen`; 0 = not measured. */
static void fill(struct tuner_cell *cell, double own, double chosen) {
    static int kernels[2] = {0, 1};
    const double seconds[2] = {own, chosen};
    *cell = (struct tuner_cell){.problem = "p", .shape_text = "s", .candidates = 2, .kernel = kernels};
    cr_assert(contest_open(&cell->contest, 2));
    for (int i = 0; i < 2; i++)
        if (seconds[i] > 0)
            contest_note(&cell->contest, i, seconds[i]);
}

static enum exit_code compare(struct tuner_cell cells[CELLS], struct text *out) {
    static struct tuner_kernel kernels[2];
    static const struct verb verb = {.name = "tune"};
    struct tuner tuner = {.cells = CELLS, .cell = cells, .kernels = 2, .kernel = kernels};
    struct cli cli = {.verb = &verb, .json = true, .quiet = true};
    enum exit_code code = tune_compare(&cli, &tuner);
    for (int i = 0; i < CELLS; i++)
        contest_close(&cells[i].contest);
    *out = cli.out;
    return code;
}

static void expect(const struct text *out, const char *words) {
    cr_expect(strstr(text_string(out), words), "no %s in: %s", words, text_string(out));
}

Test(tune_compare, says_the_mean_and_the_worst) {
    struct tuner_cell cells[CELLS];
    struct text out;
    fill(&cells[0], 2, 1);
    fill(&cells[1], 0.5, 1);
    fill(&cells[2], 8, 1);
    cr_expect_eq(compare(cells, &out), CLI_OK);
    expect(&out, "\"ratio\": 0.5");
    expect(&out, "\"geometric_mean\": 2");
    expect(&out, "\"least\": 0.5");
    text_free(&out);
}

Test(tune_compare, leaves_out_what_was_not_measured_in_both_ways) {
    struct tuner_cell cells[CELLS];
    struct text out;
    fill(&cells[0], 2, 0);
    fill(&cells[1], 0, 1);
    fill(&cells[2], 3, 1);
    cr_expect_eq(compare(cells, &out), CLI_OK);
    expect(&out, "\"geometric_mean\": 3");
    expect(&out, "\"least\": 3");
    text_free(&out);
}
