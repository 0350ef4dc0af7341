#include "contest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool contest_open(struct contest *contest, int entrants) {
    *contest =
        (struct contest){.entrants = entrants, .entrant = calloc((size_t)entrants + 1, sizeof *contest->entrant)};
    float *times = calloc((size_t)entrants + 1, CONTEST_PASSES * sizeof *times);
    contest->standing = calloc((size_t)entrants + 1, sizeof *contest->standing);
    if (contest->entrant)
        contest->entrant[0].time = times;
    else
        free(times);
    if (!contest->entrant || !times || !contest->standing) {
        contest_close(contest);
        return false;
    }
    for (int i = 0; i < entrants; i++)
        contest->entrant[i].time = times + (size_t)i * CONTEST_PASSES;
    return true;
}

void contest_close(struct contest *contest) {
    if (contest->entrant)
        free(contest->entrant[0].time); /* one allocation for all entrants */
    free(contest->entrant);
    free(contest->standing);
    *contest = (struct contest){0};
}

void contest_note(struct contest *contest, int number, double seconds) {
    struct entrant *entrant = &contest->entrant[number];
    if (entrant->passes < CONTEST_PASSES)
        entrant->time[entrant->passes++] = (float)seconds;
}

static int compare_times(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Returns the median of the first `passes` passes. */
static double median(const struct entrant *entrant, int passes) {
    float sorted[CONTEST_PASSES];
    if (passes <= 0)
        return INFINITY;
    memcpy(sorted, entrant->time, (size_t)passes * sizeof *sorted);
    qsort(sorted, (size_t)passes, sizeof *sorted, compare_times);
    return passes % 2 ? (double)sorted[passes / 2] : ((double)sorted[passes / 2 - 1] + (double)sorted[passes / 2]) / 2;
}

double contest_time(const struct entrant *entrant) { return median(entrant, entrant->passes); }

/* --- rounds ------------------------------------------------------------------------------------------------------ */

static bool runs(const struct contest *contest, const struct entrant *entrant, int round) {
    return !entrant->out && entrant->survived >= round && !(contest->closed && entrant->passes == 0);
}

static int count(const struct contest *contest, int round) {
    int runners = 0;
    for (int i = 0; i < contest->entrants; i++)
        runners += runs(contest, &contest->entrant[i], round);
    return runners;
}

static int survivors(int runners) {
    int half = (runners + 1) / 2;
    return half > CONTEST_FINALISTS ? half : runners < CONTEST_FINALISTS ? runners : CONTEST_FINALISTS;
}

static int compare_standings(const void *a, const void *b) {
    const struct standing *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time) : x->entrant - y->entrant;
}

/* Ends a round in which all runners have their passes: the faster half survives, as do kept entrants. Ties go to the
   earlier entrant. */
static void halve(struct contest *contest, int round) {
    int runners = 0;
    for (int i = 0; i < contest->entrants; i++)
        if (runs(contest, &contest->entrant[i], round))
            contest->standing[runners++] = (struct standing){median(&contest->entrant[i], 1 << round), i};
    qsort(contest->standing, (size_t)runners, sizeof *contest->standing, compare_standings);
    for (int i = 0; i < runners; i++) {
        struct entrant *entrant = &contest->entrant[contest->standing[i].entrant];
        entrant->survived += i < survivors(runners) || entrant->kept;
    }
}

/* Replays the complete rounds. Returns the current one, or -1 when the contest is over. */
static int current_round(struct contest *contest) {
    for (int i = 0; i < contest->entrants; i++)
        contest->entrant[i].survived = 0;
    for (int round = 0; 1 << round <= CONTEST_PASSES; round++) {
        int runners = count(contest, round), behind = 0;
        for (int i = 0; i < contest->entrants; i++)
            behind += runs(contest, &contest->entrant[i], round) && contest->entrant[i].passes < 1 << round;
        if (behind > 0)
            return round;
        if (runners == 0 || (1 << round) == CONTEST_PASSES)
            return -1;
        halve(contest, round);
    }
    return -1;
}

enum contest_state contest_next(struct contest *contest, int *number) {
    int round = current_round(contest), waiting = 0;
    *number = -1;
    for (int i = 0; round >= 0 && i < contest->entrants; i++) {
        const struct entrant *entrant = &contest->entrant[i];
        if (!runs(contest, entrant, round) || entrant->passes >= 1 << round)
            continue;
        if (!entrant->ready)
            waiting++;
        else if (*number < 0 || entrant->passes < contest->entrant[*number].passes)
            *number = i;
    }
    return *number >= 0 ? CONTEST_MEASURE : waiting ? CONTEST_WAIT : CONTEST_OVER;
}

static bool is_anybody_kept(const struct contest *contest, int round) {
    for (int i = 0; i < contest->entrants; i++)
        if (contest->entrant[i].kept && runs(contest, &contest->entrant[i], round))
            return true;
    return false;
}

int contest_left(const struct contest *given) {
    struct contest contest = *given;
    int round = current_round(&contest), left = 0;
    if (round < 0)
        return 0;
    for (int i = 0; i < contest.entrants; i++)
        if (runs(&contest, &contest.entrant[i], round) && contest.entrant[i].passes < 1 << round)
            left += (1 << round) - contest.entrant[i].passes;
    for (int runners = count(&contest, round), next = round + 1; 1 << next <= CONTEST_PASSES; next++) {
        int kept = runners > survivors(runners) && is_anybody_kept(&contest, round);
        runners = survivors(runners) + kept;
        left += runners << (next - 1);
    }
    return left;
}

/* --- ranking ----------------------------------------------------------------------------------------------------- */

static bool better(const struct entrant *a, const struct entrant *b) {
    return a->survived != b->survived ? a->survived > b->survived : contest_time(a) < contest_time(b);
}

int contest_rank(struct contest *contest, int *order) {
    int ranked = 0;
    current_round(contest);
    for (int i = 0; i < contest->entrants; i++) {
        const struct entrant *entrant = &contest->entrant[i];
        if (entrant->out || entrant->passes == 0)
            continue;
        int at = ranked++;
        for (; at > 0 && better(entrant, &contest->entrant[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return ranked;
}
