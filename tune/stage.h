/* stage: the tensors of one problem at one shape, on the device, for all kernels that answer it. They are too large for
   the oracle: a few rows, spread over batch, heads and positions, are known, and every kernel must get those right. */
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
    int changes;                    /* how often the tensors were replaced */
    int weights;                    /* precision that the allowed errors are for: see workload_weights */
    float *value[STAGE_INPUTS];     /* the numbers that q, k and v repeat; owned */
    struct att_args args;           /* tensors on the device; the workspace is as large as the largest needed so far */
    void *device[STAGE_INPUTS + 2]; /* q k v o lse; owned */
    struct params *params;          /* parameters of mask and score; owned */
    struct att_param param[FORMULA_PARAMS];
    void *param_memory[FORMULA_PARAMS]; /* on the device; owned */
    struct stage_row row[STAGE_ROWS];
    struct workload outline;    /* replaces the rest for problems whose rows the stage does not know */
    struct arguments arguments; /* of the outline */
};

/* True if the stage knows the right rows of this problem. Otherwise it only holds tensors for timing, and a kernel must
   be checked elsewhere. */
bool stage_knows_rows(const struct knobs *problem);

void stage_open(struct stage *stage, att_session *session);
void stage_close(struct stage *stage);

/* Makes the tensors, unless they are already there. After a failure there are none. */
enum att_status stage_set(struct stage *stage, const struct knobs *problem, const struct shape *shape,
                          struct failure *failure);

/* Gives a kernel the workspace it needs: then stage->args are its arguments. */
enum att_status stage_fit(struct stage *stage, att_kernel *kernel, struct failure *failure);

/* Runs the kernel once and compares the known rows. *worst: largest error in units of the allowed error; if it is above
   1 the kernel is wrong, and `report` says where. ATT_OK only means that it ran. */
enum att_status stage_check(struct stage *stage, att_kernel *kernel, double *worst, struct text *report,
                            struct failure *failure);

/* stage_operations: multiplications and additions, without those that causal masks skip (expressions count as seeing
   everything). The backward pass has five products where the forward pass has two. stage_bytes: bytes of all tensors,
   each counted once. */
double stage_operations(const struct knobs *problem, const struct shape *shape);
double stage_bytes(const struct knobs *problem, const struct shape *shape);

#endif
