#include "tuner.h"
#include "sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tuner_open(struct tuner *tuner, const struct tuner_options *options) {
    *tuner = (struct tuner){.options = *options};
    record_clear(&tuner->setting);
}

void tuner_close(struct tuner *tuner) {
    for (int i = 0; i < tuner->cells; i++) {
        struct tuner_cell *cell = &tuner->cell[i];
        free(cell->problem);
        free(cell->shape_text);
        free(cell->kernel);
        contest_close(&cell->contest);
    }
    free(tuner->cell);
    free(tuner->kernel);
    free(tuner->bucket);
    *tuner = (struct tuner){0};
}

bool tuner_digest(const struct template_set *set, const struct variant *variant, char digest[TUNER_DIGEST]) {
    struct source source = {0};
    struct diag diag = {0};
    char hex[65];
    bool good = source_expand(set, variant, "<problem>", &source, &diag); /* as in the library */
    if (good) {
        sha256_hex(text_string(&source.text), source.text.size, hex);
        snprintf(digest, TUNER_DIGEST, "%.16s", hex);
    }
    source_free(&source);
    diag_free(&diag);
    return good;
}

/* --- kernels by their digests ------------------------------------------------------------------------------------- */

/* Finds the bucket of a digest, or the free one for it: digests are as good as random already. */
static int *bucket_of(const struct tuner *tuner, const char *digest) {
    char begin[8];
    snprintf(begin, sizeof begin, "%.7s", digest);
    unsigned at = (unsigned)strtoul(begin, NULL, 16);
    for (;; at++) {
        int *bucket = &tuner->bucket[at % (unsigned)tuner->buckets];
        if (*bucket < 0 || strcmp(tuner->kernel[*bucket].source, digest) == 0)
            return bucket;
    }
}

static bool more_buckets(struct tuner *tuner) {
    int buckets = tuner->buckets ? 2 * tuner->buckets : 256;
    int *bucket = malloc((size_t)buckets * sizeof *bucket);
    if (!bucket)
        return false;
    free(tuner->bucket);
    tuner->bucket = bucket;
    tuner->buckets = buckets;
    for (int i = 0; i < buckets; i++)
        bucket[i] = -1;
    for (int i = 0; i < tuner->kernels; i++)
        *bucket_of(tuner, tuner->kernel[i].source) = i;
    return true;
}

/* Returns the number of a kernel, new or known; -1 when memory runs out. */
static int intern(struct tuner *tuner, const struct variant *variant, const char *digest) {
    if (2 * tuner->kernels >= tuner->buckets && !more_buckets(tuner))
        return -1;
    int *bucket = bucket_of(tuner, digest);
    if (*bucket >= 0)
        return *bucket;
    if (tuner->kernels == tuner->kernel_room) {
        int room = 2 * tuner->kernel_room + 64;
        struct tuner_kernel *more = realloc(tuner->kernel, (size_t)room * sizeof *more);
        if (!more)
            return -1;
        tuner->kernel = more;
        tuner->kernel_room = room;
    }
    struct tuner_kernel *kernel = &tuner->kernel[tuner->kernels];
    *kernel = (struct tuner_kernel){.variant = *variant};
    snprintf(kernel->source, sizeof kernel->source, "%s", digest);
    return *bucket = tuner->kernels++;
}

/* --- cells -------------------------------------------------------------------------------------------------------- */

bool tuner_add_cell(struct tuner *tuner, const char *problem, const struct shape *shape, const char *shape_text) {
    struct tuner_cell *more = realloc(tuner->cell, ((size_t)tuner->cells + 1) * sizeof *more);
    if (!more)
        return false;
    tuner->cell = more;
    struct tuner_cell *cell = &more[tuner->cells++];
    *cell =
        (struct tuner_cell){.problem = strdup(problem), .shape_text = strdup(shape_text), .shape = *shape, .usual = -1};
    return cell->problem && cell->shape_text;
}

bool tuner_add_candidate(struct tuner *tuner, const struct variant *variant, const char *digest) {
    struct tuner_cell *cell = &tuner->cell[tuner->cells - 1];
    int number = intern(tuner, variant, digest);
    for (int i = 0; i < cell->candidates; i++)
        if (cell->kernel[i] == number)
            return true;
    if (number >= 0 && cell->candidates == cell->room) {
        int room = 2 * cell->room + 16;
        int *more = realloc(cell->kernel, (size_t)room * sizeof *more);
        if (!more)
            return false;
        cell->kernel = more;
        cell->room = room;
    }
    if (number >= 0)
        cell->kernel[cell->candidates++] = number;
    return number >= 0;
}

bool tuner_begin(struct tuner *tuner) {
    for (int i = 0; i < tuner->cells; i++) {
        struct tuner_cell *cell = &tuner->cell[i];
        if (!contest_open(&cell->contest, cell->candidates))
            return false;
        if (cell->usual >= 0)
            cell->contest.entrant[cell->usual].kept = true;
    }
    return true;
}

void tuner_drop(struct tuner *tuner, int kernel) {
    tuner->kernel[kernel].state = KERNEL_FAILED;
    for (int i = 0; i < tuner->cells; i++)
        for (int k = 0; k < tuner->cell[i].candidates; k++)
            if (tuner->cell[i].kernel[k] == kernel)
                tuner->cell[i].contest.entrant[k].out = true;
}

/* --- what is known already ---------------------------------------------------------------------------------------- */

/* "refused" concerns the shape; every other failure concerns the kernel, at whatever shape it occurred. */
static bool is_of_kernel(const struct result_kernel *known) {
    return known->status && strcmp(known->status, "refused") != 0;
}

static void recall_cell(struct tuner *tuner, struct tuner_cell *cell, const struct result_cell *known) {
    for (int i = 0; i < cell->candidates; i++) {
        const struct tuner_kernel *kernel = &tuner->kernel[cell->kernel[i]];
        int found = results_find_kernel(known, kernel->variant.name, kernel->source);
        if (found < 0)
            continue;
        const struct result_kernel *was = &known->kernel[found];
        cell->contest.entrant[i].out = cell->contest.entrant[i].out || was->status;
        for (int k = 0; k < was->passes; k++)
            contest_note(&cell->contest, i, (double)was->time[k]);
        tuner->recalled += was->passes;
    }
}

void tuner_recall(struct tuner *tuner, const struct results *results) {
    int setting = results_find_setting(results, &tuner->setting);
    tuner->foreign = 0;
    for (int i = 0; i < results->settings; i++)
        tuner->foreign += i == setting ? 0 : results->setting[i].records;
    for (int i = 0; setting >= 0 && i < results->cells; i++) {
        const struct result_cell *known = &results->cell[i];
        for (int k = 0; known->setting == setting && k < known->kernels; k++) {
            int found = is_of_kernel(&known->kernel[k]) && *known->kernel[k].source && tuner->buckets
                            ? *bucket_of(tuner, known->kernel[k].source)
                            : -1;
            tuner->recalled += found >= 0;
            if (found >= 0)
                tuner_drop(tuner, found);
        }
    }
    for (int i = 0; setting >= 0 && i < tuner->cells; i++) {
        struct tuner_cell *cell = &tuner->cell[i];
        int found = results_find_cell(results, setting, cell->problem, cell->shape_text);
        if (found >= 0)
            recall_cell(tuner, cell, &results->cell[found]);
    }
}
