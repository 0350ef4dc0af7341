/* launch_arguments: a workload's tensors in device memory, and the arguments of a launch with them. The caller fills
   the tensors: check.c with all values of the workload; the tuner's stage, whose tensors are large, with values that
   repeat. */
#ifndef ATTILE_LAUNCH_ARGUMENTS_H
#define ATTILE_LAUNCH_ARGUMENTS_H

#include "attile.h"
#include "failure.h"
#include "workload.h"

/* Arrays beside the tensors: lengths, page numbers, places. */
enum { ARGUMENT_NUMBERS = 8 };

struct argument { /* one tensor on the device */
    struct tensor tensor;
    const struct lengths *lengths;
    const int64_t *dim; /* dimensions of the workload's tensor; this one holds only the rows that sequences have */
    enum lengths_side side;
    enum tensor_dim rows;
    void *device; /* owned; in an all-zero struct: the workload has no such tensor, or V shares the memory of K */
};

struct arguments {
    att_session *session;
    const struct workload *workload; /* borrowed */
    struct argument input[WORKLOAD_INPUTS], output[WORKLOAD_OUTPUTS];
    struct att_param param[FORMULA_PARAMS];
    struct att_param_gradient param_gradient[FORMULA_PARAMS];
    void *param_memory[FORMULA_PARAMS];
    void *numbers[ARGUMENT_NUMBERS];
    struct att_args args; /* for att_launch; the workspace is missing */
};

/* Allocates all tensors, copies parameters, lengths and page numbers to the device, and fills args. args points into
   *arguments, which must not move. The contents of the tensors are undefined. Free it in any case. */
enum att_status arguments_make(struct arguments *arguments, att_session *session, const struct workload *workload,
                               enum tensor_layout layout, struct failure *failure);
void arguments_free(struct arguments *arguments); /* accepts an all-zero struct */

/* Returns the offset on the device, in elements, of element `i` of the workload's tensor (counted as if packed); -1 =
   no sequence has it. */
int64_t argument_place(const struct argument *argument, int64_t i);

#endif
