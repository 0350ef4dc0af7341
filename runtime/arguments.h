/* arguments: checks what a caller passes to att_launch and converts it to the parameters of a kernel. */
#ifndef ATTILE_ARGUMENTS_H
#define ATTILE_ARGUMENTS_H

#include "failure.h"
#include "formula.h"
#include "gen.h"
#include "params/append_kv.h"
#include "params/attention.h"
#include "params/attention_backward.h"
#include "params/merge.h"
#include "params/softmax.h"

enum { TENSOR_DIMS = 5, ARGUMENT_TENSORS = 20, WORKSPACE_ALIGNMENT = 256 };

/* One argument as a strided array; the last dimension is contiguous and has no stride. */
struct tensor {
    const char *name;
    const void *data;
    int element; /* bytes */
    bool output;
    bool in_place;   /* an output that may coincide with the input before it */
    unsigned beside; /* bit i: an output that may interleave with tensor i, as views of one array do */
    int dims;
    struct {
        const char *name;   /* of the extent: "len_q" */
        const char *stride; /* of the stride: "row_stride" */
        int64_t extent, step;
    } dim[TENSOR_DIMS];
    uintptr_t begin, end; /* bytes it touches, set by the check; equal if it has no elements */
};

struct arguments {
    struct shape shape;
    bool empty;            /* nothing to compute */
    int tensors, memories; /* lengths of the arrays at the end */
    int family;
    size_t params_begin, params_size; /* bytes of params that the kernel is given */
    union {
        struct attention_params attention;
        struct softmax_params softmax;
        struct merge_params merge;
        struct attention_backward_params attention_backward;
        struct append_kv_params append;
    } params;

    /* Elements past the counts are uninitialised: a launch does not clear 5 KB that it does not read. */
    struct tensor tensor[ARGUMENT_TENSORS];
    struct memory { /* memory of the tensors that mask and score read (formula_args.h), and of their gradients */
        const char *name;
        uintptr_t begin, end;
    } memory[2 * FORMULA_PARAMS];
};

/* The part that families with masks and scores share with attention_forward: the caller's arguments, the parameters of
   the kernel, and their size in bytes. Null for other families. */
const struct att_attention_args *arguments_attention_args(int family, const struct att_args *args);
struct attention_params *arguments_attention(struct arguments *arguments);
size_t arguments_attention_size(const struct arguments *arguments);

/* Bytes of an element, by its dtype or dtype_kv. */
int element_size(int dtype);

/* Checks that every size of the family is one that shapes.def and kernels allow. */
enum att_status arguments_check_sizes(const struct shape *shape, int family, struct failure *failure);

/* Checks the sizes alone and sets the shape: enough for att_workspace_size. */
enum att_status arguments_read_sizes(const struct knobs *knobs, const struct att_args *args, struct shape *shape,
                                     bool *empty, struct failure *failure);

/* Checks everything but the workspace, and fills the parameters. */
enum att_status arguments_read(const struct knobs *knobs, const struct att_args *args, struct arguments *arguments,
                               struct failure *failure);

/* Packs the parameters for the kernel of these knobs: its struct omits members that belong to other problems. Moves the
   remaining members together, as the last step before a launch. Returns their size in bytes. */
size_t arguments_pack(const struct knobs *knobs, struct attention_params *params);

/* Checks that the workspace has `bytes` bytes, is aligned, and overlaps no tensor. */
enum att_status arguments_check_workspace(const struct arguments *arguments, const struct att_args *args, size_t bytes,
                                          struct failure *failure);

#endif
