/* expr_eval: checked tree + values of names -> a number, or an expression of a launch plan. Allocates nothing;
   recursion is bounded by TREE_DEPTH. expr_check.c has checked the types, so only arithmetic and missing values can
   fail here. */
#include "expr_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct evaluation {
    const struct expr *expr;
    const struct expr_env *env;
    struct expr_fault *fault;
};

static bool fail(const struct evaluation *e, const struct tree_node *n, const char *sentence) {
    e->fault->place = tree_place(e->expr, n->offset);
    snprintf(e->fault->message, sizeof e->fault->message, "%.*s%s", n->op >= TREE_NOT ? 0 : n->size,
             e->expr->text + n->offset, sentence);
    return false;
}

static bool arithmetic(const struct evaluation *e, const struct tree_node *n, int64_t a, int64_t b, int64_t *value) {
    bool overflow = false;
    switch (n->op) {
    case TREE_ADD: overflow = __builtin_add_overflow(a, b, value); break;
    case TREE_SUBTRACT: overflow = __builtin_sub_overflow(a, b, value); break;
    case TREE_MULTIPLY: overflow = __builtin_mul_overflow(a, b, value); break;
    case TREE_DIVIDE:
    case TREE_MODULO:
        if (b == 0)
            return fail(e, n, "division by zero");
        overflow = a == INT64_MIN && b == -1;
        if (!overflow)
            *value = n->op == TREE_DIVIDE ? a / b : a % b;
        break;
    case TREE_MIN: *value = a < b ? a : b; break;
    case TREE_MAX: *value = a > b ? a : b; break;
    case TREE_EQUAL: *value = a == b; break;
    case TREE_UNEQUAL: *value = a != b; break;
    case TREE_LESS: *value = a < b; break;
    case TREE_LESS_EQUAL: *value = a <= b; break;
    case TREE_GREATER: *value = a > b; break;
    case TREE_GREATER_EQUAL: *value = a >= b; break;
    default: return fail(e, n, "this cannot be computed here");
    }
    return !overflow || fail(e, n, "this does not fit into 64 bits");
}

static bool eval(const struct evaluation *e, int node, int64_t *value);

static bool eval_in(const struct evaluation *e, const struct tree_node *n, int64_t *value) {
    int64_t wanted, found;
    if (!eval(e, n->left, &wanted))
        return false;
    *value = n->op == TREE_NOT_IN;
    for (int item = e->expr->node[n->right].left; item != NONE; item = e->expr->node[item].right) {
        if (!eval(e, e->expr->node[item].left, &found))
            return false;
        if (found == wanted) {
            *value = n->op == TREE_IN;
            return true;
        }
    }
    return true;
}

static bool eval(const struct evaluation *e, int node, int64_t *value) {
    const struct tree_node *n = &e->expr->node[node];
    int64_t left, right;
    switch (n->op) {
    case TREE_INT:
    case TREE_BOOL:
    case TREE_WORD: *value = n->number; return true;
    case TREE_KNOB:
        *value = knob_get(e->env->knobs, (enum knob_id)n->number);
        return *value != AUTO || fail(e, n, " was left out and has no default here");
    case TREE_SLOT:
        *value = e->env->slots[n->number].value;
        return e->env->slots[n->number].set || fail(e, n, " has no value here: its `let` was skipped");
    case TREE_IN:
    case TREE_NOT_IN: return eval_in(e, n, value);
    case TREE_NOT:
        if (!eval(e, n->left, &left))
            return false;
        *value = !left;
        return true;
    case TREE_NEGATE:
        if (!eval(e, n->left, &left))
            return false;
        if (left == INT64_MIN)
            return fail(e, n, "this does not fit into 64 bits");
        *value = -left;
        return true;
    case TREE_AND:
    case TREE_OR:
        if (!eval(e, n->left, &left))
            return false;
        if ((left != 0) == (n->op == TREE_OR)) {
            *value = left;
            return true;
        }
        return eval(e, n->right, value);
    case TREE_SHAPE: return fail(e, n, " is known at run time only");
    case TREE_NAME:
    case TREE_LIST:
    case TREE_ITEM: return fail(e, n, " has no single value");
    default: return eval(e, n->left, &left) && eval(e, n->right, &right) && arithmetic(e, n, left, right, value);
    }
}

bool expr_eval(const struct expr *expr, const struct expr_env *env, int64_t *value, struct expr_fault *fault) {
    return eval(&(struct evaluation){expr, env, fault}, expr->root, value);
}

bool expr_eval_item(const struct expr *list, int item, const struct expr_env *env, int64_t *value,
                    struct expr_fault *fault) {
    int at = list->node[list->root].left;
    for (; item > 0 && at != NONE; item--)
        at = list->node[at].right;
    return at != NONE && eval(&(struct evaluation){list, env, fault}, list->node[at].left, value);
}

static const enum plan_op plan_ops[] = {
    [TREE_ADD] = PLAN_ADD,       [TREE_SUBTRACT] = PLAN_SUBTRACT, [TREE_MULTIPLY] = PLAN_MULTIPLY,
    [TREE_DIVIDE] = PLAN_DIVIDE, [TREE_MODULO] = PLAN_MODULO,     [TREE_MIN] = PLAN_MIN,
    [TREE_MAX] = PLAN_MAX};

static bool has_shape(const struct expr *expr, int node) {
    const struct tree_node *n = &expr->node[node];
    return n->op == TREE_SHAPE || (n->left != NONE && has_shape(expr, n->left)) ||
           (n->right != NONE && has_shape(expr, n->right));
}

static bool push(const struct evaluation *e, const struct tree_node *n, struct plan_expr *plan, enum plan_op op,
                 int64_t value) {
    if (plan->count == PLAN_STEPS)
        return fail(e, n, "too long for a launch plan");
    plan->step[plan->count++] = (struct plan_step){op, value};
    return true;
}

/* Folds every subtree without run-time sizes into one constant; only the rest is left to run time. */
static bool fold(const struct evaluation *e, int node, struct plan_expr *plan) {
    const struct tree_node *n = &e->expr->node[node];
    int64_t value;
    if (!has_shape(e->expr, node))
        return eval(e, node, &value) && push(e, n, plan, PLAN_CONSTANT, value);
    if (n->op == TREE_SHAPE)
        return push(e, n, plan, PLAN_SHAPE, n->number);
    if (n->op == TREE_NEGATE)
        return push(e, n, plan, PLAN_CONSTANT, 0) && fold(e, n->left, plan) && push(e, n, plan, PLAN_SUBTRACT, 0);
    if (!fold(e, n->left, plan) || !fold(e, n->right, plan))
        return false;
    const struct plan_step *last = &plan->step[plan->count - 1];
    bool by_one = (n->op == TREE_MULTIPLY || n->op == TREE_DIVIDE) && !has_shape(e->expr, n->right) && last->value == 1;
    plan->count -= by_one; /* drop a multiplication or division by 1 */
    return by_one || push(e, n, plan, plan_ops[n->op], 0);
}

bool expr_plan(const struct expr *expr, const struct expr_env *env, struct plan_expr *plan, struct expr_fault *fault) {
    plan->count = 0;
    return fold(&(struct evaluation){expr, env, fault}, expr->root, plan);
}

void expr_print_value(struct expr_type type, int64_t value, char *out, size_t size) {
    if (type.kind == EXPR_WORD && value >= 0)
        snprintf(out, size, "%s", type.words[value]);
    else if (type.kind == EXPR_BOOL)
        snprintf(out, size, "%s", value ? "true" : "false");
    else
        snprintf(out, size, "%" PRId64, value);
}

void expr_explain(const struct expr *expr, const struct expr_env *env, char *out, size_t size) {
    static const char more[] = ", ...";
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < expr->count; i++) {
        const struct tree_node *n = &expr->node[i];
        char value[64] = "left out";
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen |= expr->node[j].op == n->op && expr->node[j].number == n->number;
        if (seen || (n->op != TREE_KNOB && n->op != TREE_SLOT))
            continue;
        if (n->op == TREE_SLOT && env->slots[n->number].set)
            expr_print_value(n->type, env->slots[n->number].value, value, sizeof value);
        if (n->op == TREE_KNOB && knob_get(env->knobs, (enum knob_id)n->number) != AUTO)
            expr_print_value(n->type, knob_get(env->knobs, (enum knob_id)n->number), value, sizeof value);
        int wrote =
            snprintf(out + at, size - at, "%s%.*s is %s", at ? ", " : "", n->size, expr->text + n->offset, value);
        if (wrote < 0 || (size_t)wrote + sizeof more > size - at) {
            snprintf(out + at, size - at, "%s", at ? more : "...");
            return;
        }
        at += (size_t)wrote;
    }
}

void expr_print_failed(const struct expr *expr, const struct expr_env *env, char *out, size_t size) {
    enum { TEXT = EXPR_MESSAGE / 2, VALUES = EXPR_MESSAGE / 2 - 32 };
    char values[VALUES];
    bool whole = strlen(expr->text) <= TEXT;
    expr_explain(expr, env, values, sizeof values);
    snprintf(out, size, "%.*s%s does not hold%s%s", whole ? TEXT : TEXT - 3, expr->text, whole ? "" : "...",
             *values ? ": " : "", values);
}
