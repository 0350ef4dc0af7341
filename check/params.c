#include "params.h"
#include "file.h"
#include "tensor.h"

#include <inttypes.h>
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

/* Integers may be distances, lengths, document numbers or sets of bits. Nothing says which, so the seed picks one of
   these for a whole tensor. They may also be lengths without a limit: the smallest and the largest number mean none. */
enum habit { RUNS, LENGTHS, BITS, ENDS, HABITS };

static double random_integer(enum habit habit, float noise, int64_t i, const struct param_value *param,
                             const struct shape *shape, int dims) {
    int64_t row = dims ? param->size[dims - 1] : 1, length = shape->len_kv;
    if (habit == ENDS && fabsf(noise) > 0.5f)
        return noise < 0 ? INT32_MIN : INT32_MAX;
    switch (habit) {
    case RUNS: return (double)(row > 0 ? i % row * 4 / row : 0); /* four documents, one after the other */
    case LENGTHS:
    case ENDS: return floor(fabs((double)noise) * 0.4 * (double)length);
    default: return (double)((int64_t)(fabs((double)noise) * 0x1p40) & 0x7fffffff);
    }
}

static void fill(struct param_value *param, int dims, const struct shape *shape, uint64_t seed, const float *noise) {
    enum habit habit = (enum habit)(seed % HABITS);
    if (dims == 1 && habit != ENDS)
        habit = LENGTHS;
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

/* Returns the minimum or the maximum over the part of a box of indices that lies within the tensor. */
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

static bool make_param(struct params *params, int number, const struct shape *shape, uint64_t seed) {
    const struct formula_param *declared = &params->formulas.scope.param[number];
    struct param_value *param = &params->param[number];
    param->type = storages[declared->storage].type;
    param->bytes = storages[declared->storage].bytes;
    param->count = 1;
    bool fits = true;
    for (int d = 0; d < declared->dims; d++) {
        param->size[d] = formula_dim(&params->formulas.scope, number, d, &params->env);
        fits = fits && param->size[d] >= 0 && !__builtin_mul_overflow(param->count, param->size[d], &param->count);
    }
    if (!fits)
        return false;
    float *noise = calloc((size_t)param->count + 1, sizeof *noise);
    param->value = calloc((size_t)param->count + 1, sizeof *param->value);
    if (noise && param->value) {
        tensor_random(seed * FORMULA_PARAMS + (uint64_t)number + 0x10000, noise, param->count);
        fill(param, declared->dims, shape, seed, noise);
    }
    free(noise);
    if (params->given[number] && declared->dims == 0 && param->value)
        param->value[0] =
            declared->type == FORMULA_REAL ? params->scalar[number].real : (double)params->scalar[number].integer;
    if (declared->dims == 0 && declared->type == FORMULA_REAL)
        params->scalar[number].real = param->value ? param->value[0] : 0;
    else if (declared->dims == 0)
        params->scalar[number].integer = param->value ? (int64_t)param->value[0] : 0;
    return noise && param->value;
}

/* --- what was given: "window=1024, doc=doc.npy" ------------------------------------------------------------------- */

/* Reads one pair and advances to the next. False at the end. */
static bool next_given(const char **at, const char **name, size_t *name_size, const char **value, size_t *value_size) {
    *at += strspn(*at, ", ");
    *name = *at;
    *name_size = strcspn(*at, "=, ");
    *value = *at + *name_size + ((*name)[*name_size] == '=');
    *value_size = strcspn(*value, ", ");
    if (*name_size > 0)
        *at = *value + *value_size;
    return *name_size > 0;
}

struct names { /* of parameters */
    const struct formula_scope *scope;
    int at;
};

static const char *next_name(void *context) {
    struct names *names = context;
    return names->at < names->scope->count ? names->scope->param[names->at++].name : NULL;
}

static bool refuse_name(const struct formula_scope *scope, const char *name, size_t size, struct text *error) {
    struct names names = {scope, 0};
    const char *near = diag_nearest(name, size, next_name, &names);
    text_print(error, "--params: '%.*s' is no parameter of this mask or score", (int)size, name);
    if (near)
        return text_fail(error, "; did you mean '%s'?", near);
    if (scope->count == 0)
        return text_fail(error, ": they take none; leave it out");
    text_print(error, "; expected");
    for (int i = 0; i < scope->count; i++)
        text_print(error, "%s %s", i ? "," : "", scope->param[i].name);
    return false;
}

/* All names must be parameters of the formulas; numbers must be of their type, and tensors are read later. */
static bool read_given(struct params *params, const char *given, struct text *error) {
    const char *name, *value;
    size_t name_size, value_size;
    while (next_given(&given, &name, &name_size, &value, &value_size)) {
        char word[FORMULA_PARAM_NAME] = "", *end;
        snprintf(word, sizeof word, "%.*s", (int)name_size, name);
        int number = name_size < sizeof word ? formula_param_find(&params->formulas.scope, word) : -1;
        const struct formula_param *declared = number < 0 ? NULL : &params->formulas.scope.param[number];
        if (!declared) {
            return refuse_name(&params->formulas.scope, name, name_size, error);
        }
        if (params->given[number]) {
            text_print(error, "--params: %s is given twice; expected once", word);
            return false;
        }
        params->given[number] = true;
        if (declared->dims)
            continue;
        double real = strtod(value, &end);
        bool is_real = declared->type == FORMULA_REAL;
        bool fits = is_real ? fabs(real) <= 1e30 : fabs(real) <= FORMULA_SCALAR && real == floor(real);
        if (!value_size || end != value + value_size || !fits) {
            text_print(error, "--params: %s is '%.*s'; ", word, (int)value_size, value);
            if (is_real)
                text_print(error, "expected a number within -1e30 to 1e30, as in %s=0.5", word);
            else
                text_print(error, "expected an integer within -%d to %d, as in %s=4", FORMULA_SCALAR, FORMULA_SCALAR,
                           word);
            return false;
        }
        if (declared->type == FORMULA_REAL)
            params->scalar[number].real = real;
        else
            params->scalar[number].integer = (int64_t)real;
    }
    if (*given)
        text_print(error, "--params: expected NAME=VALUE, found '%s'", given);
    return !*given;
}

static double number_of(const struct npy *npy, int64_t i) {
    const char *bytes = (const char *)npy->data + (size_t)i * npy_element_size(npy->type);
    int32_t whole;
    int64_t wide;
    switch (npy->type) {
    case NPY_BOOL: return *bytes != 0;
    case NPY_INT32: memcpy(&whole, bytes, sizeof whole); return whole;
    case NPY_INT64: memcpy(&wide, bytes, sizeof wide); return (double)wide;
    default: return (double)element_decode(npy->type, bytes);
    }
}

/* Replaces the random elements by those of a file. */
static bool take_file(struct params *params, int number, const char *path, const struct npy *npy, struct text *error) {
    const struct formula_param *declared = &params->formulas.scope.param[number];
    struct param_value *param = &params->param[number];
    struct npy wanted = {.dims = declared->dims};
    bool fits = npy->dims == declared->dims;
    for (int d = 0; d < declared->dims; d++) {
        wanted.dim[d] = param->size[d];
        fits = fits && npy->dim[d] == param->size[d];
    }
    if (!fits) {
        text_print(error, "%s: shape ", path);
        npy_print_shape(npy, error);
        text_print(error, ": %s is ", declared->name);
        npy_print_shape(&wanted, error);
        text_print(error, " at these sizes");
        return false;
    }
    for (int64_t i = 0; i < param->count; i++) {
        double value = number_of(npy, i);
        bool whole = value == floor(value) && value >= INT32_MIN && value <= INT32_MAX;
        if ((param->type == ATT_PARAM_INT && !whole) || (param->type == ATT_PARAM_BOOL && value != 0 && value != 1)) {
            text_print(error, "%s: element %" PRId64 " is %g, and %s has %s", path, i, value, declared->name,
                       param->type == ATT_PARAM_INT ? "integers of 32 bits" : "truth values");
            return false;
        }
        if (is_real(param)) {
            unsigned char bits[4];
            element_encode(real_type(param->type), (float)value, bits);
            value = (double)element_decode(real_type(param->type), bits);
        }
        param->value[i] = value;
    }
    return true;
}

/* The value of a tensor is a file; many users try a number first. */
static bool refuse_path(const struct formula_scope *scope, int number, const char *why, struct text *error) {
    text_print(error, "--params: ");
    formula_print_params(scope, 1u << number, error);
    return text_fail(error, " is a tensor; expected the path of a .npy file: %s", why);
}

static bool read_files(struct params *params, const char *given, struct text *error) {
    static const size_t limit = (size_t)1 << 36;
    const char *name, *value;
    size_t name_size, value_size;
    bool good = true;
    while (good && next_given(&given, &name, &name_size, &value, &value_size)) {
        struct text word = {0}, path = {0}, content = {0}, unread = {0};
        struct npy npy = {0};
        text_print(&word, "%.*s", (int)name_size, name);
        text_print(&path, "%.*s", (int)value_size, value);
        int number = formula_param_find(&params->formulas.scope, text_string(&word));
        if (number >= 0 && params->formulas.scope.param[number].dims > 0) {
            good = file_load(text_string(&path), limit, &content, &unread) ||
                   refuse_path(&params->formulas.scope, number, text_string(&unread), error);
            good = good && npy_parse_numbers(text_string(&path), content.bytes, content.size, &npy, error) &&
                   take_file(params, number, text_string(&path), &npy, error);
        }
        npy_free(&npy);
        text_free(&unread);
        text_free(&word);
        text_free(&path);
        text_free(&content);
    }
    return good;
}

static void refuse_size(const struct formula_scope *scope, int number, const struct param_value *param,
                        struct text *error) {
    double bytes = sizeof(float) + sizeof(double);
    for (int d = 0; d < scope->param[number].dims; d++)
        bytes *= (double)param->size[d];
    text_print(error, "a tensor takes %.3g GiB, which do not fit in memory: ", bytes / 0x1p30);
    formula_print_params(scope, 1u << number, error);
}

struct params *params_make_given(const struct knobs *problem, const struct shape *shape, uint64_t seed,
                                 const char *given, struct text *error) {
    struct params *params = calloc(1, sizeof *params);
    bool good = params && formula_set_open(&params->formulas, problem);
    if (good && given && !read_given(params, given, error)) {
        params_free(params);
        return NULL;
    }
    if (good) {
        params->env =
            (struct formula_env){.name = {[FORMULA_BATCH] = shape->batch,
                                          [FORMULA_HEADS] = shape->heads,
                                          [FORMULA_KV_HEADS] = shape->kv_heads ? shape->kv_heads : shape->heads,
                                          [FORMULA_LEN_Q] = shape->len_q,
                                          [FORMULA_LEN_KV] = shape->len_kv},
                                 .scalar = params->scalar,
                                 .context = params,
                                 .tensor = element};
        for (int i = 0; good && i < params->formulas.scope.count; i++)
            if (!(good = make_param(params, i, shape, seed)))
                refuse_size(&params->formulas.scope, i, &params->param[i], error);
        for (int i = 0; good && i < params->formulas.scope.count; i++)
            snprintf(params->gradient[i], sizeof params->gradient[i], "d_%s", params->formulas.scope.param[i].name);
    }
    if (good && given && !read_files(params, given, error)) {
        params_free(params);
        return NULL;
    }
    if (good)
        return params;
    if (error->size == 0)
        text_print(error, "mask and score cannot be read, or memory ran out");
    params_free(params);
    return NULL;
}

bool params_fit(const struct params *params, struct text *error) {
    const struct formula *all[] = {params->formulas.mask, params->formulas.score};
    char message[FORMULA_MESSAGE];
    bool fit = formula_fits(&params->formulas.scope, &params->env, message);
    for (int i = 0; fit && i < 2; i++)
        fit = !all[i] || formula_check_indices(all[i], &params->env, message);
    return fit || text_fail(error, "%s", message);
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
