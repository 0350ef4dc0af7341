/* formula_eval: tree -> value, by the definition of each operation: exact integers, reals in double precision. It
   shares nothing with the code that formula_cuda.c prints, so the oracle can check that code. Recursion is bounded by
   the tree's depth; no operation fails. */
#include "formula_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static int64_t integer(const struct formula *f, int node, const struct formula_env *env);
static double real(const struct formula *f, int node, const struct formula_env *env);

static union formula_value element(const struct formula *f, const struct tree_node *n, const struct formula_env *env) {
    int64_t index[TREE_OPERANDS];
    for (int i = 0; i < n->operands; i++)
        index[i] = integer(f, n->operand[i], env);
    enum formula_access access = n->op == OP_AT ? FORMULA_AT : n->op == OP_LEAST ? FORMULA_LEAST : FORMULA_MOST;
    return env->tensor(env->context, (int)n->number, access, index);
}

static bool compare_reals(enum tree_op op, double a, double b) {
    return op == OP_LESS ? a < b : op == OP_LESS_EQUAL ? a <= b : op == OP_EQUAL ? a == b : a != b;
}

static int64_t floor_of(double x) {
    if (isnan(x))
        return 0;
    return x < INT32_MIN ? INT32_MIN : x >= -(double)INT32_MIN ? INT32_MAX : (int64_t)floor(x);
}

/* bool and int */
static int64_t integer(const struct formula *f, int node, const struct formula_env *env) {
    const struct tree_node *n = &f->node[node];
    int a = n->operand[0], b = n->operand[1];
    switch (n->op) {
    case OP_INT:
    case OP_BOOL: return n->number;
    case OP_NAME: return env->name[n->number];
    case OP_SCALAR:
        return n->type == FORMULA_BOOL ? env->scalar[n->number].integer != 0 : env->scalar[n->number].integer;
    case OP_AT:
    case OP_LEAST:
    case OP_MOST: {
        int64_t value = element(f, n, env).integer;
        return n->type == FORMULA_BOOL ? value != 0 : value;
    }
    case OP_IF: return integer(f, integer(f, a, env) ? b : n->operand[2], env);
    case OP_OR: return integer(f, a, env) || integer(f, b, env);
    case OP_AND: return integer(f, a, env) && integer(f, b, env);
    case OP_NOT: return !integer(f, a, env);
    case OP_NEGATE: return -integer(f, a, env);
    case OP_COMPLEMENT: return ~integer(f, a, env);
    case OP_FLOOR: return floor_of(real(f, a, env));
    default: break;
    }
    if (f->node[a].type == FORMULA_REAL)
        return compare_reals(n->op, real(f, a, env), real(f, b, env));
    int64_t x = integer(f, a, env);
    if (n->op == OP_ABS)
        return x < 0 ? -x : x;
    int64_t y = integer(f, b, env);
    switch (n->op) {
    case OP_LESS: return x < y;
    case OP_LESS_EQUAL: return x <= y;
    case OP_EQUAL: return x == y;
    case OP_UNEQUAL: return x != y;
    case OP_OR_BITS: return x | y;
    case OP_XOR_BITS: return x ^ y;
    case OP_AND_BITS: return x & y;
    case OP_SHIFT_LEFT: return tree_shift(x, y, true);
    case OP_SHIFT_RIGHT: return tree_shift(x, y, false);
    case OP_ADD: return x + y;
    case OP_SUBTRACT: return x - y;
    case OP_MULTIPLY: return x * y;
    case OP_FLOOR_DIVIDE: return tree_floor_divide(x, y);
    case OP_MODULO: return tree_modulo(x, y);
    case OP_MIN: return x < y ? x : y;
    case OP_MAX: return x > y ? x : y;
    default: return 0;
    }
}

static double real(const struct formula *f, int node, const struct formula_env *env) {
    const struct tree_node *n = &f->node[node];
    switch (n->op) {
    case OP_REAL: return (double)n->real;
    case OP_SCORE: return env->score;
    case OP_SCALAR: return env->scalar[n->number].real;
    case OP_AT:
    case OP_LEAST:
    case OP_MOST: return element(f, n, env).real;
    case OP_TO_REAL: return (double)integer(f, n->operand[0], env);
    case OP_IF: return real(f, n->operand[integer(f, n->operand[0], env) ? 1 : 2], env);
    default: break;
    }
    double x = real(f, n->operand[0], env), y = n->operands == 2 ? real(f, n->operand[1], env) : 0;
    switch (n->op) {
    case OP_ADD: return x + y;
    case OP_SUBTRACT: return x - y;
    case OP_MULTIPLY: return x * y;
    case OP_DIVIDE: return x / y;
    case OP_NEGATE: return -x;
    case OP_MIN: return x <= y || isnan(x) ? x : y;
    case OP_MAX: return x >= y || isnan(x) ? x : y;
    case OP_ABS: return fabs(x);
    case OP_EXP: return exp(x);
    case OP_LOG: return log(x);
    case OP_SQRT: return sqrt(x);
    case OP_TANH: return tanh(x);
    case OP_SIGMOID: return 1 / (1 + exp(-x));
    default: return (double)NAN;
    }
}

bool formula_mask(const struct formula *mask, const struct formula_env *env) {
    return integer(mask, mask->root, env) != 0;
}

double formula_score(const struct formula *score, const struct formula_env *env) {
    return real(score, score->root, env);
}

int64_t formula_integer(const struct formula *formula, const struct formula_env *env) {
    return integer(formula, formula->root, env);
}

int64_t formula_dim(const struct formula_scope *scope, int param, int dim, const struct formula_env *env) {
    return formula_integer(scope->param[param].dim[dim], env);
}

bool formula_fits(const struct formula_scope *scope, const struct formula_env *env, char message[FORMULA_MESSAGE]) {
    static const int64_t most[FORMULA_NAMES] = {[FORMULA_BATCH] = FORMULA_BATCHES,
                                                [FORMULA_HEADS] = FORMULA_HEAD_COUNT,
                                                [FORMULA_KV_HEADS] = FORMULA_HEAD_COUNT,
                                                [FORMULA_LEN_Q] = FORMULA_LENGTH,
                                                [FORMULA_LEN_KV] = FORMULA_LENGTH};
    for (int i = FORMULA_BATCH; i <= FORMULA_LEN_KV; i++)
        if (env->name[i] < 0 || env->name[i] > most[i]) {
            snprintf(message, FORMULA_MESSAGE, "%s is %" PRId64 "; beside a mask or score it may be at most %" PRId64,
                     tree_names[i], env->name[i], most[i]);
            return false;
        }
    for (int i = 0; i < scope->count; i++) {
        const struct formula_param *param = &scope->param[i];
        if (param->dims || param->type != FORMULA_INT)
            continue;
        int64_t value = env->scalar[i].integer;
        if (value < -FORMULA_SCALAR || value > FORMULA_SCALAR) {
            snprintf(message, FORMULA_MESSAGE, "parameter %s is %" PRId64 "; it may be at most %d in magnitude",
                     param->name, value, FORMULA_SCALAR);
            return false;
        }
    }
    return true;
}
