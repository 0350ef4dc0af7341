/* check: runs a kernel on a workload and compares every element of its outputs
   with the answer. What a kernel must not touch, gaps between rows included, is
   poisoned before and examined after. */
#ifndef ATTILE_CHECK_H
#define ATTILE_CHECK_H

#include "attile.h"
#include "workload.h"

struct check_options {
    enum tensor_layout layout;
    bool without_lse; /* pass a null lse */
    bool numbers;     /* check lengths and page numbers on the device before the first launch (att_check) */
    int repeat;       /* timed launches after the first; 0 = time the first */
    int shown;        /* mismatches to describe at most */
};

struct check_result {
    enum att_status status;       /* of launching; the rest holds when it is ATT_OK */
    int64_t compared, nans;       /* elements of outputs, and those of them that have to be NaN */
    int64_t mismatches;           /* elements that are wrong, or were written outside of the
                         tensor */
    double error;                 /* largest absolute error of finite elements */
    double worst;                 /* largest error in units of what is allowed there; 1 = at the
                     limit */
    double seconds;               /* of one launch */
    struct att_counters counters; /* of one launch, host device only */
    struct text report;           /* one line a mismatch, or why it did not run; owned */
    void *output;                 /* the first output's elements, packed, count * element size
                   bytes; owned */
};

/* Returns true when it ran and every element is right. Free the result in any case. */
bool check_run(att_session *session, att_kernel *kernel, const struct workload *workload,
               const struct check_options *options, struct check_result *result);
void check_free(struct check_result *result);

#endif
