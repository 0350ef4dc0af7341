/* explore: the results of `attile explore`, for the functions that print them. */
#ifndef ATTILE_EXPLORE_H
#define ATTILE_EXPLORE_H

#include "candidates.h"
#include "catalog.h"
#include "pool.h"
#include "shapes.h"

/* One compiled candidate; its predictions are repeated with what the compiler reported. */
struct explored {
    const struct candidate *candidate;
    struct variant variant;
    struct compiled compiled;
    struct model_terms terms[SPEC_SHAPES];
    double score; /* like candidate.score, among the good ones of its problem */
    bool front; /* no other is at least as good in time, registers, shared memory and compile time, and better in one */
};

struct exploration {
    struct cli *cli;
    struct catalog catalog;
    struct spec *made; /* from knobs on the command line; null = catalog.spec */
    const struct spec *spec;
    struct model_gpu gpu;
    struct shapes shapes;
    struct candidates candidates;
    int explored_count;
    struct explored *explored; /* by problem; good ones first, best first */
    double compile_seconds;    /* wall-clock time */
};

/* The option rows that explore_open reads, besides those of the catalog. */
#define EXPLORE_OPTIONS                                                                                                \
    SHAPES_OPTION, {                                                                                                   \
        "for", 0, OPTION_TEXT, "GPU",                                                                                  \
            "the GPU to choose or predict for; for a prediction also a device file (default: h200)"                    \
    }

/* Reads the request, and reports mistakes. The caller zeroes all but `cli`. Close it in any case. */
enum exit_code explore_open(struct exploration *exploration);
void explore_close(struct exploration *exploration);

/* Fills `candidates`; if there are none, returns an error that says what ruled them out. */
enum exit_code explore_find(struct exploration *exploration);

/* `attile explain --model` */
enum exit_code explain_model(struct cli *cli);

/* Completes a candidate to a variant. */
void explore_variant(const struct exploration *exploration, const struct candidate *candidate, struct variant *variant);

/* Checks before compilation whether the page can be made from --map and --measured. */
enum exit_code explore_report_check(const struct exploration *exploration);

/* Writes the page of --report. */
enum exit_code explore_report(struct exploration *exploration);

/* Print to standard output. */
void explore_print(struct exploration *exploration);
void explore_print_json(struct exploration *exploration);
void explore_print_csv(struct exploration *exploration);

#endif
