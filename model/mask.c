/* mask: an expression that says which keys a query sees -> the keys that each slice of a sequence sees, for one
   shape. */
#include "formulas.h"
#include "model.h"

#include <math.h>

static struct model_slice look(const struct formula_keys *keys, struct formula_env *env, int64_t q_first,
                               int64_t q_last) {
    env->name[FORMULA_Q_FIRST] = q_first;
    env->name[FORMULA_Q_LAST] = q_last;
    double first = (double)formula_integer(keys->first, env), end = (double)formula_integer(keys->end, env);
    return (struct model_slice){(float)first, (float)fmax(first, end), 0};
}

static void fill(struct model_mask *mask, const struct formula_keys *keys, const struct shape *shape) {
    struct formula_env env = {.name = {[FORMULA_BATCH] = shape->batch,
                                       [FORMULA_HEADS] = shape->heads,
                                       [FORMULA_KV_HEADS] = shape->kv_heads > 0 ? shape->kv_heads : shape->heads,
                                       [FORMULA_LEN_Q] = shape->len_q,
                                       [FORMULA_LEN_KV] = shape->len_kv}};
    int64_t origin = shape->len_kv - shape->len_q; /* position of the first query */
    mask->slices = shape->len_q < MODEL_SLICES ? (int)shape->len_q : MODEL_SLICES;
    for (int i = 0; i < mask->slices; i++) {
        int64_t begin = shape->len_q * i / mask->slices, end = shape->len_q * (i + 1) / mask->slices;
        struct model_slice one = look(keys, &env, origin + (begin + end) / 2, origin + (begin + end) / 2);
        mask->slice[i] = look(keys, &env, origin + begin, origin + end - 1);
        mask->slice[i].seen = one.end - one.first;
    }
}

bool model_mask_make(struct model_mask *mask, const struct knobs *problem, const struct shape *shape) {
    struct formula_set set;
    struct formula_keys keys = {0};
    mask->slices = 0;
    if (problem->mask != mask_custom_mask || shape->len_q < 1 || shape->len_q > FORMULA_LENGTH ||
        shape->len_kv > FORMULA_LENGTH)
        return false;
    bool good = formula_set_open(&set, problem);
    if (good && formulas_params(&set.scope, set.mask) == 0 && formula_keys(set.mask, &keys))
        fill(mask, &keys, shape);
    formula_keys_free(&keys);
    formula_set_close(&set);
    return mask->slices > 0;
}
