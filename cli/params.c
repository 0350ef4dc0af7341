#include "params.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    enum att_param_type type;
    int bytes;
} storages[FORMULA_STORAGES] = {
    [FORMULA_STORE_BOOL] = {ATT_PARAM_BOOL, 1}, [FORMULA_STORE_INT] = {ATT_PARAM_INT, 4},
    [FORMULA_STORE_FP32] = {ATT_PARAM_FP32, 4}, [FORMULA_STORE_FP16] = {ATT_PARAM_FP16, 2},
    [FORMULA_STORE_BF16] = {ATT_PARAM_BF16, 2},
};

static bool is_real(const struct param_value *param) { return param->type >= ATT_PARAM_FP32; }

static enum npy_type real_type(enum att_param_type type) {
    return type == ATT_PARAM_FP16 ? NPY_FP16 : type == ATT_PARAM_BF16 ? NPY_BF16 : NPY_FP32;
}

void params_encode(const struct param_value *param, int64_t i, void *bytes) {
    int32_t whole = (int32_t)(is_real(param) ? 0 : param->value[i]);
    if (is_real(param))
        element_encode(real_type(param->type), (float)param->value[i], bytes);
    else if (param->type == ATT_PARAM_INT)
        memcpy(bytes, &whole, sizeof whole);
    else
        *(unsigned char *)bytes = (unsigned char)whole;
}

/* --- random values ------------------------------------------------------------------------------------------------ */

/* Integers are distances, lengths, names of documents or sets of bits: nobody says which, so a seed takes one of these
   for all of a tensor. */
enum habit { RUNS, LENGTHS, BITS, HABITS };

static double random_integer(enum habit habit, float noise, int64_t i, const struct param_value *param,
                             const struct shape *shape, int dims) {
    int64_t row = dims ? param->size[dims - 1] : 1, length = shape->len_kv;
    switch (habit) {
    case RUNS: return (double)(row > 0 ? i % row * 4 / row : 0); /* four documents, one after the other */
    case LENGTHS: return floor(fabs((double)noise) * 0.4 * (double)length);
    default: return (double)((int64_t)(fabs((double)noise) * 0x1p40) & 0x7fffffff);
    }
}

static void fill(struct param_value *param, int dims, const struct shape *shape, uint64_t seed, const float *noise) {
    enum habit habit = dims == 1 ? LENGTHS : (enum habit)(seed % HABITS);
    for (int64_t i = 0; i < param->count; i++) {
        if (param->type == ATT_PARAM_BOOL)
            param->value[i] = noise[i] > 0;
        else if (param->type == ATT_PARAM_INT && dims == 0)
            param->value[i] = 1 + floor(fabs((double)noise[i]) * 0.3 * (double)shape->len_kv);
        else if (param->type == ATT_PARAM_INT)
            param->value[i] = random_integer(habit, noise[i], i, param, shape, dims);
        else if (dims == 0) /* a scale of something: not near 0 */
            param->value[i] = (double)(1 + fabsf(noise[i]));
        else
            param->value[i] = 0.5 * (double)noise[i];
        if (is_real(param)) {
            unsigned char bits[4];
            element_encode(real_type(param->type), (float)param->value[i], bits);
            param->value[i] = (double)element_decode(real_type(param->type), bits);
        }
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static union formula_value element(void *context, int number, enum formula_access access, const int64_t *index);

/* The least or the most over a box of indices, of which only those within the tensor are there. */
static union formula_value extreme(const struct params *params, int number, enum formula_access access,
                                   const int64_t *box) {
    const struct param_value *param = &params->param[number];
    const struct formula_param *declared = &params->formulas.scope.param[number];
    int64_t first[FORMULA_DIMS] = {0}, last[FORMULA_DIMS] = {0}, at[FORMULA_DIMS] = {0};
    for (int d = 0; d < declared->dims; d++) {
        first[d] = at[d] = box[2 * d] < 0 ? 0 : box[2 * d];
        last[d] = box[2 * d + 1] < param->size[d] ? box[2 * d + 1] : param->size[d] - 1;
    }
    union formula_value best = element((void *)params, number, FORMULA_AT, at);
    for (int d = 0; d < declared->dims;) {
        union formula_value value = element((void *)params, number, FORMULA_AT, at);
        bool less = declared->type == FORMULA_REAL ? value.real < best.real : value.integer < best.integer;
        bool more = declared->type == FORMULA_REAL ? value.real > best.real : value.integer > best.integer;
        if (access == FORMULA_LEAST ? less : more)
            best = value;
        for (d = 0; d < declared->dims && ++at[d] > last[d]; d++) /* the next index; none left when d runs out */
            at[d] = first[d];
    }
    return best;
}

static union formula_value element(void *context, int number, enum formula_access access, const int64_t *index) {
    const struct params *params = context;
    const struct param_value *param = &params->param[number];
    const struct formula_param *declared = &params->formulas.scope.param[number];
    union formula_value value = {0};
    int64_t at = 0;
    if (access != FORMULA_AT)
        return extreme(params, number, access, index);
    for (int d = 0; d < declared->dims; d++) {
        if (index[d] < 0 || index[d] >= param->size[d]) { /* formula_check_indices refuses such a launch */
            value.real = declared->type == FORMULA_REAL ? NAN : value.real;
            return value;
        }
        at = at * param->size[d] + index[d];
    }
    if (declared->type == FORMULA_REAL)
        value.real = param->value[at];
    else
        value.integer = (int64_t)param->value[at];
    return value;
}

static bool make_param(struct params *params, int number, const struct shape *shape, uint64_t seed, bool given) {
    const struct formula_param *declared = &params->formulas.scope.param[number];
    struct param_value *param = &params->param[number];
    param->type = storages[declared->storage].type;
    param->bytes = storages[declared->storage].bytes;
    param->count = 1;
    for (int d = 0; d < declared->dims; d++) {
        param->size[d] = formula_dim(&params->formulas.scope, number, d, &params->env);
        if (param->size[d] < 0 || __builtin_mul_overflow(param->count, param->size[d], &param->count))
            return false;
    }
    float *noise = calloc((size_t)param->count + 1, sizeof *noise);
    param->value = calloc((size_t)param->count + 1, sizeof *param->value);
    if (noise && param->value) {
        tensor_random(seed * FORMULA_PARAMS + (uint64_t)number + 0x10000, noise, param->count);
        fill(param, declared->dims, shape, seed, noise);
    }
    free(noise);
    if (given && param->value)
        param->value[0] =
            declared->type == FORMULA_REAL ? params->scalar[number].real : (double)params->scalar[number].integer;
    if (declared->dims == 0 && declared->type == FORMULA_REAL)
        params->scalar[number].real = param->value ? param->value[0] : 0;
    else if (declared->dims == 0)
        params->scalar[number].integer = param->value ? (int64_t)param->value[0] : 0;
    return noise && param->value;
}

/* --- numbers that were given: "window=1024, n=4" ------------------------------------------------------------------- */

/* One pair; steps to the next. False at the end. */
static bool next_given(const char **at, const char **name, size_t *name_size, const char **value, size_t *value_size) {
    *at += strspn(*at, ", ");
    *name = *at;
    *name_size = strcspn(*at, "=, ");
    *value = *at + *name_size + ((*name)[*name_size] == '=');
    *value_size = strcspn(*value, ", ");
    *at = *value + *value_size;
    return *name_size > 0;
}

/* All names must be numbers that the formulas take, and values must be of their type. */
static bool read_given(struct params *params, const char *given, bool *is_given, struct text *error) {
    const char *name, *value;
    size_t name_size, value_size;
    while (next_given(&given, &name, &name_size, &value, &value_size)) {
        char word[FORMULA_PARAM_NAME] = "", *end;
        snprintf(word, sizeof word, "%.*s", (int)name_size, name);
        int number = name_size < sizeof word ? formula_param_find(&params->formulas.scope, word) : -1;
        const struct formula_param *declared = number < 0 ? NULL : &params->formulas.scope.param[number];
        if (!declared || declared->dims) {
            text_print(error, "--params: '%.*s' is no %s of this mask or score", (int)name_size, name,
                       declared ? "single number" : "parameter");
            return false;
        }
        double real = strtod(value, &end);
        bool whole = declared->type == FORMULA_REAL || real == floor(real);
        if (!value_size || end != value + value_size || !whole || !(fabs(real) <= 1e30)) {
            text_print(error, "--params: %s is '%.*s'; expected %s, as in %s=%s", word, (int)value_size, value,
                       declared->type == FORMULA_REAL ? "a number" : "an integer", word,
                       declared->type == FORMULA_REAL ? "0.5" : "4");
            return false;
        }
        is_given[number] = true;
        if (declared->type == FORMULA_REAL)
            params->scalar[number].real = real;
        else
            params->scalar[number].integer = (int64_t)real;
    }
    return true;
}

struct params *params_make_given(const struct knobs *problem, const struct shape *shape, uint64_t seed,
                                 const char *given, struct text *error) {
    struct params *params = calloc(1, sizeof *params);
    bool good = params && formula_set_open(&params->formulas, problem), is_given[FORMULA_PARAMS] = {0};
    if (good && given && !read_given(params, given, is_given, error)) {
        params_free(params);
        return NULL;
    }
    if (good) {
        params->env =
            (struct formula_env){.name = {[FORMULA_BATCH] = shape->batch,
                                          [FORMULA_HEADS] = shape->heads,
                                          [FORMULA_KV_HEADS] = shape->kv_heads ? shape->kv_heads : shape->heads,
                                          [FORMULA_LEN_Q] = shape->len_q,
                                          [FORMULA_LEN_K] = shape->len_kv},
                                 .scalar = params->scalar,
                                 .context = params,
                                 .tensor = element};
        for (int i = 0; good && i < params->formulas.scope.count; i++)
            good = make_param(params, i, shape, seed, is_given[i]);
    }
    if (good)
        return params;
    text_print(error, "the tensors of mask and score do not fit in memory");
    params_free(params);
    return NULL;
}

struct params *params_make(const struct knobs *problem, const struct shape *shape, uint64_t seed, struct text *error) {
    return params_make_given(problem, shape, seed, NULL, error);
}

void params_free(struct params *params) {
    if (!params)
        return;
    for (int i = 0; i < FORMULA_PARAMS; i++)
        free(params->param[i].value);
    formula_set_close(&params->formulas);
    free(params);
}
