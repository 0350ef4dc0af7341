#include "stage.h"
#include "oracle.h"
#include "tensor.h"
#include "tolerance.h"
#include "workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* q, k and v repeat a block of random numbers. Its length is prime, so that two rows of a head are equal only after the
   shift has gone through the whole block. */
enum { PERIOD = 1048573, INPUT_Q = 0, INPUT_K, INPUT_V, OUTPUT_O, OUTPUT_LSE };
enum { POISON = 0x7B }; /* a large number in every type */

static double *new_numbers(int64_t count) { return calloc((size_t)count + 1, sizeof(double)); }

static const struct att_args nothing = {.size = sizeof nothing, .family = ATT_ATTENTION_FORWARD};

void stage_open(struct stage *stage, att_session *session) {
    *stage = (struct stage){.session = session, .args = nothing};
}

static void clear(struct stage *stage) {
    for (int i = 0; i < STAGE_INPUTS + 2; i++) {
        att_free(stage->session, stage->device[i]);
        stage->device[i] = NULL;
    }
    att_free(stage->session, stage->args.workspace);
    for (int i = 0; i < FORMULA_PARAMS; i++) {
        att_free(stage->session, stage->param_memory[i]);
        stage->param_memory[i] = NULL;
    }
    params_free(stage->params);
    stage->params = NULL;
    for (int i = 0; i < STAGE_ROWS; i++) {
        free(stage->row[i].o);
        free(stage->row[i].allowed_o);
    }
    memset(stage->row, 0, sizeof stage->row);
    arguments_free(&stage->arguments);
    workload_free(&stage->outline);
    stage->args = nothing;
    stage->set = false;
}

void stage_close(struct stage *stage) {
    clear(stage);
    for (int i = 0; i < STAGE_INPUTS; i++)
        free(stage->value[i]);
    *stage = (struct stage){0};
}

static enum att_status out_of_memory(struct failure *failure) {
    return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for tensors");
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static enum npy_type type_of(const struct knobs *problem, int tensor) {
    int out = problem->dtype_out != AUTO ? problem->dtype_out : problem->dtype;
    return tensor == OUTPUT_LSE ? NPY_FP32 : tensor == OUTPUT_O ? (enum npy_type)out : (enum npy_type)problem->dtype;
}

static int64_t heads_of(const struct shape *shape, int tensor) {
    return tensor == INPUT_K || tensor == INPUT_V ? shape->kv_heads : shape->heads;
}

static int64_t rows_of(const struct shape *shape, int tensor) {
    return tensor == INPUT_K || tensor == INPUT_V ? shape->len_kv : shape->len_q;
}

static int64_t cols_of(const struct knobs *problem, int tensor) {
    return tensor == OUTPUT_LSE ? 1 : tensor == INPUT_Q || tensor == INPUT_K ? problem->head_dim : problem->head_dim_v;
}

static int64_t count_of(const struct stage *stage, int tensor) {
    return stage->shape.batch * heads_of(&stage->shape, tensor) * rows_of(&stage->shape, tensor) *
           cols_of(&stage->problem, tensor);
}

/* Makes random numbers, rounded to the type, as floats for the oracle and as bits for the device. */
static unsigned char *make_period(struct stage *stage, int input) {
    enum npy_type type = type_of(&stage->problem, input);
    size_t size = npy_element_size(type);
    unsigned char *bits = malloc(PERIOD * size);
    if (!stage->value[input])
        stage->value[input] = malloc(PERIOD * sizeof *stage->value[input]);
    if (!bits || !stage->value[input]) {
        free(bits);
        return NULL;
    }
    tensor_random((uint64_t)input + 1, stage->value[input], PERIOD);
    for (int64_t i = 0; i < PERIOD; i++) {
        element_encode(type, stage->value[input][i], bits + (size_t)i * size);
        stage->value[input][i] = element_decode(type, bits + (size_t)i * size);
    }
    return bits;
}

static enum att_status fill_input(struct stage *stage, int input) {
    size_t size = npy_element_size(type_of(&stage->problem, input)), period = PERIOD * size;
    size_t bytes = (size_t)count_of(stage, input) * size;
    unsigned char *bits = make_period(stage, input);
    enum att_status status = bits ? ATT_OK : ATT_OUT_OF_MEMORY;
    for (size_t done = 0; status == ATT_OK && done < bytes; done += period)
        status = att_copy_in(stage->session, (char *)stage->device[input] + done, bits,
                             bytes - done < period ? bytes - done : period);
    free(bits);
    return status;
}

static enum att_status make_tensors(struct stage *stage, struct failure *failure) {
    for (int i = 0; i < STAGE_INPUTS + 2; i++) {
        size_t bytes = (size_t)count_of(stage, i) * npy_element_size(type_of(&stage->problem, i));
        enum att_status status = att_alloc(stage->session, bytes, &stage->device[i]);
        if (status == ATT_OK && i < STAGE_INPUTS)
            status = fill_input(stage, i);
        if (status != ATT_OK)
            return failure_set(failure, status, "%s", att_message(stage->session));
    }
    return ATT_OK;
}

/* Makes one tensor or scalar of the mask or the score. */
static enum att_status make_param(struct stage *stage, int number) {
    const struct formula_param *declared = &stage->params->formulas.scope.param[number];
    const struct param_value *value = &stage->params->param[number];
    struct att_param *param = &stage->param[number];
    *param = (struct att_param){.name = declared->name, .type = value->type, .number = value->value[0]};
    if (declared->dims == 0)
        return ATT_OK;
    size_t bytes = (size_t)value->count * (size_t)value->bytes;
    unsigned char *staging = malloc(bytes + 1);
    enum att_status status =
        staging ? att_alloc(stage->session, bytes, &stage->param_memory[number]) : ATT_OUT_OF_MEMORY;
    for (int64_t i = 0; status == ATT_OK && i < value->count; i++)
        params_encode(value, i, staging + i * value->bytes);
    if (status == ATT_OK && bytes > 0)
        status = att_copy_in(stage->session, stage->param_memory[number], staging, bytes);
    free(staging);
    param->data = stage->param_memory[number];
    for (int d = 0; d < declared->dims; d++)
        param->size[d] = value->size[d];
    return status;
}

static enum att_status make_params(struct stage *stage, struct failure *failure) {
    struct text error = {0};
    stage->params = params_make(&stage->problem, &stage->shape, 0, &error);
    enum att_status status = stage->params ? ATT_OK : ATT_OUT_OF_MEMORY;
    for (int i = 0; status == ATT_OK && i < stage->params->formulas.scope.count; i++)
        status = make_param(stage, i);
    if (status != ATT_OK)
        failure_set(failure, status, "%s", error.size ? text_string(&error) : att_message(stage->session));
    text_free(&error);
    return status;
}

static struct att_tensor argument(const struct stage *stage, int tensor) {
    int64_t cols = cols_of(&stage->problem, tensor), head = rows_of(&stage->shape, tensor) * cols;
    return (struct att_tensor){stage->device[tensor], head * heads_of(&stage->shape, tensor), head, cols};
}

static void fill_arguments(struct stage *stage) {
    const struct shape *shape = &stage->shape;
    stage->args.attention = (struct att_attention_args){.q = argument(stage, INPUT_Q),
                                                        .k = argument(stage, INPUT_K),
                                                        .v = argument(stage, INPUT_V),
                                                        .o = argument(stage, OUTPUT_O),
                                                        .lse = stage->device[OUTPUT_LSE],
                                                        .batch = shape->batch,
                                                        .heads = shape->heads,
                                                        .kv_heads = shape->kv_heads,
                                                        .len_q = shape->len_q,
                                                        .len_kv = shape->len_kv,
                                                        .params = stage->param,
                                                        .param_count = stage->params->formulas.scope.count};
}

/* --- known rows --------------------------------------------------------------------------------------------------- */

/* Chooses the first and the last of all rows, and some between. */
static void choose_rows(struct stage *stage) {
    const struct shape *shape = &stage->shape;
    for (int i = 0; i < STAGE_ROWS; i++) {
        int64_t all = shape->batch * shape->heads * shape->len_q;
        int64_t at = i == STAGE_ROWS - 1 ? all - 1 : (int64_t)((double)all * i / (STAGE_ROWS - 1));
        struct stage_row *row = &stage->row[i];
        row->query = at % shape->len_q;
        row->head = at / shape->len_q % shape->heads;
        row->batch = at / shape->len_q / shape->heads;
    }
}

static int64_t row_number(const struct stage *stage, const struct stage_row *row) {
    return (row->batch * stage->shape.heads + row->head) * stage->shape.len_q + row->query;
}

/* Returns `count` numbers of an input, starting at element `first`. */
static float *slice(const struct stage *stage, int input, int64_t first, int64_t count) {
    float *values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
    for (int64_t i = 0; values && i < count; i++)
        values[i] = stage->value[input][(first + i) % PERIOD];
    return values;
}

/* Answers one query of a head as a problem of its own. */
static bool answer_row(struct stage *stage, struct stage_row *row) {
    const struct shape *shape = &stage->shape;
    const struct knobs *problem = &stage->problem;
    const struct params *params = stage->params;
    int64_t kv_head = row->head / (shape->heads / shape->kv_heads), head = row->batch * shape->kv_heads + kv_head;
    int64_t d = problem->head_dim, dv = problem->head_dim_v;
    float *q = slice(stage, INPUT_Q, row_number(stage, row) * d, d);
    float *k = slice(stage, INPUT_K, head * shape->len_kv * d, shape->len_kv * d);
    float *v = slice(stage, INPUT_V, head * shape->len_kv * dv, shape->len_kv * dv);
    struct oracle_attention one = {.q = q,
                                   .k = k,
                                   .v = v,
                                   .batch = 1,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .len_q = 1,
                                   .len_kv = shape->len_kv,
                                   .head_dim = d,
                                   .head_dim_v = dv,
                                   .scale = (double)(float)(1 / sqrt((double)d)),
                                   .causal = problem->mask == mask_causal,
                                   .mask = params->formulas.mask,
                                   .score = params->formulas.score,
                                   .env = &params->env,
                                   .from = {row->batch, row->head, kv_head, row->query - shape->len_q + 1}};
    if (problem->sinks > 0) /* the last parameter */
        one.sinks = params->param[params->formulas.scope.count - 1].value + row->head;
    if (!row->o)
        row->o = new_numbers(dv);
    if (!row->allowed_o)
        row->allowed_o = new_numbers(dv);
    bool good =
        q && k && v && row->o && row->allowed_o && oracle_attention(&one, row->o, &row->lse) &&
        tolerance_attention(&one, (enum tolerance_type)stage->weights, (enum tolerance_type)type_of(problem, OUTPUT_O),
                            row->o, &row->lse, row->allowed_o, &row->allowed_lse);
    free(q);
    free(k);
    free(v);
    return good;
}

static enum att_status answer(struct stage *stage, int weights, struct failure *failure) {
    stage->weights = weights;
    for (int i = 0; i < STAGE_ROWS; i++)
        if (!answer_row(stage, &stage->row[i]))
            return out_of_memory(failure);
    return ATT_OK;
}

/* --- setting up --------------------------------------------------------------------------------------------------- */

static bool stands(const struct stage *stage, const struct knobs *problem, const struct shape *shape) {
    if (!stage->set || memcmp(&stage->shape, shape, sizeof *shape) != 0)
        return false;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_PROBLEM && !knob_same(&stage->problem, problem, (enum knob_id)id))
            return false;
    return true;
}

/* --- tensors without known rows ----------------------------------------------------------------------------------- */

bool stage_knows_rows(const struct knobs *problem) {
    return problem->family == family_attention_forward && problem->layout <= layout_dense && problem->dropout <= 0 &&
           !workload_shares_kv(problem) && !knobs_quantised(problem);
}

/* Makes numbers on which times may depend: scales are positive, and an LSE is near that of random scores, so that
   weights add up to 1. */
static float number_for(const struct stage *stage, const struct workload_input *input, float random) {
    if (strstr(input->name, "scale"))
        return (fabsf(random) + 1) / 64;
    if (strcmp(input->name, "lse") == 0)
        return logf((float)stage->shape.len_kv) + 0.5f;
    return random;
}

static enum att_status fill_outline(struct stage *stage, int number) {
    const struct workload_input *input = &stage->outline.input[number];
    const struct argument *argument = &stage->arguments.input[number];
    size_t size = npy_element_size(input->type), bytes = argument->tensor.bytes, period = PERIOD * size;
    float *value = malloc(PERIOD * sizeof *value);
    unsigned char *bits = malloc(period);
    enum att_status status = value && bits ? ATT_OK : ATT_OUT_OF_MEMORY;
    if (status == ATT_OK)
        tensor_random((uint64_t)number + 1, value, PERIOD);
    for (int64_t i = 0; status == ATT_OK && i < PERIOD; i++)
        element_encode(input->type, number_for(stage, input, value[i]), bits + (size_t)i * size);
    for (size_t done = 0; status == ATT_OK && done < bytes; done += period)
        status = att_copy_in(stage->session, (char *)argument->device + done, bits,
                             bytes - done < period ? bytes - done : period);
    free(value);
    free(bits);
    return status;
}

static enum att_status make_outline(struct stage *stage, struct failure *failure) {
    struct text error = {0};
    enum att_status status = ATT_OK;
    if (!workload_outline(&stage->outline, &stage->problem, &stage->shape, 0, &error))
        status = failure_set(failure, ATT_OUT_OF_MEMORY, "%s", text_string(&error));
    text_free(&error);
    if (status == ATT_OK)
        status = arguments_make(&stage->arguments, stage->session, &stage->outline, LAYOUT_PACKED, failure);
    for (int i = 0; status == ATT_OK && i < stage->outline.inputs; i++)
        if (stage->arguments.input[i].device && (status = fill_outline(stage, i)) != ATT_OK)
            failure_set(failure, status, "filling a tensor to time on failed");
    if (status == ATT_OK)
        stage->args = stage->arguments.args;
    return status;
}

static enum att_status make_stage(struct stage *stage, struct failure *failure) {
    if (!stage_knows_rows(&stage->problem))
        return make_outline(stage, failure);
    enum att_status status = make_tensors(stage, failure);
    if (status == ATT_OK)
        status = make_params(stage, failure);
    if (status != ATT_OK)
        return status;
    fill_arguments(stage);
    choose_rows(stage);
    return answer(stage, workload_weights(&stage->problem), failure);
}

enum att_status stage_set(struct stage *stage, const struct knobs *problem, const struct shape *given,
                          struct failure *failure) {
    struct shape shape = *given;
    if (shape.kv_heads == 0)
        shape.kv_heads = shape.heads;
    if (stands(stage, problem, &shape))
        return ATT_OK;
    clear(stage);
    stage->problem = *problem;
    stage->shape = shape;
    enum att_status status = make_stage(stage, failure);
    stage->changes++;
    if (status == ATT_OK)
        stage->set = true;
    else
        clear(stage);
    return status;
}

enum att_status stage_fit(struct stage *stage, att_kernel *kernel, struct failure *failure) {
    size_t size = 0;
    enum att_status status = att_workspace_size(kernel, &stage->args, &size);
    if (status == ATT_OK && size > stage->args.workspace_size) {
        att_free(stage->session, stage->args.workspace);
        stage->args.workspace = NULL;
        stage->args.workspace_size = 0;
        status = att_alloc(stage->session, size, &stage->args.workspace);
        if (status == ATT_OK)
            stage->args.workspace_size = size;
    }
    return status == ATT_OK ? ATT_OK : failure_set(failure, status, "%s", att_message(stage->session));
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

struct spot { /* location of a known row in the outputs on the device */
    char *o, *lse;
    size_t o_bytes;
};

static struct spot spot_of(const struct stage *stage, const struct stage_row *row) {
    size_t bytes = (size_t)stage->problem.head_dim_v * npy_element_size(type_of(&stage->problem, OUTPUT_O));
    int64_t number = row_number(stage, row);
    return (struct spot){(char *)stage->device[OUTPUT_O] + (size_t)number * bytes,
                         (char *)stage->device[OUTPUT_LSE] + (size_t)number * sizeof(float), bytes};
}

static enum att_status poison_rows(struct stage *stage) {
    unsigned char poison[1024];
    enum att_status status = ATT_OK;
    memset(poison, POISON, sizeof poison);
    for (int i = 0; status == ATT_OK && i < STAGE_ROWS; i++) {
        struct spot spot = spot_of(stage, &stage->row[i]);
        status = att_copy_in(stage->session, spot.o, poison, spot.o_bytes);
        if (status == ATT_OK)
            status = att_copy_in(stage->session, spot.lse, poison, sizeof(float));
    }
    return status;
}

static void compare(const struct stage_row *row, enum npy_type type, int64_t column, double expected, double found,
                    double allowed, double *worst, struct text *report) {
    double error = fabs(found - expected), units = allowed > 0 ? error / allowed : error > 0 ? INFINITY : 0;
    bool accepted = tolerance_accepts((enum tolerance_type)type, expected, found, allowed);
    if (accepted)
        units = units <= 1 ? units : 1; /* matching infinities */
    else if (!(units > 1))
        units = INFINITY; /* NaN */
    if (!accepted && *worst <= 1) {
        text_print(report, "batch %" PRId64 ", head %" PRId64 ", query %" PRId64 ", ", row->batch, row->head,
                   row->query);
        if (column >= 0)
            text_print(report, "column %" PRId64 ": ", column);
        else
            text_print(report, "lse: ");
        text_print(report, "expected %.9g, got %.9g, allowed error %.3g", expected, found, allowed);
    }
    *worst = units > *worst ? units : *worst;
}

static enum att_status compare_row(const struct stage *stage, const struct stage_row *row, double *worst,
                                   struct text *report) {
    unsigned char bits[1024];
    enum npy_type type = type_of(&stage->problem, OUTPUT_O);
    size_t size = npy_element_size(type);
    struct spot spot = spot_of(stage, row);
    float lse = 0;
    enum att_status status = att_copy_out(stage->session, bits, spot.o, spot.o_bytes);
    if (status == ATT_OK)
        status = att_copy_out(stage->session, &lse, spot.lse, sizeof lse);
    for (int64_t i = 0; status == ATT_OK && i < stage->problem.head_dim_v; i++)
        compare(row, type, i, row->o[i], element_decode(type, bits + (size_t)i * size), row->allowed_o[i], worst,
                report);
    if (status == ATT_OK)
        compare(row, NPY_FP32, -1, row->lse, lse, row->allowed_lse, worst, report);
    return status;
}

enum att_status stage_check(struct stage *stage, att_kernel *kernel, double *worst, struct text *report,
                            struct failure *failure) {
    *worst = 0;
    bool known = stage_knows_rows(&stage->problem);
    int weights = workload_weights(&kernel->variant.knobs);
    enum att_status status = weights == stage->weights || !known ? ATT_OK : answer(stage, weights, failure);
    if (status != ATT_OK)
        return status;
    status = known ? poison_rows(stage) : ATT_OK;
    if (status == ATT_OK)
        status = att_launch(kernel, &stage->args, NULL);
    if (status == ATT_OK)
        status = att_synchronize(stage->session);
    for (int i = 0; status == ATT_OK && known && i < STAGE_ROWS; i++)
        status = compare_row(stage, &stage->row[i], worst, report);
    return status == ATT_OK ? ATT_OK : failure_set(failure, status, "%s", att_message(stage->session));
}

/* --- what there is to do ------------------------------------------------------------------------------------------ */

double stage_operations(const struct knobs *problem, const struct shape *shape) {
    double pairs = (double)shape->len_q * (double)shape->len_kv;
    if (problem->mask == mask_causal) {
        pairs = 0;
        for (int64_t query = 0; query < shape->len_q; query++) {
            int64_t seen = query + shape->len_kv - shape->len_q + 1;
            pairs += (double)(seen < 0 ? 0 : seen < shape->len_kv ? seen : shape->len_kv);
        }
    }
    bool backward = problem->family == family_attention_backward; /* S, dK, dQ; dP, dV */
    double width = backward ? 3.0 * problem->head_dim + 2.0 * problem->head_dim_v
                            : (double)problem->head_dim + problem->head_dim_v;
    return 2 * (double)(shape->batch * shape->heads) * pairs * width;
}

double stage_bytes(const struct knobs *problem, const struct shape *shape) {
    struct stage stage = {.problem = *problem, .shape = *shape};
    double bytes = 0;
    if (stage.shape.kv_heads == 0)
        stage.shape.kv_heads = shape->heads;
    for (int i = 0; i < STAGE_INPUTS + 2; i++) {
        bool kv = i == INPUT_K || i == INPUT_V, again = problem->family == family_attention_backward;
        enum npy_type type = kv && knobs_quantised(problem) ? (enum npy_type)problem->dtype_kv : type_of(problem, i);
        double one = (double)count_of(&stage, i) * (double)npy_element_size(type);
        if (i != INPUT_V || !workload_shares_kv(problem))
            bytes += again ? 2 * one : one; /* each tensor has a gradient of the same size */
    }
    return bytes;
}
