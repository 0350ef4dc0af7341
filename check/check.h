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
    int shown;        /* maximum number of mismatches to describe */
};

struct check_result {
    enum att_status status;       /* status of the launch; the other fields are valid if it is ATT_OK */
    int64_t compared, nans;       /* compared output elements, and those of them that must be NaN */
    int64_t mismatches;           /* wrong elements, plus one for each output with writes outside of the tensor */
    double error;                 /* largest absolute error of finite elements */
    double worst;                 /* largest error in units of the allowed error; 1 = at the limit */
    double seconds;               /* of one launch */
    struct att_counters counters; /* of one launch, host device only */
    struct text report;           /* one line per mismatch, or why the kernel did not run; owned */
    void *output;                 /* elements of the first output, packed, count * element size bytes; owned */
};

/* Returns true if the kernel ran and every element is right. Free the result in any case. */
bool check_run(att_session *session, att_kernel *kernel, const struct workload *workload,
               const struct check_options *options, struct check_result *result);
void check_free(struct check_result *result);

#endif
