/* stage: the tensors of one problem at one shape, on the device, for all kernels that answer it. Too large for the
   oracle: a few rows, spread over batch, heads and positions, are known, and every kernel must get those right. */
#ifndef ATTILE_STAGE_H
#define ATTILE_STAGE_H

#include "launch_arguments.h"
#include "npy.h"
#include "params.h"
#include "record.h"
#include "session.h"
#include "workload.h"

enum { STAGE_ROWS = 8, STAGE_INPUTS = 3 };

struct stage_row {
    int64_t batch, head, query;
    double *o, *allowed_o; /* head_dim_v elements; owned */
    double lse, allowed_lse;
};

struct stage {
    att_session *session;
    struct knobs problem;
    struct shape shape; /* kv_heads filled in */
    bool set;
    int changes;                    /* how often other tensors were put up */
    int weights;                    /* what the allowed errors are for: see workload_weights */
    float *value[STAGE_INPUTS];     /* the numbers that q, k and v repeat over and over; owned */
    struct att_args args;           /* tensors on the device; workspace as large as the largest so far */
    void *device[STAGE_INPUTS + 2]; /* q k v o lse; owned */
    struct params *params;          /* what mask and score take; owned */
    struct att_param param[FORMULA_PARAMS];
    void *param_memory[FORMULA_PARAMS]; /* on the device; owned */
    struct stage_row row[STAGE_ROWS];
    struct workload outline;    /* instead of the rest, of problems whose rows the stage does not know */
    struct arguments arguments; /* of the outline */
};

/* Does the stage know the right rows of these? Else it only holds tensors to time on, and a kernel must be checked elsewhere. */
bool stage_knows_rows(const struct knobs *problem);

void stage_open(struct stage *stage, att_session *session);
void stage_close(struct stage *stage);

/* Put up the tensors; nothing to do when they stand already. On failure nothing stands. */
enum att_status stage_set(struct stage *stage, const struct knobs *problem, const struct shape *shape,
                          struct failure *failure);

/* Give a kernel the workspace it wants: then stage->args are its arguments. */
enum att_status stage_fit(struct stage *stage, att_kernel *kernel, struct failure *failure);

/* Run it once and compare the known rows. *worst: largest error in units of what is allowed; above 1 it is wrong, and
   `report` says where. ATT_OK means only that it ran. */
enum att_status stage_check(struct stage *stage, att_kernel *kernel, double *worst, struct text *report,
                            struct failure *failure);

/* Multiplications and additions, without those that causal masks leave out (expressions count as seeing everything),
   and bytes of all tensors, each once. The backward pass has five
   products where the forward pass has two. */
double stage_operations(const struct knobs *problem, const struct shape *shape);
double stage_bytes(const struct knobs *problem, const struct shape *shape);

#endif
