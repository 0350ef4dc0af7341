/* launch_arguments: a workload's tensors in device memory, and the arguments of a launch with them. Who makes them fills the tensors:
   check.c with every number of the workload, the tuner's stage, whose tensors are large, with numbers that repeat. */
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
    const int64_t *dim; /* of the workload's tensor, of which this is the part that sequences have */
    enum lengths_side side;
    enum tensor_dim rows;
    void *device; /* owned; null in all of it: the workload has no such tensor, or V is in K */
};

struct arguments {
    att_session *session;
    const struct workload *workload; /* borrowed */
    struct argument input[WORKLOAD_INPUTS], output[WORKLOAD_OUTPUTS];
    struct att_param param[FORMULA_PARAMS];
    struct att_param_gradient param_gradient[FORMULA_PARAMS];
    void *param_memory[FORMULA_PARAMS];
    void *numbers[ARGUMENT_NUMBERS];
    struct att_args args; /* for att_launch, but for the workspace */
};

/* Allocate all tensors, copy parameters, lengths and page numbers to the device, and fill args, which point into *arguments: it
   must not move. What the tensors hold is undefined. Free it in any case. */
enum att_status arguments_make(struct arguments *arguments, att_session *session, const struct workload *workload,
                               enum tensor_layout layout, struct failure *failure);
void arguments_free(struct arguments *arguments); /* accepts one that is all zero */

/* Where element `i` of the workload's tensor, counted packed, lies on the device, in elements; -1 = no sequence has it. */
int64_t argument_place(const struct argument *argument, int64_t i);

#endif
