/* workload: a problem with its data: input tensors, rounded to the element
   type, and for every output element the right answer and how far from it a
   kernel may be. Depends on problem knobs and on the precision of weights, so
   most variants share it. */
#ifndef ATTILE_WORKLOAD_H
#define ATTILE_WORKLOAD_H

#include "gen.h"
#include "params.h"
#include "tensor.h"

enum { WORKLOAD_INPUTS = 3, WORKLOAD_OUTPUTS = 2 };

struct workload_input {
    const char *name; /* "q" */
    enum npy_type type;
    int64_t dim[TENSOR_DIMS];
    int64_t count;
    float *value; /* packed, already rounded to type; owned */
};

struct workload_output {
    const char *name; /* "o" */
    enum npy_type type;
    int64_t dim[TENSOR_DIMS];
    int64_t count;
    double *expected; /* packed; owned */
    double *allowed;  /* largest absolute error, per element; owned */
};

struct workload {
    struct knobs problem; /* the variant's knobs; schedule knobs have no effect */
    struct shape shape;
    double scale;          /* attention */
    struct params *params; /* what mask and score take; null for other families; owned */
    int inputs, outputs;
    struct workload_input input[WORKLOAD_INPUTS];    /* q k v | x | o_parts lse_parts */
    struct workload_output output[WORKLOAD_OUTPUTS]; /* o lse | y | o lse */
};

/* Tensors from the user instead of random ones: file[i] belongs to input i of the family, or is empty (data null). */
struct workload_files {
    struct npy file[WORKLOAD_INPUTS];
    const char *path[WORKLOAD_INPUTS];
    const char *params; /* of mask and score, as params_make_given takes them; or null */
};

/* Name of input i of a family, or null when it has fewer. */
const char *workload_input_name(int family, int i);

/* The run-time sizes that the files imply, for a problem. False with a sentence in *error when they contradict it or
   each other. */
bool workload_shape(const struct knobs *problem, const struct workload_files *files, struct shape *shape,
                    struct text *error);

/* Make inputs, from files or at random, and answers. False with a sentence in *error. Free it in any case. */
bool workload_make(struct workload *workload, const struct knobs *problem, const struct shape *shape,
                   const struct workload_files *files, uint64_t seed, struct text *error);
void workload_free(struct workload *workload);

/* What a kernel of these knobs rounds its weights to, a dtype: it decides how far answers may lie from the oracle's. */
int workload_weights(const struct knobs *knobs);

/* Is this the same problem, so that the workload can be used again? */
bool workload_fits(const struct workload *workload, const struct knobs *problem, const struct shape *shape);

#endif
