/* inputs: the tensors on which a spec's kernels run. The first that is present wins: tensor files on the command line,
   --shape, the spec's `test: inputs:`, its `test: shapes:`. */
#ifndef ATTILE_INPUTS_H
#define ATTILE_INPUTS_H

#include "catalog.h"
#include "workload.h"

struct inputs {
    bool from_files;
    struct workload_files files; /* if from_files; the shape then follows from the files and the problem */
    struct text path[WORKLOAD_INPUTS];
    int shapes;
    const struct shape *shape; /* otherwise: borrowed from the spec, or given */
    struct shape given;
};

#define INPUT_OPTIONS                                                                                                  \
    {"shape", 0, OPTION_TEXT, "SIZES",                                                                                 \
     "random tensors of these sizes, 'batch=1,heads=8,len_q=100,len_kv=100' "                                          \
     "say"},                                                                                                           \
        {"seed", 0, OPTION_NUMBER, "N", "seed of random tensors (default: 0)"},                                        \
        {"q", 0, OPTION_TEXT, "FILE", "queries, a .npy file"}, {"k", 0, OPTION_TEXT, "FILE", "keys"},                  \
        {"v", 0, OPTION_TEXT, "FILE", "values"}, {"x", 0, OPTION_TEXT, "FILE", "rows of a softmax"},                   \
        {"d_o", 0, OPTION_TEXT, "FILE", "gradient of the output, for the backward pass"},                              \
        {"o_parts", 0, OPTION_TEXT, "FILE", "partial outputs to merge"}, {                                             \
        "lse_parts", 0, OPTION_TEXT, "FILE", "their LSE"                                                               \
    }

/* Reads everything and checks it against every feasible variant, so that nothing runs on bad input. Close in any
   case. */
enum exit_code inputs_open(struct inputs *inputs, struct cli *cli, struct catalog *catalog);
void inputs_close(struct inputs *inputs);

/* Returns the shape to run variant `knobs` on, number `i` of inputs->shapes. */
struct shape inputs_shape(const struct inputs *inputs, const struct knobs *knobs, int i);

#endif
