/* explore: what `attile explore` found out, for the functions that print it. */
#ifndef ATTILE_EXPLORE_H
#define ATTILE_EXPLORE_H

#include "candidates.h"
#include "catalog.h"
#include "pool.h"
#include "shapes.h"

/* One compiled candidate; predictions are made again with what the compiler said. */
struct explored {
    const struct candidate *candidate;
    struct variant variant;
    struct compiled compiled;
    struct model_terms terms[SPEC_SHAPES];
    double score; /* as candidate.score, among the good ones of its problem */
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
    double compile_seconds;    /* by the clock */
};

/* The option rows that explore_open reads, besides those of the catalog. */
#define EXPLORE_OPTIONS                                                                                                \
    SHAPES_OPTION, {                                                                                                   \
        "for", 0, OPTION_TEXT, "GPU",                                                                                  \
            "the GPU to choose or predict for; for a prediction also a device file (default: h200)"                    \
    }

/* Read what was asked for, and report what is wrong. The caller zeroed all but `cli`. Close it in any case. */
enum exit_code explore_open(struct exploration *exploration);
void explore_close(struct exploration *exploration);

/* Fill `candidates`; an error that says what ruled them out when there are none. */
enum exit_code explore_find(struct exploration *exploration);

/* `attile explain --model` */
enum exit_code explain_model(struct cli *cli);

/* A candidate, complete again. */
void explore_variant(const struct exploration *exploration, const struct candidate *candidate, struct variant *variant);

/* Can the page be made, from what --map and --measured say? Before anything is compiled. */
enum exit_code explore_report_check(const struct exploration *exploration);

/* The page of --report. */
enum exit_code explore_report(struct exploration *exploration);

/* To standard output. */
void explore_print(struct exploration *exploration);
void explore_print_json(struct exploration *exploration);
void explore_print_csv(struct exploration *exploration);

#endif
