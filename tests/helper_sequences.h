/* helper_sequences: what test_sequences and test_backward_sequences ask of both passes. */
#ifndef HELPER_SEQUENCES_H
#define HELPER_SEQUENCES_H

#include "plan.h"
#include "session.h"

/* Numbers from -1 to 1. */
void sequences_draw(float *values, size_t count, unsigned seed);

/* att_launch and att_check refuse these arguments with a message that holds `message`. */
void sequences_expect_refusal(att_session *session, att_kernel *kernel, const struct att_args *args,
                              const char *message);

/* att_find refuses "family=FAMILY head_dim=8 PROBLEM" with a message that holds `message`. */
void sequences_expect_no_kernel(att_session *session, const char *family, const char *problem, const char *message);

/* A batch in which sequences without queries have keys: their K and V become NaN after the answer is made, and it stays right. Head
   dimension 64, one K/V head. */
void sequences_check_nan_stays(att_session *session, const char *family, const char *problem, const char *schedule,
                               const struct shape *shape);

#endif
