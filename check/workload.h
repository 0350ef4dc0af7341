/* workload: a problem with its data: input tensors, rounded to the element type, and for every output element the right
   answer and the allowed error of a kernel. Depends on the problem knobs and on the precision of weights, so most
   variants share it. */
#ifndef ATTILE_WORKLOAD_H
#define ATTILE_WORKLOAD_H

#include "append_answer.h"
#include "gen.h"
#include "lengths.h"
#include "oracle_dropout.h"
#include "params.h"
#include "tensor.h"

enum { WORKLOAD_INPUTS = 11, WORKLOAD_OUTPUTS = 5 + FORMULA_PARAMS };

struct workload_input {
    const char *name; /* "q" */
    enum npy_type type;
    int64_t dim[TENSOR_DIMS];
    int64_t count;
    float *value; /* packed, already rounded to type; owned */
    enum lengths_side side;
    enum tensor_dim rows; /* the dimension that holds the rows of a sequence */
};

struct workload_output {
    const char *name; /* "o" */
    enum npy_type type;
    int64_t dim[TENSOR_DIMS];
    int64_t count;
    double *expected; /* packed; owned */
    double *allowed;  /* largest absolute error, per element; -1 = not to be written; owned */
    enum lengths_side side;
    enum tensor_dim rows;
    const struct workload_input *updates; /* whose memory it shares: unwritten elements stay; null = own memory */
};

struct workload {
    struct knobs problem; /* the variant's knobs; schedule knobs have no effect */
    struct shape shape;
    struct lengths lengths; /* attention; rows beyond the length of a sequence are neither read nor compared */
    struct append_places places;
    double scale;                  /* attention */
    struct oracle_dropout dropout; /* attention; all 0 without knob dropout */
    struct params *params;         /* parameters of mask and score; null for other families; owned */
    int inputs, outputs;
    /* q k v k_scale v_scale k_new v_new rope_cos rope_sin | x | o_parts lse_parts | q k v d_o d_lse o lse | q k v rope_cos rope_sin k_scale v_scale */
    struct workload_input input[WORKLOAD_INPUTS];
    /* o lse k_cache v_cache | y | o lse | dq dk dv d_sinks d_NAME... | q_out k_cache v_cache k_scale v_scale */
    struct workload_output output[WORKLOAD_OUTPUTS];
};

/* Tensors from the user instead of random ones: file[i] belongs to input i of the family, or is empty (data null). */
struct workload_files {
    struct npy file[WORKLOAD_INPUTS];
    const char *path[WORKLOAD_INPUTS];
    const char *params; /* of mask and score, as params_make_given takes them; or null */
};

/* Returns the name of input i of a family, of those that a user can give, or null when there are fewer. Inputs that a
   user cannot give come last. */
const char *workload_input_name(int family, int i);

/* Derives the run-time sizes of a problem from its files. False with a sentence in *error when they contradict it or
   each other. */
bool workload_shape(const struct knobs *problem, const struct workload_files *files, struct shape *shape,
                    struct text *error);

/* Makes inputs, from files or at random, and answers. False with a sentence in *error. Free it in any case. */
bool workload_make(struct workload *workload, const struct knobs *problem, const struct shape *shape,
                   const struct workload_files *files, uint64_t seed, struct text *error);

/* Sets names, types and dimensions without numbers and answers, with every sequence at the lengths of the shape: for
   tensors that are too large for the oracle. False with a sentence in *error. Free it in any case. */
bool workload_outline(struct workload *workload, const struct knobs *problem, const struct shape *shape, uint64_t seed,
                      struct text *error);
void workload_free(struct workload *workload);

/* Returns the dtype to which a kernel with these knobs rounds its weights: it determines how far answers may lie from
   the oracle's. */
int workload_weights(const struct knobs *knobs);

/* True if V is not a tensor of its own but the first columns of K (knob shared_kv). */
bool workload_shares_kv(const struct knobs *problem);

/* True if this is the same problem, so that the workload can be reused. */
bool workload_fits(const struct workload *workload, const struct knobs *problem, const struct shape *shape);

#endif
