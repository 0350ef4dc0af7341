#include "workload.h"
#include "new_tokens.h"
#include "oracle.h"
#include "tolerance.h"
#include "tolerance_backward.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- which tensors a family has ----------------------------------------------------------------------------------- */

/* Dimensions that are not a shape_id. */
enum {
    ONE = -1,
    HEAD_DIM = -2,
    HEAD_DIM_V = -3,
    CACHE_BLOCKS = -4,
    CACHE_ROWS = -5,
    ROPE_ROWS = -6,
    ROPE_PAIRS = -7,
    SCALES = -8
};
enum element { AS_INPUT, AS_OUTPUT, AS_FP32, AS_CACHE, AS_KV };

struct operand {
    const char *name; /* null = none */
    enum element element;
    int dim[TENSOR_DIMS];
    bool made;                                   /* never given by a user */
    bool (*wanted)(const struct knobs *problem); /* null = always */
    const char *updates;                         /* for an output: the input whose memory it shares; null = none */
};

static bool wants_dq(const struct knobs *problem) { return wants_has(problem->formulas.wants, "dq"); }
static bool wants_dk(const struct knobs *problem) { return wants_has(problem->formulas.wants, "dk"); }
static bool wants_dv(const struct knobs *problem) { return wants_has(problem->formulas.wants, "dv"); }
static bool wants_d_sinks(const struct knobs *problem) {
    return problem->sinks > 0 && wants_has(problem->formulas.wants, "d_sinks");
}
static bool appends(const struct knobs *problem) { return problem->append > 0; }
static bool rotates(const struct knobs *problem) { return problem->rope > rope_none; }
static bool takes_tables(const struct knobs *problem) { return problem->rope_from == rope_from_tables; }
static bool has_scale_of_token(const struct knobs *problem) { return problem->kv_scale == kv_scale_token; }
static bool takes_scales(const struct knobs *problem) {
    return problem->kv_scale == kv_scale_tensor || problem->kv_scale == kv_scale_head;
}

enum { FAMILY_OUTPUTS = 5 }; /* without gradients of parameters */

static const struct operands {
    struct operand input[WORKLOAD_INPUTS], output[FAMILY_OUTPUTS];
} families[] = {
    [family_softmax] = {{{"x", AS_INPUT, .dim = {ONE, ONE, ONE, SHAPE_rows, SHAPE_cols}}},
                        {{"y", AS_OUTPUT, .dim = {ONE, ONE, ONE, SHAPE_rows, SHAPE_cols}}}},
    [family_attention_forward] =
        {{{"q", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM}},
          {"k", AS_KV, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM}},
          {"v", AS_KV, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM_V}},
          {"k_scale", AS_FP32, .dim = {ONE, ONE, ONE, ONE, SCALES}, .made = true, .wanted = takes_scales},
          {"v_scale", AS_FP32, .dim = {ONE, ONE, ONE, ONE, SCALES}, .made = true, .wanted = takes_scales},
          {"k_scale", AS_FP32, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, ONE}, .made = true,
           .wanted = has_scale_of_token},
          {"v_scale", AS_FP32, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, ONE}, .made = true,
           .wanted = has_scale_of_token},
          {"k_new", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_q, HEAD_DIM}, .made = true,
           .wanted = appends},
          {"v_new", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_q, HEAD_DIM_V}, .made = true,
           .wanted = appends},
          {"rope_cos", AS_FP32, .dim = {ONE, ONE, ONE, ROPE_ROWS, ROPE_PAIRS}, .made = true, .wanted = takes_tables},
          {"rope_sin", AS_FP32, .dim = {ONE, ONE, ONE, ROPE_ROWS, ROPE_PAIRS}, .made = true, .wanted = takes_tables}},
         {{"o", AS_OUTPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}},
          {"lse", AS_FP32, .dim = {ONE, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}},
          {"k_cache", AS_KV, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM}, .wanted = appends,
           .updates = "k"},
          {"v_cache", AS_KV, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM_V}, .wanted = appends,
           .updates = "v"}}},
    [family_merge] = {{{"o_parts", AS_INPUT, .dim = {SHAPE_parts, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}},
                       {"lse_parts", AS_FP32, .dim = {SHAPE_parts, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}}},
                      {{"o", AS_OUTPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}},
                       {"lse", AS_FP32, .dim = {ONE, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}}}},
    [family_attention_backward] =
        {{{"q", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM}},
          {"k", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM}},
          {"v", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM_V}},
          {"d_o", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}},
          {"d_lse", AS_FP32, .dim = {ONE, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}, .made = true},
          {"o", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM_V}, .made = true},
          {"lse", AS_FP32, .dim = {ONE, SHAPE_batch, SHAPE_heads, ONE, SHAPE_len_q}, .made = true}},
         {{"dq", AS_OUTPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM}, .wanted = wants_dq},
          {"dk", AS_OUTPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM}, .wanted = wants_dk},
          {"dv", AS_OUTPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, HEAD_DIM_V}, .wanted = wants_dv},
          {"d_sinks", AS_FP32, .dim = {ONE, ONE, ONE, ONE, SHAPE_heads}, .wanted = wants_d_sinks}}},
    [family_append_kv] =
        {{{"q", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM}},
          {"k", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_q, HEAD_DIM}},
          {"v", AS_INPUT, .dim = {ONE, SHAPE_batch, SHAPE_kv_heads, SHAPE_len_q, HEAD_DIM_V}},
          {"rope_cos", AS_FP32, .dim = {ONE, ONE, ONE, ROPE_ROWS, ROPE_PAIRS}, .made = true, .wanted = takes_tables},
          {"rope_sin", AS_FP32, .dim = {ONE, ONE, ONE, ROPE_ROWS, ROPE_PAIRS}, .made = true, .wanted = takes_tables},
          {"k_scale", AS_FP32, .dim = {ONE, ONE, ONE, ONE, SCALES}, .made = true, .wanted = takes_scales},
          {"v_scale", AS_FP32, .dim = {ONE, ONE, ONE, ONE, SCALES}, .made = true, .wanted = takes_scales}},
         {{"q_out", AS_OUTPUT, .dim = {ONE, SHAPE_batch, SHAPE_heads, SHAPE_len_q, HEAD_DIM}, .wanted = rotates},
          {"k_cache", AS_CACHE, .dim = {ONE, CACHE_BLOCKS, SHAPE_kv_heads, CACHE_ROWS, HEAD_DIM}},
          {"v_cache", AS_CACHE, .dim = {ONE, CACHE_BLOCKS, SHAPE_kv_heads, CACHE_ROWS, HEAD_DIM_V}},
          {"k_scale", AS_FP32, .dim = {ONE, CACHE_BLOCKS, SHAPE_kv_heads, CACHE_ROWS, ONE},
           .wanted = has_scale_of_token},
          {"v_scale", AS_FP32, .dim = {ONE, CACHE_BLOCKS, SHAPE_kv_heads, CACHE_ROWS, ONE},
           .wanted = has_scale_of_token}}},
};
/* Inputs of attention. */
enum { INPUT_K = 1, INPUT_V = 2 };
/* Inputs of the backward pass. */
enum { BACKWARD_Q, BACKWARD_K, BACKWARD_V, BACKWARD_D_O, BACKWARD_D_LSE, BACKWARD_O, BACKWARD_LSE };

static bool is_wanted(const struct operand *operand, const struct knobs *problem) {
    return operand->name && (!operand->wanted || operand->wanted(problem));
}

const char *workload_input_name(int family, int i) {
    if (i < 0 || i >= WORKLOAD_INPUTS || families[family].input[i].made)
        return NULL;
    return families[family].input[i].name;
}

static int64_t size_of(const struct knobs *problem, const struct shape *shape, int dim) {
    switch (dim) {
    case HEAD_DIM: return problem->head_dim;
    case HEAD_DIM_V: return problem->head_dim_v;
    case CACHE_BLOCKS: return append_blocks(problem, shape);
    case CACHE_ROWS: return append_rows(problem, shape);
    case ROPE_ROWS: return shape->len_kv > 0 ? shape->len_kv : 1;
    case ROPE_PAIRS: return append_half(problem);
    case SCALES:
        if (problem->kv_scale == kv_scale_tensor)
            return 1; /* fall through */
    case SHAPE_kv_heads: return shape->kv_heads ? shape->kv_heads : shape->heads;
    default: return dim >= 0 ? shape_get(shape, (enum shape_id)dim) : 1;
    }
}

static enum npy_type type_of(const struct knobs *problem, enum element element) {
    if (element == AS_KV)
        element = knobs_quantised(problem) ? AS_CACHE : AS_INPUT;
    int dtype = element == AS_INPUT ? problem->dtype : problem->dtype_out != AUTO ? problem->dtype_out : problem->dtype;
    return element == AS_FP32 ? NPY_FP32 : (enum npy_type)(element == AS_CACHE ? problem->dtype_kv : dtype);
}

_Static_assert((int)NPY_FP32 == dtype_fp32 && (int)NPY_FP16 == dtype_fp16 && (int)NPY_BF16 == dtype_bf16, "one order");
_Static_assert((int)NPY_BF16 == dtype_kv_bf16 && (int)NPY_E4M3 == dtype_kv_e4m3 && (int)NPY_INT8 == dtype_kv_int8,
               "one order");
_Static_assert((int)NPY_FP32 == TOLERANCE_FP32 && (int)NPY_INT8 == TOLERANCE_INT8, "one order");

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

/* Matches the file's dimensions with the operand's, from the last to the first; a missing first one is 1. `known` has a
   bit for each size that an earlier file determined. */
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
        if (!operand->name || operand->made || (i == INPUT_V && workload_shares_kv(problem)))
            continue;
        if (!files->file[i].data) {
            text_print(error, "no file for %s; give one for every input", operand->name);
            return false;
        }
        if (!match(operand, files->path[i], &files->file[i], problem, shape, &known, error))
            return false;
    }
    if (family_is_attention(problem->family) &&
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

enum { SEEDS = 3 }; /* distance between the tensor seeds of neighbouring seeds */

/* Finds the dimension that holds the rows of a sequence, and their side. A cache that is not paged has room for the
   longest sequence. */
static enum tensor_dim find_rows(const struct operand *operand, const struct knobs *problem, enum lengths_side *side) {
    int family = problem->family, kv = family == family_append_kv && problem->page_size > 0 ? CACHE_ROWS : SHAPE_len_kv;
    *side = LENGTHS_EQUAL;
    bool sequences = family_is_attention(family) || (family == family_append_kv && !operand->made);
    for (int d = 0; d < TENSOR_DIMS && sequences; d++) {
        if (operand->dim[d] != SHAPE_len_q && operand->dim[d] != kv)
            continue;
        *side = operand->dim[d] == SHAPE_len_q ? LENGTHS_Q : LENGTHS_KV;
        return (enum tensor_dim)d;
    }
    return DIM_ROW;
}

/* Factor that makes numbers of standard deviation 1 use the range of an 8-bit type. With a scale, which is small, they
   become numbers of about 1 again. */
static float spread_of(const struct knobs *problem, const struct operand *operand) {
    if (operand->element != AS_KV || !knobs_quantised(problem))
        return 1;
    return problem->kv_scale > kv_scale_none ? 40 : problem->dtype_kv == dtype_kv_int8 ? 2 : 1;
}

/* Turns numbers of standard deviation 1 into scales: with spread_of, and with the inputs of append_kv, some numbers do
   not fit the type. Scales of tokens differ widely, and some are 0. */
static void make_scales(struct workload_input *input) {
    for (int64_t i = 0; i < input->count; i++) {
        input->value[i] = (fabsf(input->value[i]) + 1) / 64;
        if (input->dim[DIM_COLUMN] == 1 && input->dim[DIM_ROW] > 1)
            input->value[i] *= i % 11 == 10 ? 0 : i % 7 == 6 ? 8 : i % 5 == 4 ? 0x1p-20f : 1;
    }
}

bool workload_shares_kv(const struct knobs *problem) {
    return problem->family == family_attention_forward && problem->shared_kv == 1;
}

/* Copies V from the first columns of K, for a problem where V is part of K. */
static void take_columns(const struct workload_input *k, struct workload_input *v) {
    int64_t columns = v->dim[DIM_COLUMN], of = k->dim[DIM_COLUMN];
    for (int64_t row = 0; row < v->count / columns; row++)
        memcpy(v->value + row * columns, k->value + row * of, sizeof *v->value * (size_t)columns);
}

static bool describe_input(const struct workload *workload, const struct operand *operand,
                           struct workload_input *input) {
    struct tensor plan;
    input->name = operand->name;
    input->type = type_of(&workload->problem, operand->element);
    input->rows = find_rows(operand, &workload->problem, &input->side);
    for (int d = 0; d < TENSOR_DIMS; d++)
        input->dim[d] = size_of(&workload->problem, &workload->shape, operand->dim[d]);
    if (!tensor_plan(&plan, NPY_FP32, input->dim, LAYOUT_PACKED))
        return false;
    input->count = plan.count;
    return true;
}

static bool make_input(struct workload *workload, int i, const struct npy *file, uint64_t seed) {
    const struct operand *operand = &families[workload->problem.family].input[i];
    struct workload_input *input = &workload->input[workload->inputs];
    if (!is_wanted(operand, &workload->problem))
        return true;
    if (!describe_input(workload, operand, input) ||
        !(input->value = malloc(sizeof *input->value * (size_t)(input->count + 1))))
        return false;
    workload->inputs++;
    const char *data = file ? file->data : NULL;
    size_t size = file ? npy_element_size(file->type) : 0;
    if (!data)
        tensor_random(seed * SEEDS + (uint64_t)i, input->value, input->count);
    float spread = spread_of(&workload->problem, operand);
    for (int64_t k = 0; k < input->count; k++)
        input->value[k] =
            rounded(input->type, data ? element_decode(file->type, data + (size_t)k * size) : spread * input->value[k]);
    if (i == INPUT_V && workload_shares_kv(&workload->problem))
        take_columns(&workload->input[INPUT_K], input);
    if (operand->wanted == takes_scales || operand->wanted == has_scale_of_token)
        make_scales(input);
    return true;
}

/* Makes some parts see no key: their lse is -inf, and their output, which does not count, is NaN. */
static void empty_some_parts(struct workload *workload) {
    struct workload_input *o = &workload->input[0], *lse = &workload->input[1];
    int64_t columns = o->dim[DIM_COLUMN];
    for (int64_t row = 0; row < lse->count; row++) {
        if (lse->value[row] > -0.7f) /* three out of four stay */
            continue;
        lse->value[row] = -INFINITY;
        for (int64_t d = 0; d < columns; d++)
            o->value[row * columns + d] = NAN;
    }
}

/* --- answers and what is allowed ---------------------------------------------------------------------------------- */

/* Allocates the answer of an output whose name, type and dimensions are set. */
static bool make_answer(struct workload *workload, struct workload_output *output, bool with_answer) {
    struct tensor plan;
    if (!tensor_plan(&plan, NPY_FP32, output->dim, LAYOUT_PACKED))
        return false;
    output->count = plan.count;
    if (!with_answer) {
        workload->outputs++;
        return true;
    }
    output->expected = calloc((size_t)plan.count + 1, sizeof(double));
    output->allowed = calloc((size_t)plan.count + 1, sizeof(double));
    workload->outputs++;
    return output->expected && output->allowed;
}

/* Returns the input of this name, or null. */
static const struct workload_input *input_named(const struct workload *workload, const char *name) {
    for (int i = 0; i < workload->inputs; i++)
        if (strcmp(workload->input[i].name, name) == 0)
            return &workload->input[i];
    return NULL;
}

static bool make_outputs(struct workload *workload, bool with_answer) {
    for (int i = 0; i < FAMILY_OUTPUTS; i++) {
        const struct operand *operand = &families[workload->problem.family].output[i];
        struct workload_output *output = &workload->output[workload->outputs];
        if (!is_wanted(operand, &workload->problem))
            continue;
        output->name = operand->name;
        output->type = type_of(&workload->problem, operand->element);
        output->rows = find_rows(operand, &workload->problem, &output->side);
        output->updates = operand->updates ? input_named(workload, operand->updates) : NULL;
        for (int d = 0; d < TENSOR_DIMS; d++)
            output->dim[d] = size_of(&workload->problem, &workload->shape, operand->dim[d]);
        if (!make_answer(workload, output, with_answer))
            return false;
    }
    return true;
}

/* Makes outputs for the gradients of what the score reads. They have the dimensions of the parameter, as the last ones
   of a tensor here. */
static bool make_param_outputs(struct workload *workload, bool with_answer) {
    const struct params *params = workload->params;
    for (int i = 0; params && i < params->formulas.scope.count; i++) {
        struct workload_output *output = &workload->output[workload->outputs];
        int dims = params->formulas.scope.param[i].dims;
        if (!(params->formulas.wants.params >> i & 1))
            continue;
        output->name = params->gradient[i];
        output->type = NPY_FP32;
        for (int d = 0; d < TENSOR_DIMS; d++)
            output->dim[d] = d < TENSOR_DIMS - dims ? 1 : params->param[i].size[d - (TENSOR_DIMS - dims)];
        if (!make_answer(workload, output, with_answer))
            return false;
    }
    return true;
}

/* Returns the output of this name, or null. */
static const struct workload_output *output_named(const struct workload *workload, const char *name) {
    for (int i = 0; i < workload->outputs; i++)
        if (strcmp(workload->output[i].name, name) == 0)
            return &workload->output[i];
    return NULL;
}

/* Tensor cores multiply weights in 16 bits or in TF32; other kernels keep them in fp32. */
int workload_weights(const struct knobs *knobs) {
    bool unit = knobs->algorithm == algorithm_flash_async || knobs->algorithm == algorithm_flash_mma ||
                knobs->algorithm == algorithm_decode || knobs->algorithm == algorithm_mla;
    if (unit && knobs->precision > precision_fp32)
        return knobs->precision == precision_tf32x3 ? TOLERANCE_TF32X3 : TOLERANCE_TF32;
    return !unit ? dtype_fp32 : knobs_quantised(knobs) ? dtype_fp16 : knobs->dtype;
}

/* True if the backward kernel keeps P only in 16 bits (by_role and by_cluster of
   templates/attention_backward_async.cu). */
static bool keeps_rounded_weights(const struct knobs *knobs) {
    const bool by_role = knobs->block_n < 128, by_cluster = knobs->head_dim == 256 && knobs->dq_in == dq_in_dq_memory;
    return knobs->family == family_attention_backward && knobs->algorithm == algorithm_flash_async &&
           (by_role || by_cluster);
}

/* True if it adds dS in 16 bits to the gradients of what the score reads (templates/backward/add_d_params.cuh). */
static bool adds_rounded_d_s(const struct knobs *knobs) {
    return knobs->family == family_attention_backward && knobs->algorithm == algorithm_flash_async &&
           knobs->wants == wants_custom_wants;
}

/* Builds the forward problem from the first inputs. */
static struct oracle_attention forward_of(const struct workload *w) {
    const struct shape *s = &w->shape;
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
                                       .queries_in_fp16 = knobs_quantised(&w->problem) &&
                                                          w->problem.dtype == dtype_bf16 &&
                                                          workload_weights(&w->problem) == dtype_fp16,
                                       .causal = w->problem.mask == mask_causal,
                                       .mask = w->params->formulas.mask,
                                       .score = w->params->formulas.score,
                                       .env = &w->params->env};
    if (w->problem.layout > layout_dense)
        problem.own_len_q = w->lengths.len_q, problem.own_len_kv = w->lengths.len_kv;
    if (w->problem.dropout > 0)
        problem.dropout = &w->dropout;
    if (w->problem.sinks > 0) /* the last parameter */
        problem.sinks = w->params->param[w->params->formulas.scope.count - 1].value;
    return problem;
}

/* Expands the scales of kv_scale to all rows of K or V, (batch, kv_heads, len_kv). Null when memory runs out. */
static float *scales_of_rows(const struct workload *w, const struct workload_input *scale) {
    int64_t kv_heads = w->input[1].dim[DIM_HEAD], len_kv = w->shape.len_kv, rows = w->shape.batch * kv_heads * len_kv;
    float *of_row = malloc(sizeof *of_row * (size_t)(rows + 1));
    for (int64_t i = 0; of_row && i < rows; i++)
        of_row[i] = scale->value[w->problem.kv_scale == kv_scale_token  ? i
                                 : w->problem.kv_scale == kv_scale_head ? i / len_kv % kv_heads
                                                                        : 0];
    return of_row;
}

static bool answer_scaled(const struct workload *w, const struct oracle_attention *problem) {
    const struct workload_output *o = &w->output[0], *lse = &w->output[1];
    return oracle_attention(problem, o->expected, lse->expected) &&
           tolerance_attention(problem, (enum tolerance_type)workload_weights(&w->problem),
                               (enum tolerance_type)o->type, o->expected, lse->expected, o->allowed, lse->allowed);
}

/* Answers attention to a cache that contains its new rows, with rotated queries. */
static bool answer_appended(const struct workload *w, struct oracle_attention *problem) {
    struct new_tokens tokens;
    bool good = new_tokens_make(&tokens, w);
    problem->q = tokens.q, problem->k = tokens.k, problem->v = tokens.v;
    problem->q_error = tokens.q_error, problem->k_error = tokens.k_error;
    good = good && answer_scaled(w, problem);
    new_tokens_free(&tokens);
    return good;
}

static bool answer_attention(const struct workload *w) {
    struct oracle_attention problem = forward_of(w);
    if (appends(&w->problem))
        return answer_appended(w, &problem);
    if (w->problem.kv_scale <= kv_scale_none)
        return answer_scaled(w, &problem);
    float *k_scale = scales_of_rows(w, &w->input[3]), *v_scale = scales_of_rows(w, &w->input[4]);
    problem.k_scale = k_scale, problem.v_scale = v_scale;
    bool good = k_scale && v_scale && answer_scaled(w, &problem);
    free(k_scale);
    free(v_scale);
    return good;
}

/* Makes O and LSE as a forward pass would leave them: the oracle's, rounded. o and lse receive what the kernel gets. */
static bool run_forward(struct workload *w, double *o, double *lse) {
    struct workload_input *given_o = &w->input[BACKWARD_O], *given_lse = &w->input[BACKWARD_LSE];
    struct oracle_attention problem = forward_of(w);
    if (!oracle_attention(&problem, o, lse))
        return false;
    for (int64_t i = 0; i < given_o->count; i++)
        o[i] = (double)(given_o->value[i] = rounded(given_o->type, (float)o[i]));
    for (int64_t i = 0; i < given_lse->count; i++)
        lse[i] = (double)(given_lse->value[i] = (float)lse[i]);
    return true;
}

static void find_gradients(const struct workload *w, struct oracle_gradients *expected,
                           struct oracle_gradients *allowed) {
    const struct {
        const char *name;
        double **expected, **allowed;
    } fixed[] = {{"dq", &expected->dq, &allowed->dq},
                 {"dk", &expected->dk, &allowed->dk},
                 {"dv", &expected->dv, &allowed->dv},
                 {"d_sinks", &expected->d_sinks, &allowed->d_sinks}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const struct workload_output *output = output_named(w, fixed[i].name);
        *fixed[i].expected = output ? output->expected : NULL;
        *fixed[i].allowed = output ? output->allowed : NULL;
    }
    for (int i = 0; i < w->params->formulas.scope.count; i++) {
        bool wanted = w->params->formulas.wants.params >> i & 1;
        const struct workload_output *output = wanted ? output_named(w, w->params->gradient[i]) : NULL;
        expected->d_param[i] = output ? output->expected : NULL;
        allowed->d_param[i] = output ? output->allowed : NULL;
    }
}

/* A launch whose indices may leave a tensor is refused, and has no answer. */
static bool indices_fit(const struct workload *w) {
    struct text why = {0};
    bool fit = params_fit(w->params, &why);
    text_free(&why);
    return fit;
}

static bool answer_backward(struct workload *w) {
    if (!indices_fit(w))
        return true;
    const struct oracle_attention forward = forward_of(w);
    struct formula *derivative = forward.score ? formula_slope(forward.score) : NULL;
    double *o = malloc(sizeof *o * (size_t)(w->input[BACKWARD_O].count + 1));
    double *lse = malloc(sizeof *lse * (size_t)(w->input[BACKWARD_LSE].count + 1));
    const struct oracle_backward problem = {.forward = &forward,
                                            .derivative = derivative,
                                            .o = o,
                                            .lse = lse,
                                            .d_o = w->input[BACKWARD_D_O].value,
                                            .d_lse = w->input[BACKWARD_D_LSE].value,
                                            .reads =
                                                w->params->formulas.wants.params ? &w->params->formulas.reads : NULL,
                                            .scope = &w->params->formulas.scope,
                                            .d_s_from_rounded = keeps_rounded_weights(&w->problem),
                                            .reads_from_rounded = adds_rounded_d_s(&w->problem)};
    struct oracle_gradients expected = {0}, allowed = {0};
    find_gradients(w, &expected, &allowed);
    bool done = o && lse && (derivative || !forward.score) && run_forward(w, o, lse);
    if (done)
        oracle_backward(&problem, &expected);
    done = done && tolerance_backward(&problem, (enum tolerance_type)workload_weights(&w->problem),
                                      (enum tolerance_type)type_of(&w->problem, AS_OUTPUT), &expected, &allowed);
    formula_free(derivative);
    free(o);
    free(lse);
    return done;
}

static bool answer(struct workload *w) {
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
    case family_attention_backward: return answer_backward(w);
    case family_append_kv: return append_answer(w);
    default: return answer_attention(w);
    }
}

/* An input takes 4 bytes per element here, an output 16. */
static void refuse_size(const struct workload *workload, struct text *error) {
    const struct operands *operands = &families[workload->problem.family];
    const struct operand *most = NULL;
    double largest = 0, total = 0;
    for (int i = 0; i < WORKLOAD_INPUTS + FAMILY_OUTPUTS; i++) {
        bool output = i >= WORKLOAD_INPUTS;
        const struct operand *operand = output ? &operands->output[i - WORKLOAD_INPUTS] : &operands->input[i];
        double bytes = output ? 2 * sizeof(double) : sizeof(float);
        for (int d = 0; is_wanted(operand, &workload->problem) && d < TENSOR_DIMS; d++)
            bytes *= (double)size_of(&workload->problem, &workload->shape, operand->dim[d]);
        total += is_wanted(operand, &workload->problem) ? bytes : 0;
        if (is_wanted(operand, &workload->problem) && bytes > largest) {
            largest = bytes;
            most = operand;
        }
    }
    text_print(error, "the tensors and their answer take %.3g GiB, which do not fit in memory", total / 0x1p30);
    if (most)
        text_print(error, "; %s takes most, %.3g GiB; make the shape smaller", most->name, largest / 0x1p30);
}

/* Makes what all parts of the workload depend on; false when memory for lengths or places runs out. */
static bool open_workload(struct workload *workload, const struct knobs *problem, const struct shape *shape,
                          uint64_t seed, bool full) {
    *workload = (struct workload){.problem = *problem, .shape = *shape};
    workload->scale = (double)(float)(1 / sqrt((double)(problem->head_dim > 0 ? problem->head_dim : 1)));
    if (problem->dropout > 0) /* heads from the third on have a carry in the counter */
        workload->dropout =
            (struct oracle_dropout){0.3, UINT64_C(0x9E3779B97F4A7C15) * (seed + 1), UINT64_C(0x1fffffffe)};
    return (full ? lengths_make_full : lengths_make)(&workload->lengths, problem, shape, seed) &&
           append_make(&workload->places, problem, shape, seed);
}

bool workload_outline(struct workload *workload, const struct knobs *problem, const struct shape *shape, uint64_t seed,
                      struct text *error) {
    bool ok = open_workload(workload, problem, shape, seed, true);
    if (family_is_attention(problem->family) &&
        !(workload->params = params_make_given(problem, shape, seed, NULL, error)))
        return false;
    for (int i = 0; ok && i < WORKLOAD_INPUTS; i++) {
        const struct operand *operand = &families[problem->family].input[i];
        if (is_wanted(operand, problem))
            ok = describe_input(workload, operand, &workload->input[workload->inputs++]);
    }
    ok = ok && make_outputs(workload, false) && make_param_outputs(workload, false);
    if (!ok)
        refuse_size(workload, error);
    return ok;
}

bool workload_make(struct workload *workload, const struct knobs *problem, const struct shape *shape,
                   const struct workload_files *files, uint64_t seed, struct text *error) {
    bool ok = open_workload(workload, problem, shape, seed, false);
    if (family_is_attention(problem->family) &&
        !(workload->params = params_make_given(problem, shape, seed, files ? files->params : NULL, error)))
        return false;
    for (int i = 0; ok && i < WORKLOAD_INPUTS; i++)
        ok = make_input(workload, i, files ? &files->file[i] : NULL, seed);
    if (ok && problem->family == family_attention_backward && files) /* files have no such gradient */
        memset(workload->input[BACKWARD_D_LSE].value, 0, sizeof(float) * (size_t)workload->input[BACKWARD_D_LSE].count);
    if (ok && problem->family == family_merge && !files)
        empty_some_parts(workload);
    if (ok && appends(problem))
        new_tokens_hide(workload);
    ok = ok && make_outputs(workload, true) && make_param_outputs(workload, true) && answer(workload);
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
    lengths_free(&workload->lengths);
    append_free(&workload->places);
    *workload = (struct workload){0};
}

bool workload_fits(const struct workload *workload, const struct knobs *problem, const struct shape *shape) {
    if (workload->inputs == 0 || memcmp(&workload->shape, shape, sizeof *shape) != 0)
        return false;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group != KNOB_GROUP_SCHEDULE && id != KNOB_target &&
            !knob_same(&workload->problem, problem, (enum knob_id)id))
            return false;
    return workload_weights(&workload->problem) == workload_weights(problem) &&
           keeps_rounded_weights(&workload->problem) == keeps_rounded_weights(problem) &&
           adds_rounded_d_s(&workload->problem) == adds_rounded_d_s(problem);
}
