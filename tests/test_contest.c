/* Successive halving: who is measured next, when it ends, and that an interrupted contest resumes unchanged. */
#include "contest.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct contest open_contest(int entrants) {
    struct contest contest;
    cr_assert(contest_open(&contest, entrants));
    for (int i = 0; i < entrants; i++)
        contest.entrant[i].ready = true;
    return contest;
}

/* Different times for all entrants; some differ only in the thousandths. */
static double time_of(int entrant) { return 1 + entrant * 7 % 37 + entrant / 1000.0; }

static int run_to_the_end(struct contest *contest, int limit) {
    int measured = 0, next;
    while (measured < limit && contest_next(contest, &next) == CONTEST_MEASURE) {
        contest_note(contest, next, time_of(next));
        measured++;
    }
    return measured;
}

Test(contest, finds_the_fastest_with_few_measurements) {
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 16, 100, 200, 333};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s], next, *order = malloc((size_t)n * sizeof *order), best = 0;
        struct contest contest = open_contest(n);
        int expected = contest_left(&contest), measured = run_to_the_end(&contest, 1 << 20);
        for (int i = 1; i < n; i++)
            best = time_of(i) < time_of(best) ? i : best;
        cr_expect_eq(contest_next(&contest, &next), CONTEST_OVER);
        cr_expect_eq(contest_rank(&contest, order), n);
        cr_expect_eq(order[0], best, "%d entrants", n);
        cr_expect_eq(measured, expected, "%d entrants: %d measured, %d foretold", n, measured, expected);
        cr_expect_eq(contest_left(&contest), 0);
        cr_expect_eq(contest.entrant[best].passes, CONTEST_PASSES);
        cr_expect(measured <= 5 * n + 2 * CONTEST_PASSES, "%d for %d", measured, n);
        free(order);
        contest_close(&contest);
    }
}

Test(contest, measures_who_is_kept_to_the_end) {
    for (int n = 1; n < 40; n += 6) {
        int next, order[40], slowest = 0;
        struct contest contest = open_contest(n);
        for (int i = 1; i < n; i++)
            slowest = time_of(i) > time_of(slowest) ? i : slowest;
        contest.entrant[slowest].kept = true;
        int expected = contest_left(&contest), measured = run_to_the_end(&contest, 1 << 20);
        cr_expect_eq(contest_next(&contest, &next), CONTEST_OVER);
        cr_expect_eq(contest.entrant[slowest].passes, CONTEST_PASSES);
        cr_expect_eq(measured, expected, "%d entrants: %d measured, %d foretold", n, measured, expected);
        contest_rank(&contest, order);
        cr_expect_eq(contest.entrant[order[0]].passes, CONTEST_PASSES, "the fastest as well");
        cr_expect(n == 1 || order[0] != slowest);
        contest_close(&contest);
    }
}

Test(contest, measures_everybody_once_before_anybody_twice) {
    struct contest contest = open_contest(50);
    for (int i = 0; i < 50; i++) {
        int next;
        cr_assert_eq(contest_next(&contest, &next), CONTEST_MEASURE);
        cr_expect_eq(next, i);
        contest_note(&contest, next, time_of(next));
    }
    contest_close(&contest);
}

Test(contest, goes_on_wherever_it_was_interrupted) {
    struct contest whole = open_contest(40);
    int total = run_to_the_end(&whole, 1 << 20);
    for (int cut = 0; cut <= total; cut += 3) {
        struct contest first = open_contest(40), second = open_contest(40);
        run_to_the_end(&first, cut);
        for (int i = 0; i < 40; i++) /* the measurements are all that is left of the first */
            for (int k = 0; k < first.entrant[i].passes; k++)
                contest_note(&second, i, (double)first.entrant[i].time[k]);
        cr_expect_eq(run_to_the_end(&second, 1 << 20), total - cut);
        for (int i = 0; i < 40; i++) {
            cr_expect_eq(second.entrant[i].passes, whole.entrant[i].passes);
            cr_expect_eq(second.entrant[i].survived, whole.entrant[i].survived);
        }
        contest_close(&first);
        contest_close(&second);
    }
    contest_close(&whole);
}

Test(contest, waits_for_late_ones_until_it_is_closed) {
    struct contest contest = open_contest(5);
    int next, order[5];
    contest.entrant[3].ready = false;
    cr_expect_eq(run_to_the_end(&contest, 100), 4);
    cr_expect_eq(contest_next(&contest, &next), CONTEST_WAIT);
    contest.closed = true;
    cr_expect_eq(contest_next(&contest, &next), CONTEST_MEASURE);
    run_to_the_end(&contest, 1 << 20);
    cr_expect_eq(contest_next(&contest, &next), CONTEST_OVER);
    cr_expect_eq(contest_rank(&contest, order), 4);
    contest_close(&contest);
}

Test(contest, goes_on_without_those_that_fail) {
    struct contest contest = open_contest(8);
    int next, order[8];
    run_to_the_end(&contest, 30);
    for (int i = 0; i < 8; i++) {
        contest_rank(&contest, order);
        cr_expect_not(contest.entrant[order[0]].out);
        contest.entrant[order[0]].out = true; /* the leader, every time */
        run_to_the_end(&contest, 1 << 20);
        cr_expect_eq(contest_next(&contest, &next), CONTEST_OVER);
    }
    cr_expect_eq(contest_rank(&contest, order), 0);
    contest_close(&contest);
}

Test(contest, is_over_at_once_without_entrants) {
    struct contest contest = open_contest(0);
    int next, order[1];
    cr_expect_eq(contest_next(&contest, &next), CONTEST_OVER);
    cr_expect_eq(contest_left(&contest), 0);
    cr_expect_eq(contest_rank(&contest, order), 0);
    contest_close(&contest);
}

Test(contest, decides_by_the_median) {
    struct contest contest = open_contest(2);
    const double noisy[] = {100, 1, 1, 1}, steady[] = {2, 2, 2, 2};
    int order[2];
    for (int i = 0; i < 4; i++) {
        contest_note(&contest, 0, noisy[i]);
        contest_note(&contest, 1, steady[i]);
    }
    cr_expect_eq(contest_rank(&contest, order), 2);
    cr_expect_eq(order[0], 0);
    cr_expect_float_eq(contest_time(&contest.entrant[0]), 1, 1e-9);
    cr_expect(isinf(contest_time(&(struct entrant){0})));
    contest_close(&contest);
}

/* An entrant that was out early has few passes, which may have been lucky, so those that got further rank before it. */
Test(contest, ranks_by_rounds_before_times) {
    static const double first[] = {2, 3, 5, 6}, later[] = {9, 10};
    struct contest contest = open_contest(4);
    int order[4];
    for (int i = 0; i < 4; i++)
        contest_note(&contest, i, first[i]);
    for (int pass = 1; pass < CONTEST_PASSES; pass++)
        for (int i = 0; i < 2; i++)
            contest_note(&contest, i, later[i]);
    cr_assert_gt(contest_time(&contest.entrant[0]), contest_time(&contest.entrant[3]));
    cr_assert_eq(contest_rank(&contest, order), 4);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(order[i], i, "place %d", i);
    contest_close(&contest);
}
