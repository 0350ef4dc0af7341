/* helper_sequences: checks of both passes, shared by test_sequences and test_backward_sequences. */
#ifndef HELPER_SEQUENCES_H
#define HELPER_SEQUENCES_H

#include "plan.h"
#include "session.h"

/* Fills `values` with numbers from -1 to 1. */
void sequences_draw(float *values, size_t count, unsigned seed);

/* Checks that att_launch and att_check refuse these arguments with a message that contains `message`. */
void sequences_expect_refusal(att_session *session, att_kernel *kernel, const struct att_args *args,
                              const char *message);

/* Checks that att_find refuses "family=FAMILY head_dim=8 PROBLEM" with a message that contains `message`. */
void sequences_expect_no_kernel(att_session *session, const char *family, const char *problem, const char *message);

/* Runs a batch in which sequences without queries have keys. Their K and V become NaN after the expected answer is
   computed, and the kernel's answer must stay right. Head dimension 64, one K/V head. */
void sequences_check_nan_stays(att_session *session, const char *family, const char *problem, const char *schedule,
                               const struct shape *shape);

#endif
