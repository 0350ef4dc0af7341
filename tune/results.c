#include "results.h"

#include <stdlib.h>
#include <string.h>

static char *copy(struct results *results, const char *text) {
    char *made = strdup(text);
    results->failed = results->failed || !made;
    return made;
}

static bool equal(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* Makes room for one more; arrays grow at powers of two. */
static void *grown(struct results *results, void *array, int count, size_t size) {
    if (count & (count - 1))
        return array;
    void *more = realloc(array, (size_t)(count ? 2 * count : 1) * size);
    results->failed = results->failed || !more;
    return more;
}

int results_find_setting(const struct results *results, const struct record *record) {
    for (int i = 0; i < results->settings; i++) {
        const struct result_setting *setting = &results->setting[i];
        if (equal(setting->device, record->device) && equal(setting->arch, record->arch) &&
            equal(setting->driver, record->driver) && equal(setting->compiler, record->compiler) &&
            equal(setting->generator, record->generator))
            return i;
    }
    return -1;
}

int results_find_cell(const struct results *results, int setting, const char *problem, const char *shape) {
    for (int i = -1; i < results->cells; i++) {
        int at = i < 0 ? results->last : i;
        if (at >= results->cells)
            continue;
        const struct result_cell *cell = &results->cell[at];
        if (cell->setting == setting && equal(cell->shape, shape) && equal(cell->problem, problem))
            return at;
    }
    return -1;
}

int results_find_kernel(const struct result_cell *cell, const char *variant, const char *source) {
    for (int i = 0; i < cell->kernels; i++)
        if (equal(cell->kernel[i].source, source) && equal(cell->kernel[i].variant, variant))
            return i;
    return -1;
}

static int add_setting(struct results *results, const struct record *record) {
    void *more = grown(results, results->setting, results->settings, sizeof *results->setting);
    if (!more)
        return -1;
    results->setting = more;
    results->setting[results->settings] = (struct result_setting){.device = copy(results, record->device),
                                                                  .arch = copy(results, record->arch),
                                                                  .driver = copy(results, record->driver),
                                                                  .compiler = copy(results, record->compiler),
                                                                  .generator = copy(results, record->generator)};
    return results->settings++;
}

static int add_cell(struct results *results, int setting, const struct record *record) {
    void *more = grown(results, results->cell, results->cells, sizeof *results->cell);
    if (!more)
        return -1;
    results->cell = more;
    results->cell[results->cells] = (struct result_cell){
        .setting = setting, .problem = copy(results, record->problem), .shape = copy(results, record->shape)};
    return results->cells++;
}

static int add_kernel(struct results *results, struct result_cell *cell, const struct record *record) {
    void *more = grown(results, cell->kernel, cell->kernels, sizeof *cell->kernel);
    if (!more)
        return -1;
    cell->kernel = more;
    cell->kernel[cell->kernels] = (struct result_kernel){.variant = copy(results, record->variant),
                                                         .target = copy(results, record->target),
                                                         .schedule = copy(results, record->schedule),
                                                         .source = copy(results, record->source),
                                                         .registers = (int)record->registers};
    return cell->kernels++;
}

void results_add(void *context, const struct record *record) {
    struct results *results = context;
    int setting = results_find_setting(results, record);
    if (setting < 0)
        setting = add_setting(results, record);
    if (setting < 0)
        return;
    results->setting[setting].records++;
    if (record->when > results->setting[setting].newest)
        results->setting[setting].newest = record->when;
    int at = results_find_cell(results, setting, record->problem, record->shape);
    if (at < 0)
        at = add_cell(results, setting, record);
    if (at < 0)
        return;
    results->last = at;
    struct result_cell *cell = &results->cell[at];
    int number = results_find_kernel(cell, record->variant, record->source);
    if (number < 0)
        number = add_kernel(results, cell, record);
    if (number < 0)
        return;
    struct result_kernel *kernel = &cell->kernel[number];
    double time = results->warm ? record->warm_median : record->cold_median;
    if (!record_ok(record) && !kernel->status) {
        kernel->status = copy(results, record->status);
        kernel->error = copy(results, record->error);
    }
    if (record_ok(record) && time > 0 && kernel->passes < CONTEST_PASSES)
        kernel->time[kernel->passes++] = (float)time;
}

bool results_contest(const struct result_cell *cell, struct contest *contest) {
    if (!contest_open(contest, cell->kernels))
        return false;
    for (int i = 0; i < cell->kernels; i++) {
        const struct result_kernel *kernel = &cell->kernel[i];
        contest->entrant[i].out = kernel->status != NULL;
        for (int k = 0; k < kernel->passes; k++)
            contest_note(contest, i, (double)kernel->time[k]);
    }
    contest->closed = true; /* no more kernels are added */
    return true;
}

void results_free(struct results *results) {
    for (int i = 0; i < results->settings; i++) {
        struct result_setting *setting = &results->setting[i];
        char *const texts[] = {setting->device, setting->arch, setting->driver, setting->compiler, setting->generator};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            free(texts[k]);
    }
    for (int i = 0; i < results->cells; i++) {
        struct result_cell *cell = &results->cell[i];
        for (int k = 0; k < cell->kernels; k++) {
            struct result_kernel *kernel = &cell->kernel[k];
            char *const texts[] = {kernel->variant, kernel->target, kernel->schedule,
                                   kernel->source,  kernel->status, kernel->error};
            for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
                free(texts[t]);
        }
        free(cell->kernel);
        free(cell->problem);
        free(cell->shape);
    }
    free(results->setting);
    free(results->cell);
    *results = (struct results){0};
}
