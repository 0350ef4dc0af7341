/* helper_run: runs kernels on the host device through the public interface, on float tensors. It first rounds inputs to
   the kernel's element type, so that oracle and kernel see the same values. */
#ifndef HELPER_RUN_H
#define HELPER_RUN_H

#include "attile.h"
#include "oracle.h"
#include "tolerance.h"

/* Opens a session on the host device that checks every access and keeps nothing on disk. */
att_session *run_open(void);

/* Finds the kernel for these knobs. A failure ends the test with the library's message. */
att_kernel *run_find(att_session *session, const char *problem, const char *schedule);

/* Fills `values` with `count` roughly normal numbers, rounded to `type`. The same seed gives the same numbers. */
void run_fill(float *values, int64_t count, enum tolerance_type type, unsigned *seed);
float run_round(float value, enum tolerance_type type);

/* Runs attention. The kernel's tensors have gaps between rows that hold NaN, and rows of o that the kernel must not
   touch are checked. o (batch, heads, len_q, head_dim_v), lse (batch, heads, len_q). Counters may be null. */
void run_attention(att_session *session, att_kernel *kernel, enum tolerance_type input, enum tolerance_type output,
                   const struct oracle_attention *problem, float *o, float *lse, struct att_counters *counters);

/* Runs merge on contiguous tensors: parts (parts, rows, head_dim_v), (parts, rows) -> o (rows,
   head_dim_v), lse (rows). */
void run_merge(att_session *session, att_kernel *kernel, enum tolerance_type input, enum tolerance_type output,
               const float *o_parts, const float *lse_parts, int64_t parts, int64_t rows, int64_t head_dim_v, float *o,
               float *lse);

/* Runs softmax on (rows, cols). */
void run_softmax(att_session *session, att_kernel *kernel, enum tolerance_type input, enum tolerance_type output,
                 const float *x, int64_t rows, int64_t cols, float *y);

#endif
