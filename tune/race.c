#include "race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool race_open(struct race *race, int entrants) {
    *race = (struct race){.entrants = entrants, .entrant = calloc((size_t)entrants + 1, sizeof *race->entrant)};
    float *times = calloc((size_t)entrants + 1, RACE_PASSES * sizeof *times);
    race->standing = calloc((size_t)entrants + 1, sizeof *race->standing);
    if (race->entrant)
        race->entrant[0].time = times;
    else
        free(times);
    if (!race->entrant || !times || !race->standing) {
        race_close(race);
        return false;
    }
    for (int i = 0; i < entrants; i++)
        race->entrant[i].time = times + (size_t)i * RACE_PASSES;
    return true;
}

void race_close(struct race *race) {
    if (race->entrant)
        free(race->entrant[0].time); /* one block for all */
    free(race->entrant);
    free(race->standing);
    *race = (struct race){0};
}

void race_note(struct race *race, int number, double seconds) {
    struct entrant *entrant = &race->entrant[number];
    if (entrant->passes < RACE_PASSES)
        entrant->time[entrant->passes++] = (float)seconds;
}

static int compare_times(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of the first `passes` passes. */
static double median(const struct entrant *entrant, int passes) {
    float sorted[RACE_PASSES];
    if (passes <= 0)
        return INFINITY;
    memcpy(sorted, entrant->time, (size_t)passes * sizeof *sorted);
    qsort(sorted, (size_t)passes, sizeof *sorted, compare_times);
    return passes % 2 ? (double)sorted[passes / 2] : ((double)sorted[passes / 2 - 1] + (double)sorted[passes / 2]) / 2;
}

double race_time(const struct entrant *entrant) { return median(entrant, entrant->passes); }

/* --- rounds ------------------------------------------------------------------------------------------------------ */

static bool runs(const struct race *race, const struct entrant *entrant, int round) {
    return !entrant->out && entrant->survived >= round && !(race->closed && entrant->passes == 0);
}

static int count(const struct race *race, int round) {
    int runners = 0;
    for (int i = 0; i < race->entrants; i++)
        runners += runs(race, &race->entrant[i], round);
    return runners;
}

static int survivors(int runners) {
    int half = (runners + 1) / 2;
    return half > RACE_FINALISTS ? half : runners < RACE_FINALISTS ? runners : RACE_FINALISTS;
}

static int compare_standings(const void *a, const void *b) {
    const struct standing *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time) : x->entrant - y->entrant;
}

/* All runners of a round have their passes: the faster half survives. Ties go to the earlier. */
static void halve(struct race *race, int round) {
    int runners = 0;
    for (int i = 0; i < race->entrants; i++)
        if (runs(race, &race->entrant[i], round))
            race->standing[runners++] = (struct standing){median(&race->entrant[i], 1 << round), i};
    qsort(race->standing, (size_t)runners, sizeof *race->standing, compare_standings);
    for (int i = 0; i < survivors(runners); i++)
        race->entrant[race->standing[i].entrant].survived++;
}

/* Replay the rounds that are complete. Returns the one that goes on, or -1 when the race is over. */
static int current_round(struct race *race) {
    for (int i = 0; i < race->entrants; i++)
        race->entrant[i].survived = 0;
    for (int round = 0; 1 << round <= RACE_PASSES; round++) {
        int runners = count(race, round), behind = 0;
        for (int i = 0; i < race->entrants; i++)
            behind += runs(race, &race->entrant[i], round) && race->entrant[i].passes < 1 << round;
        if (behind > 0)
            return round;
        if (runners == 0 || (1 << round) == RACE_PASSES)
            return -1;
        halve(race, round);
    }
    return -1;
}

enum race_state race_next(struct race *race, int *number) {
    int round = current_round(race), waiting = 0;
    *number = -1;
    for (int i = 0; round >= 0 && i < race->entrants; i++) {
        const struct entrant *entrant = &race->entrant[i];
        if (!runs(race, entrant, round) || entrant->passes >= 1 << round)
            continue;
        if (!entrant->ready)
            waiting++;
        else if (*number < 0 || entrant->passes < race->entrant[*number].passes)
            *number = i;
    }
    return *number >= 0 ? RACE_MEASURE : waiting ? RACE_WAIT : RACE_OVER;
}

int race_left(const struct race *given) {
    struct race race = *given;
    int round = current_round(&race), left = 0;
    if (round < 0)
        return 0;
    for (int i = 0; i < race.entrants; i++)
        if (runs(&race, &race.entrant[i], round) && race.entrant[i].passes < 1 << round)
            left += (1 << round) - race.entrant[i].passes;
    for (int runners = count(&race, round), next = round + 1; 1 << next <= RACE_PASSES; next++) {
        runners = survivors(runners);
        left += runners << (next - 1);
    }
    return left;
}

/* --- ranking ----------------------------------------------------------------------------------------------------- */

static bool better(const struct entrant *a, const struct entrant *b) {
    return a->survived != b->survived ? a->survived > b->survived : race_time(a) < race_time(b);
}

int race_rank(struct race *race, int *order) {
    int ranked = 0;
    current_round(race);
    for (int i = 0; i < race->entrants; i++) {
        const struct entrant *entrant = &race->entrant[i];
        if (entrant->out || entrant->passes == 0)
            continue;
        int at = ranked++;
        for (; at > 0 && better(entrant, &race->entrant[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return ranked;
}
