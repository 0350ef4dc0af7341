/* arguments: what a caller passes to att_launch, checked and turned into what a kernel is told. */
#ifndef ATTILE_ARGUMENTS_H
#define ATTILE_ARGUMENTS_H

#include "failure.h"
#include "formula.h"
#include "gen.h"
#include "params/attention.h"
#include "params/merge.h"
#include "params/softmax.h"

enum { TENSOR_DIMS = 5, ARGUMENT_TENSORS = 5, WORKSPACE_ALIGNMENT = 256 };

/* One argument as a strided array; the last dimension is contiguous and has no stride. */
struct tensor {
    const char *name;
    const void *data;
    int element; /* bytes */
    bool output;
    bool in_place; /* an output that may be exactly the input before it */
    int dims;
    struct {
        const char *name;   /* of the extent: "len_q" */
        const char *stride; /* of the stride: "row_stride" */
        int64_t extent, step;
    } dim[TENSOR_DIMS];
    uintptr_t begin, end; /* bytes it touches, set by the check; equal when it has no elements */
};

struct arguments {
    struct shape shape;
    bool empty; /* nothing to compute */
    int tensors;
    struct tensor tensor[ARGUMENT_TENSORS];
    int memories; /* of the tensors that mask and score read (formula_args.h) */
    struct memory {
        const char *name;
        uintptr_t begin, end;
    } memory[FORMULA_PARAMS];
    size_t params_size;
    union {
        struct attention_params attention;
        struct softmax_params softmax;
        struct merge_params merge;
    } params;
};

/* Check the sizes alone and set the shape: enough for att_workspace_size. */
enum att_status arguments_read_sizes(const struct knobs *knobs, const struct att_args *args, struct shape *shape,
                                     bool *empty, struct failure *failure);

/* Check everything but the workspace, and fill the parameters. */
enum att_status arguments_read(const struct knobs *knobs, const struct att_args *args, struct arguments *arguments,
                               struct failure *failure);

/* Check that the workspace has `bytes` bytes, is aligned, and is no memory of a tensor. */
enum att_status arguments_check_workspace(const struct arguments *arguments, const struct att_args *args, size_t bytes,
                                          struct failure *failure);

#endif
