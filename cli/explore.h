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

/* The GPU of --for. Reports what is wrong. */
enum exit_code explore_read_gpu(struct model_gpu *gpu, const struct cli *cli);

/* Family and problem knobs, as a command line has them. */
void explore_print_problem(const struct exploration *exploration, const struct knobs *knobs, struct text *text);

/* To standard output. */
void explore_print(struct exploration *exploration);
void explore_print_json(struct exploration *exploration);
void explore_print_csv(struct exploration *exploration);

#endif
