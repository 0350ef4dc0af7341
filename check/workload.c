#include "workload.h"
#include "oracle.h"
#include "tolerance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- which tensors a family has ----------------------------------------------------------------------------------- */

enum { ONE = -1, HEAD_DIM = -2, HEAD_DIM_V = -3 }; /* dimensions that are no shape_id */
enum element { AS_INPUT, AS_OUTPUT, AS_FP32 };

struct operand {
    const char *name; /* null = none */
    enum element element;
    int dim[TENSOR_DIMS];
};

static const struct operands {
    struct operand input[WORKLOAD_INPUTS], output[WORKLOAD_OUTPUTS];
} families[] = {
    [family_softmax] = {{{"x", AS_INPUT, {ONE, ONE, ONE, SHAPE_rows, SHAPE_cols}}},
                        {{"y", AS_OUTPUT, {ONE, ONE, ONE, SHAPE_rows, SHAPE_cols}}}},
    [family_attention_forward] = {{{"q", AS_INPUT, {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM}},
                                   {"k", AS_INPUT, {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM}},
                                   {"v", AS_INPUT, {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM_V}}},
                                  {{"o", AS_OUTPUT, {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}},
                                   {"lse", AS_FP32, {ONE, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}}}},
    [family_merge] = {{{"o_parts", AS_INPUT, {SHAPE_parts, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}},
                       {"lse_parts", AS_FP32, {SHAPE_parts, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}}},
                      {{"o", AS_OUTPUT, {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}},
                       {"lse", AS_FP32, {ONE, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}}}},
};

const char *workload_input_name(int family, int i) {
    return i >= 0 && i < WORKLOAD_INPUTS ? families[family].input[i].name : NULL;
}

static int64_t size_of(const struct knobs *problem, const struct shape *shape, int dim) {
    switch (dim) {
    case HEAD_DIM: return problem->head_dim;
    case HEAD_DIM_V: return problem->head_dim_v;
    case SHAPE_kv_heads: return shape->kv_heads ? shape->kv_heads : shape->heads;
    default: return dim >= 0 ? shape_get(shape, (enum shape_id)dim) : 1;
    }
}

static enum npy_type type_of(const struct knobs *problem, enum element element) {
    int dtype = element == AS_INPUT ? problem->dtype : problem->dtype_out != AUTO ? problem->dtype_out : problem->dtype;
    return element == AS_FP32 ? NPY_FP32 : (enum npy_type)dtype;
}

_Static_assert((int)NPY_FP32 == dtype_fp32 && (int)NPY_FP16 == dtype_fp16 && (int)NPY_BF16 == dtype_bf16, "one order");
_Static_assert((int)NPY_FP32 == TOLERANCE_FP32 && (int)NPY_BF16 == TOLERANCE_BF16, "one order");

/* --- tensors from files ------------------------------------------------------------------------------------------- */

static bool fail(const char *path, const struct npy *file, struct text *error, const char *format, ...)
    TEXT_PRINTF(4, 5);
static bool fail(const char *path, const struct npy *file, struct text *error, const char *format, ...) {
    text_print(error, "%s: shape ", path);
    npy_print_shape(file, error);
    text_print(error, ": ");
    va_list arguments;
    va_start(arguments, format);
    text_vprint(error, format, arguments);
    va_end(arguments);
    return false;
}

static const char *dim_name(int dim) {
    return dim >= 0 ? shape_table[dim].name : dim == HEAD_DIM ? "head_dim" : "head_dim_v";
}

static void print_dims(const struct operand *operand, struct text *text) {
    const char *separator = "(";
    for (int d = 0; d < TENSOR_DIMS; d++)
        if (operand->dim[d] != ONE) {
            text_print(text, "%s%s", separator, dim_name(operand->dim[d]));
            separator = ", ";
        }
    text_print(text, ")");
}

/* Line the file's dimensions up with the operand's, from the last to the first;
   a missing first one is 1. `known` has a bit for each size that an earlier
   file decided. */
static bool match(const struct operand *operand, const char *path, const struct npy *file, const struct knobs *problem,
                  struct shape *shape, unsigned *known, struct text *error) {
    int d = TENSOR_DIMS - 1, at = file->dims - 1;
    for (; d >= 0; d--) {
        int dim = operand->dim[d];
        if (dim == ONE)
            continue;
        if (at < -1 || (at == -1 && dim != SHAPE_batch))
            break;
        int64_t size = at == -1 ? 1 : file->dim[at];
        at--;
        if (dim < 0 && size != size_of(problem, shape, dim))
            return fail(path, file, error, "the last dimension is %" PRId64 ", but %s is %" PRId64, size, dim_name(dim),
                        size_of(problem, shape, dim));
        if (dim < 0)
            continue;
        if (*known & 1u << dim && shape_get(shape, (enum shape_id)dim) != size)
            return fail(path, file, error, "%s is %" PRId64 " here, but %" PRId64 " in a tensor before it",
                        dim_name(dim), size, shape_get(shape, (enum shape_id)dim));
        shape_set(shape, (enum shape_id)dim, size);
        *known |= 1u << dim;
    }
    if (d < 0 && at < 0)
        return true;
    fail(path, file, error, "%s has dimensions ", operand->name);
    print_dims(operand, error);
    return false;
}

bool workload_shape(const struct knobs *problem, const struct workload_files *files, struct shape *shape,
                    struct text *error) {
    unsigned known = 0;
    *shape = (struct shape){0};
    for (int i = 0; i < WORKLOAD_INPUTS; i++) {
        const struct operand *operand = &families[problem->family].input[i];
        if (!operand->name)
            continue;
        if (!files->file[i].data) {
            text_print(error, "no file for %s; give one for every input", operand->name);
            return false;
        }
        if (!match(operand, files->path[i], &files->file[i], problem, shape, &known, error))
            return false;
    }
    if (problem->family == family_attention_forward &&
        (shape->kv_heads < 1 ? shape->heads != 0 : shape->heads % shape->kv_heads != 0)) {
        text_print(error, "%" PRId64 " query heads cannot share %" PRId64 " K/V heads: kv_heads must divide heads",
                   shape->heads, shape->kv_heads);
        return false;
    }
    return true;
}

/* --- making inputs ------------------------------------------------------------------------------------------------ */

static float rounded(enum npy_type type, float value) {
    unsigned char bits[4];
    element_encode(type, value, bits);
    return element_decode(type, bits);
}

static bool make_input(struct workload *workload, int i, const struct npy *file, uint64_t seed) {
    const struct operand *operand = &families[workload->problem.family].input[i];
    struct workload_input *input = &workload->input[i];
    struct tensor plan;
    input->name = operand->name;
    input->type = type_of(&workload->problem, operand->element);
    for (int d = 0; d < TENSOR_DIMS; d++)
        input->dim[d] = size_of(&workload->problem, &workload->shape, operand->dim[d]);
    if (!tensor_plan(&plan, NPY_FP32, input->dim, LAYOUT_PACKED))
        return false;
    input->count = plan.count;
    input->value = malloc(plan.bytes ? plan.bytes : 1);
    if (!input->value)
        return false;
    workload->inputs++;
    const char *data = file ? file->data : NULL;
    size_t size = file ? npy_element_size(file->type) : 0;
    if (!data)
        tensor_random(seed * WORKLOAD_INPUTS + (uint64_t)i, input->value, input->count);
    for (int64_t k = 0; k < input->count; k++)
        input->value[k] =
            rounded(input->type, data ? element_decode(file->type, data + (size_t)k * size) : input->value[k]);
    return true;
}

/* Some parts saw no key: their lse is -inf and their output, which counts for nothing, NaN. */
static void empty_some_parts(struct workload *workload) {
    struct workload_input *o = &workload->input[0], *lse = &workload->input[1];
    int64_t columns = o->dim[DIM_COLUMN];
    for (int64_t row = 0; row < lse->count; row++) {
        if (lse->value[row] > -0.7f) /* three of four stay */
            continue;
        lse->value[row] = -INFINITY;
        for (int64_t d = 0; d < columns; d++)
            o->value[row * columns + d] = NAN;
    }
}

/* --- answers and what is allowed ---------------------------------------------------------------------------------- */

static bool make_outputs(struct workload *workload) {
    for (int i = 0; i < WORKLOAD_OUTPUTS; i++) {
        const struct operand *operand = &families[workload->problem.family].output[i];
        struct workload_output *output = &workload->output[i];
        struct tensor plan;
        if (!operand->name)
            break;
        output->name = operand->name;
        output->type = type_of(&workload->problem, operand->element);
        for (int d = 0; d < TENSOR_DIMS; d++)
            output->dim[d] = size_of(&workload->problem, &workload->shape, operand->dim[d]);
        if (!tensor_plan(&plan, NPY_FP32, output->dim, LAYOUT_PACKED))
            return false;
        output->count = plan.count;
        output->expected = calloc((size_t)plan.count + 1, sizeof(double));
        output->allowed = calloc((size_t)plan.count + 1, sizeof(double));
        if (!output->expected || !output->allowed)
            return false;
        workload->outputs++;
    }
    return true;
}

/* Tensor cores multiply weights of 16 bits; other kernels keep them in fp32. */
int workload_weights(const struct knobs *knobs) {
    bool unit = knobs->algorithm == algorithm_flash_async || knobs->algorithm == algorithm_flash_mma;
    return unit ? knobs->dtype : dtype_fp32;
}

static bool answer_attention(const struct workload *w) {
    const struct shape *s = &w->shape;
    const struct workload_output *o = &w->output[0], *lse = &w->output[1];
    struct oracle_attention problem = {.q = w->input[0].value,
                                       .k = w->input[1].value,
                                       .v = w->input[2].value,
                                       .batch = s->batch,
                                       .heads = s->heads,
                                       .kv_heads = w->input[1].dim[DIM_HEAD],
                                       .len_q = s->len_q,
                                       .len_kv = s->len_kv,
                                       .head_dim = w->problem.head_dim,
                                       .head_dim_v = w->problem.head_dim_v,
                                       .scale = w->scale,
                                       .causal = w->problem.mask == mask_causal,
                                       .mask = w->params->formulas.mask,
                                       .score = w->params->formulas.score,
                                       .env = &w->params->env};
    if (w->problem.sinks > 0) /* the last parameter */
        problem.sinks = w->params->param[w->params->formulas.scope.count - 1].value;
    return oracle_attention(&problem, o->expected, lse->expected) &&
           tolerance_attention(&problem, (enum tolerance_type)workload_weights(&w->problem),
                               (enum tolerance_type)o->type, o->expected, lse->expected, o->allowed, lse->allowed);
}

static bool answer(const struct workload *w) {
    const struct shape *s = &w->shape;
    const struct workload_output *first = &w->output[0], *lse = &w->output[1];
    enum tolerance_type type = (enum tolerance_type)first->type;
    const float *input = w->input[0].value, *lse_parts = w->input[1].value;
    int64_t dim = w->problem.head_dim_v;
    switch (w->problem.family) {
    case family_softmax:
        oracle_softmax(input, s->rows, s->cols, first->expected);
        return tolerance_softmax(input, s->rows, s->cols, type, first->expected, first->allowed);
    case family_merge:
        oracle_merge(input, lse_parts, s->parts, lse->count, dim, first->expected, lse->expected);
        return tolerance_merge(input, lse_parts, s->parts, lse->count, dim, type, first->expected, lse->expected,
                               first->allowed, lse->allowed);
    default: return answer_attention(w);
    }
}

/* An input takes 4 bytes an element here, an output 16. */
static void refuse_size(const struct workload *workload, struct text *error) {
    const struct operands *operands = &families[workload->problem.family];
    const struct operand *most = NULL;
    double largest = 0, total = 0;
    for (int i = 0; i < WORKLOAD_INPUTS + WORKLOAD_OUTPUTS; i++) {
        bool output = i >= WORKLOAD_INPUTS;
        const struct operand *operand = output ? &operands->output[i - WORKLOAD_INPUTS] : &operands->input[i];
        double bytes = output ? 2 * sizeof(double) : sizeof(float);
        for (int d = 0; operand->name && d < TENSOR_DIMS; d++)
            bytes *= (double)size_of(&workload->problem, &workload->shape, operand->dim[d]);
        total += operand->name ? bytes : 0;
        if (operand->name && bytes > largest) {
            largest = bytes;
            most = operand;
        }
    }
    text_print(error, "the tensors and their answer take %.3g GiB, which do not fit in memory", total / 0x1p30);
    if (most)
        text_print(error, "; %s takes most, %.3g GiB; make the shape smaller", most->name, largest / 0x1p30);
}

bool workload_make(struct workload *workload, const struct knobs *problem, const struct shape *shape,
                   const struct workload_files *files, uint64_t seed, struct text *error) {
    *workload = (struct workload){.problem = *problem, .shape = *shape};
    workload->scale = (double)(float)(1 / sqrt((double)(problem->head_dim > 0 ? problem->head_dim : 1)));
    bool ok = true;
    if (problem->family == family_attention_forward &&
        !(workload->params = params_make_given(problem, shape, seed, files ? files->params : NULL, error)))
        return false;
    for (int i = 0; ok && workload_input_name(problem->family, i); i++)
        ok = make_input(workload, i, files ? &files->file[i] : NULL, seed);
    if (ok && problem->family == family_merge && !files)
        empty_some_parts(workload);
    ok = ok && make_outputs(workload) && answer(workload);
    if (!ok)
        refuse_size(workload, error);
    return ok;
}

void workload_free(struct workload *workload) {
    for (int i = 0; i < WORKLOAD_INPUTS; i++)
        free(workload->input[i].value);
    for (int i = 0; i < WORKLOAD_OUTPUTS; i++) {
        free(workload->output[i].expected);
        free(workload->output[i].allowed);
    }
    params_free(workload->params);
    *workload = (struct workload){0};
}

bool workload_fits(const struct workload *workload, const struct knobs *problem, const struct shape *shape) {
    if (workload->inputs == 0 || memcmp(&workload->shape, shape, sizeof *shape) != 0)
        return false;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group != KNOB_GROUP_SCHEDULE && id != KNOB_target &&
            !knob_same(&workload->problem, problem, (enum knob_id)id))
            return false;
    return workload_weights(&workload->problem) == workload_weights(problem);
}
