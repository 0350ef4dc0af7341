/* fit_model: fits the rates of a device file to measurements of attile tune.

       fit_model GPU FILE.jsonl... [RATE=]...    GPU: name of a device file; RATE: a rate to fit, any number of them
       fit_model GPU FILE.jsonl... --judge       only prints how well the model predicts these measurements

   Searches for values of the rates (by default those that no datasheet gives) with which the model orders kernels as
   measured. The criterion is how much predicted over measured varies within one problem and shape, above all among the
   fast kernels. Fits twice: with every other head dimension, to validate on the others, and with all. Prints the
   agreement before and after, and the values in the format of a device file, to be entered there by hand. */
#include "agreement.h"
#include "journal.h"
#include "model.h"
#include "winners.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 40000, CELLS = 4000, STEPS = 4000, RATES = 64 };

static const struct rate {
    const char *name, *unit;
    size_t offset;
} rates[] = {
#define RATE(name, unit, about) {#name, unit, offsetof(struct model_gpu, name)},
#include "rates.def"
};
enum { RATES_KNOWN = sizeof rates / sizeof *rates };

static const char *const usual[] = {"memory_exposed",     "softmax_one",     "softmax_two",  "softmax_three",
                                    "softmax_no_maximum", "softmax_latency", "load_latency", "overlap",
                                    "async_start",        "async_turn",      "async_stop",   "fill_together",
                                    "cluster_wait"};

struct sample {
    struct variant *variant; /* owned */
    struct shape shape;
    char source[20]; /* the source of its kernel, as in the record */
    int cell, measurements;
    double measured;
};

/* A selection of samples: those whose head dimension has an even or odd index, or all. */
enum half { EVEN, ODD, ALL };

struct fit {
    struct template_set *set;
    struct model_gpu gpu;
    struct sample sample[SAMPLES];
    int samples, cells, left_out;
    char *cell_name[CELLS];
    int cell_size[CELLS];      /* index of its head dimensions in `size` */
    int size[CELLS][2], sizes; /* head_dim, head_dim_v */
    const struct rate *fitted[RATES];
    int fitted_count;
};

static double *rate_of(struct model_gpu *gpu, const struct rate *rate) {
    return (double *)((char *)gpu + rate->offset);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int find_size(struct fit *fit, const struct knobs *knobs) {
    int at = 0;
    while (at < fit->sizes && (fit->size[at][0] != knobs->head_dim || fit->size[at][1] != knobs->head_dim_v))
        at++;
    if (at == fit->sizes && at < CELLS) {
        fit->size[at][0] = knobs->head_dim;
        fit->size[at][1] = knobs->head_dim_v;
        fit->sizes++;
    }
    return at;
}

static bool is_in(const struct fit *fit, const struct sample *sample, enum half half) {
    return half == ALL || fit->cell_size[sample->cell] % 2 == (int)half;
}

static int find_cell(struct fit *fit, const struct record *record, const struct knobs *knobs) {
    struct text name = {0};
    text_print(&name, "%s at %s", record->problem, record->shape);
    int at = 0;
    while (at < fit->cells && strcmp(fit->cell_name[at], text_string(&name)) != 0)
        at++;
    if (at == fit->cells && at < CELLS && (fit->cell_name[at] = strdup(text_string(&name)))) {
        fit->cell_size[at] = find_size(fit, knobs);
        fit->cells++;
    }
    text_free(&name);
    return at < fit->cells ? at : -1;
}

static void take(void *context, const struct record *record) {
    struct fit *fit = context;
    struct variant variant;
    struct shape shape;
    bool good = record_ok(record) && record->cold_median > 0 && strcmp(record->device, fit->gpu.name) == 0 &&
                winners_read_variant(fit->set, record, &variant) &&
                winners_read_shape(record->shape, variant.knobs.family, &shape);
    int cell = good ? find_cell(fit, record, &variant.knobs) : -1;
    if (cell < 0) {
        fit->left_out++;
        return;
    }
    int at = 0;
    while (at < fit->samples &&
           (fit->sample[at].cell != cell || strcmp(fit->sample[at].variant->name, variant.name) != 0))
        at++;
    if (at == SAMPLES)
        return;
    struct sample *sample = &fit->sample[at];
    if (at == fit->samples) {
        *sample = (struct sample){.variant = malloc(sizeof variant), .shape = shape, .cell = cell};
        if (!sample->variant)
            return;
        *sample->variant = variant;
        fit->samples++;
    }
    if (strcmp(sample->source, record->source) != 0) { /* its template changed: earlier measurements do not count */
        snprintf(sample->source, sizeof sample->source, "%s", record->source);
        sample->measurements = 0;
    }
    sample->measured = (sample->measured * sample->measurements + record->cold_median) / (sample->measurements + 1);
    sample->measurements++;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static double badness(const struct fit *fit, const struct model_gpu *gpu, enum half half, const double *best) {
    static double sum[CELLS], squares[CELLS], weight[CELLS];
    double total = 0, weights = 0;
    memset(sum, 0, sizeof sum);
    memset(squares, 0, sizeof squares);
    memset(weight, 0, sizeof weight);
    for (int i = 0; i < fit->samples; i++) {
        const struct sample *s = &fit->sample[i];
        struct model_terms terms;
        if (!is_in(fit, s, half) || !model_predict(gpu, s->variant, &s->shape, NULL, &terms))
            continue;
        double error = log(terms.seconds / s->measured), w = pow(best[s->cell] / s->measured, 4);
        sum[s->cell] += w * error;
        squares[s->cell] += w * error * error;
        weight[s->cell] += w;
    }
    for (int c = 0; c < fit->cells; c++) {
        double mean = weight[c] > 0 ? sum[c] / weight[c] : 0;
        total += squares[c] - 0.8 * weight[c] * mean * mean; /* an error common to the cell counts a fifth */
        weights += weight[c];
    }
    return weights > 0 ? total / weights : 0;
}

static void print_agreement(const struct fit *fit, const struct model_gpu *gpu, enum half half, const char *when) {
    static struct agreement_point point[SAMPLES];
    struct agreement a;
    int points = 0;
    for (int i = 0; i < fit->samples; i++) {
        const struct sample *s = &fit->sample[i];
        struct model_terms terms;
        if (is_in(fit, s, half) && model_predict(gpu, s->variant, &s->shape, NULL, &terms))
            point[points++] = (struct agreement_point){s->cell, terms.seconds, s->measured};
    }
    agreement_find(point, points, &a, NULL, NULL);
    printf("%s: %d kernels in %d problems and shapes, first choice %.3f of the best, the best among the first %d in "
           "%d (%.0f %%), %.0f %% of pairs in order, times within %.1f %%\n",
           when, a.points, a.cells, a.loss, AGREEMENT_FIRST, a.first_few, 100.0 * a.first_few / fmax(1, a.cells),
           100.0 * a.in_order / fmax(1, a.pairs), 100 * a.error);
}

/* --- searching ---------------------------------------------------------------------------------------------------- */

static double normal(void) {
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)rand() / RAND_MAX;
    return sum - 6;
}

static struct model_gpu search(const struct fit *fit, enum half half) {
    static double best[CELLS];
    struct model_gpu found = fit->gpu;
    for (int i = 0; i < fit->samples; i++) {
        double *least = &best[fit->sample[i].cell];
        *least = *least == 0 ? fit->sample[i].measured : fmin(*least, fit->sample[i].measured);
    }
    double least = badness(fit, &found, half, best);
    for (int step = 0; step < STEPS; step++) {
        struct model_gpu tried = found;
        for (int changes = 1 + rand() % 3; changes > 0; changes--)
            *rate_of(&tried, fit->fitted[rand() % fit->fitted_count]) *=
                exp(0.3 * normal() * (1 - 0.95 * step / STEPS));
        double now = badness(fit, &tried, half, best);
        if (now < least) {
            least = now;
            found = tried;
        }
    }
    return found;
}

static bool add_rate(struct fit *fit, const char *name) {
    for (int i = 0; i < RATES_KNOWN; i++)
        if (strcmp(rates[i].name, name) == 0 && fit->fitted_count < RATES) {
            fit->fitted[fit->fitted_count++] = &rates[i];
            return true;
        }
    fprintf(stderr, "fit_model: no rate '%s'\n", name);
    return false;
}

int main(int argc, char **argv) {
    static struct fit fit;
    struct diag diag = {0};
    bool judge = false;
    if (argc < 3 || !model_gpu_find(argv[1], &fit.gpu) || !(fit.set = template_set_open(NULL, NULL, &diag))) {
        fprintf(stderr, "usage: fit_model GPU FILE.jsonl... [RATE=]... [--judge]\n%s", text_string(&diag.text));
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        struct text error = {0};
        if (strcmp(argv[i], "--judge") == 0) {
            judge = true;
            continue;
        }
        char *equals = strchr(argv[i], '=');
        if (equals)
            *equals = '\0';
        if (equals ? !add_rate(&fit, argv[i]) : !journal_read_file(argv[i], take, &fit, NULL, &error)) {
            fprintf(stderr, "%s\n", text_string(&error));
            return 1;
        }
    }
    bool chosen = fit.fitted_count > 0;
    for (size_t i = 0; !chosen && i < sizeof usual / sizeof *usual; i++)
        add_rate(&fit, usual[i]);
    printf("%d records left out: failures, and of other GPUs and versions\n", fit.left_out);
    print_agreement(&fit, &fit.gpu, ALL, judge ? "as it is" : "before");
    if (judge)
        return 0;
    print_agreement(&fit, &fit.gpu, ODD, "before, of every other head dimension");
    struct model_gpu found = search(&fit, EVEN);
    print_agreement(&fit, &found, ODD, "the same, fitted to the others");
    found = search(&fit, ALL);
    print_agreement(&fit, &found, ALL, "fitted to all");
    for (int i = 0; i < fit.fitted_count; i++)
        printf("  %s: {value: %.4g, unit: \"%s\", source: fitted}   # was %.4g\n", fit.fitted[i]->name,
               *rate_of(&found, fit.fitted[i]), fit.fitted[i]->unit, *rate_of(&fit.gpu, fit.fitted[i]));
    return 0;
}
