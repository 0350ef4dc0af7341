#include "plan.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(struct shape) == SHAPE_COUNT * sizeof(int64_t), "shape_get sees struct shape as an array");

enum {
    S = 1 << family_softmax,
    A = 1 << family_attention_forward,
    M = 1 << family_merge,
    B = 1 << family_attention_backward,
    K = 1 << family_append_kv,
    D = SHAPE_OF_DEVICE
};

const struct shape_info shape_table[SHAPE_COUNT] = {
#define SHAPE(name, families, least, fallback, about) {#name, families, least, fallback, about},
#include "shapes.def"
};

const struct fixed_size fixed_sizes[FIXED_SIZES] = {{SHAPE_len_q, KNOB_fixed_len_q},
                                                    {SHAPE_len_kv, KNOB_fixed_len_kv},
                                                    {SHAPE_heads, KNOB_fixed_heads},
                                                    {SHAPE_kv_heads, KNOB_fixed_kv_heads}};

const struct plan_params_info plan_params_table[PLAN_PARAMS] = {
    {"", S | A | M | B | K, true},
#define PARAMS(name, families, with_maps) {#name, families, with_maps},
#include "params.def"
};

bool plan_with_maps(const struct plan *plan, int launch) {
    return plan->maps > 0 && plan_params_table[plan->launch[launch].params].with_maps;
}

const char *const plan_tensor_name[PLAN_TENSORS] = {"q", "k", "v", "o", "d_o"};

const char *const plan_split_name[PLAN_SPLIT_EXPRS] = {"most", "tiles", "on", "keys", "seen"};

int shape_find(const char *name, size_t size) {
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (text_equals(name, size, shape_table[id].name))
            return id;
    return -1;
}

static bool apply(enum plan_op op, int64_t a, int64_t b, int64_t *result) {
    switch (op) {
    case PLAN_ADD: return !__builtin_add_overflow(a, b, result);
    case PLAN_SUBTRACT: return !__builtin_sub_overflow(a, b, result);
    case PLAN_MULTIPLY: return !__builtin_mul_overflow(a, b, result);
    case PLAN_DIVIDE:
    case PLAN_MODULO:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *result = op == PLAN_DIVIDE ? a / b : a % b;
        return true;
    case PLAN_MIN: *result = a < b ? a : b; return true;
    case PLAN_MAX: *result = a > b ? a : b; return true;
    default: return false;
    }
}

bool plan_eval(const struct plan_expr *expr, const struct shape *shape, int64_t *value) {
    int64_t stack[PLAN_STEPS];
    int depth = 0;
    if (expr->count < 0 || expr->count > PLAN_STEPS)
        return false;
    for (int i = 0; i < expr->count; i++) {
        const struct plan_step *step = &expr->step[i];
        if (step->op == PLAN_CONSTANT) {
            stack[depth++] = step->value;
        } else if (step->op == PLAN_SHAPE) {
            if (step->value < 0 || step->value >= SHAPE_COUNT)
                return false;
            stack[depth++] = step->value == SHAPE_packed_heads ? shape_packed_heads(shape)
                                                               : shape_get(shape, (enum shape_id)step->value);
        } else {
            if (depth < 2 || !apply(step->op, stack[depth - 2], stack[depth - 1], &stack[depth - 2]))
                return false;
            depth--;
        }
    }
    if (depth != 1)
        return false;
    *value = stack[0];
    return true;
}

static int binding(enum plan_op op) {
    return op == PLAN_ADD || op == PLAN_SUBTRACT ? 1 : op >= PLAN_MULTIPLY && op <= PLAN_MODULO ? 2 : 3;
}

/* Returns the first step of the operand that ends at step `last`. */
static int operand_start(const struct plan_expr *expr, int last) {
    int missing = 1;
    for (int i = last; i >= 0; i--) {
        missing += expr->step[i].op >= PLAN_ADD ? 1 : -1;
        if (missing == 0)
            return i;
    }
    return 0;
}

static void print_operand(const struct plan_expr *expr, int last, int least_binding, struct text *text) {
    static const char *const symbols[] = {
        [PLAN_ADD] = "+", [PLAN_SUBTRACT] = "-", [PLAN_MULTIPLY] = "*", [PLAN_DIVIDE] = "/", [PLAN_MODULO] = "%"};
    const struct plan_step *step = &expr->step[last];
    if (step->op == PLAN_CONSTANT) {
        text_print(text, "%" PRId64, step->value);
    } else if (step->op == PLAN_SHAPE) {
        text_print(text, "%s", shape_table[step->value].name);
    } else if (step->op >= PLAN_MIN) {
        text_print(text, step->op == PLAN_MIN ? "min(" : "max(");
        print_operand(expr, operand_start(expr, last - 1) - 1, 0, text);
        text_print(text, ", ");
        print_operand(expr, last - 1, 0, text);
        text_print(text, ")");
    } else {
        int strength = binding(step->op);
        text_print(text, strength < least_binding ? "(" : "");
        print_operand(expr, operand_start(expr, last - 1) - 1, strength, text);
        text_print(text, " %s ", symbols[step->op]);
        print_operand(expr, last - 1, strength + 1, text);
        text_print(text, strength < least_binding ? ")" : "");
    }
}

/* True if it leaves exactly one value and names only existing sizes. A plan may come from a file. */
static bool is_sound(const struct plan_expr *expr) {
    int depth = 0;
    if (expr->count < 1 || expr->count > PLAN_STEPS)
        return false;
    for (int i = 0; i < expr->count; i++) {
        const struct plan_step *step = &expr->step[i];
        if (step->op == PLAN_SHAPE && (step->value < 0 || step->value >= SHAPE_COUNT))
            return false;
        if (step->op == PLAN_CONSTANT || step->op == PLAN_SHAPE)
            depth++;
        else if (step->op < PLAN_ADD || step->op > PLAN_MAX || --depth < 1)
            return false;
    }
    return depth == 1;
}

void plan_print(const struct plan_expr *expr, struct text *text) {
    if (is_sound(expr))
        print_operand(expr, expr->count - 1, 0, text);
    else
        text_print(text, "?");
}
