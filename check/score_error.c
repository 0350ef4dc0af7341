#include "score_error.h"
#include "formula_tree.h"

#include <float.h>
#include <math.h>

static const double UNIT = 0x1p-24, UNKNOWN = 1e30; /* UNKNOWN: no useful bound */

/* Value of a node, and how far the fp32 computation may be from it. Integers and truth values are exact unless they
   depend on an inexact real. */
struct approx {
    double value, error;
};

struct analysis {
    const struct formula *f;
    const struct formula_env *env;
    double s, error_of_s;
    double tanh_error; /* absolute, in units, in addition to that of the library's tanh */
};

static double known(double error) { return error < UNKNOWN ? error : UNKNOWN; } /* NaN is unknown, too */

/* Error that an operand's error causes in a product with `factor`. An exact operand causes none, whatever the
   factor. */
static double scaled(double factor, double error) { return error == 0 ? 0 : factor * error; }

static bool is_exact(struct approx x) { return x.error == 0; }
static bool is_exact_infinity(struct approx x) { return isinf(x.value) && is_exact(x); }

/* Adds `roundings` roundings to a result. An infinity without error is an infinity in fp32, too. */
static struct approx rounded(double value, double error, double roundings) {
    double size = fabs(value) + error;
    if (isinf(value) && error == 0)
        return (struct approx){value, 0};
    if (size > (double)FLT_MAX)
        return (struct approx){value, UNKNOWN};
    return (struct approx){value, known(error + roundings * UNIT * size + 0x1p-126)};
}

static struct approx approximate(const struct analysis *a, int node);

/* Evaluates a leaf. The score is the only inexact leaf; indices of tensor reads are taken as exact. */
static struct approx leaf(const struct analysis *a, const struct tree_node *n) {
    const struct formula_env *env = a->env;
    int64_t index[FORMULA_DIMS];
    union formula_value value;
    switch (n->op) {
    case OP_INT:
    case OP_BOOL: return (struct approx){(double)n->number, 0};
    case OP_REAL: return (struct approx){(double)n->real, 0};
    case OP_NAME: return (struct approx){(double)env->name[n->number], 0};
    case OP_SCORE: return (struct approx){a->s, a->error_of_s};
    case OP_SCALAR: value = env->scalar[n->number]; break;
    default:
        for (int i = 0; i < n->operands; i++)
            index[i] = (int64_t)approximate(a, n->operand[i]).value;
        value = env->tensor(env->context, (int)n->number, FORMULA_AT, index);
    }
    return (struct approx){n->type == FORMULA_REAL ? value.real : (double)value.integer, 0};
}

static struct approx choose(struct approx condition, struct approx yes, struct approx no) {
    struct approx taken = condition.value != 0 ? yes : no, other = condition.value != 0 ? no : yes;
    if (condition.error > 0) /* the other branch may be taken */
        taken.error = known(fmax(taken.error, fabs(taken.value - other.value) + other.error));
    return taken;
}

/* Compares two values. The result is a truth value; an error of 1 means that it may be the opposite one. */
static struct approx compare(enum tree_op op, struct approx x, struct approx y) {
    bool holds = op == OP_LESS         ? x.value < y.value
                 : op == OP_LESS_EQUAL ? x.value <= y.value
                 : op == OP_EQUAL      ? x.value == y.value
                                       : x.value != y.value;
    bool sure = x.error + y.error == 0 || fabs(x.value - y.value) > x.error + y.error;
    return (struct approx){holds, sure ? 0 : 1};
}

static struct approx divide(struct approx x, struct approx y) {
    double value = x.value / y.value, least = fabs(y.value) - y.error;
    if (!(least > 0))
        return (struct approx){value, UNKNOWN};
    if (is_exact_infinity(x))
        return (struct approx){value, 0};
    return rounded(value, (x.error + scaled(fabs(value), y.error)) / least, 2);
}

static struct approx of_integers(enum tree_op op, struct approx x, struct approx y) {
    int64_t a = (int64_t)x.value, b = (int64_t)y.value;
    double error = x.error + y.error > 0 ? UNKNOWN : 0;
    switch (op) {
    case OP_OR_BITS: return (struct approx){(double)(a | b), error};
    case OP_XOR_BITS: return (struct approx){(double)(a ^ b), error};
    case OP_AND_BITS: return (struct approx){(double)(a & b), error};
    case OP_SHIFT_LEFT: return (struct approx){(double)tree_shift(a, b, true), error};
    case OP_SHIFT_RIGHT: return (struct approx){(double)tree_shift(a, b, false), error};
    case OP_FLOOR_DIVIDE: return (struct approx){(double)tree_floor_divide(a, b), error};
    case OP_MODULO: return (struct approx){(double)tree_modulo(a, b), error};
    default: return (struct approx){0, UNKNOWN};
    }
}

/* Adds two values, one of which may be infinite: then any finite error of the other does not matter. */
static struct approx add(double value, struct approx x, struct approx y) {
    if (isinf(value) && x.error + y.error < UNKNOWN)
        return (struct approx){value, 0};
    if (value == 0 && is_exact(x) && is_exact(y))
        return (struct approx){0, 0};
    return rounded(value, x.error + y.error, 1);
}

static struct approx multiply(struct approx x, struct approx y) {
    double value = x.value * y.value;
    bool sign_is_sure = fabs(x.value) > x.error && fabs(y.value) > y.error;
    if (is_exact(x) && is_exact(y) && (value == 0 || fabs(value) == 1))
        return (struct approx){value, 0};
    if (sign_is_sure && (is_exact_infinity(x) || is_exact_infinity(y)))
        return (struct approx){value, 0};
    return rounded(value, scaled(fabs(x.value), y.error) + scaled(fabs(y.value), x.error) + scaled(x.error, y.error),
                   1);
}

static struct approx of_two(const struct tree_node *n, struct approx x, struct approx y) {
    bool real = n->type == FORMULA_REAL; /* integers do not round */
    switch (n->op) {
    case OP_OR: return (struct approx){x.value != 0 || y.value != 0, fmax(x.error, y.error)};
    case OP_AND: return (struct approx){x.value != 0 && y.value != 0, fmax(x.error, y.error)};
    case OP_LESS:
    case OP_LESS_EQUAL:
    case OP_EQUAL:
    case OP_UNEQUAL: return compare(n->op, x, y);
    case OP_ADD: return real ? add(x.value + y.value, x, y) : (struct approx){x.value + y.value, x.error + y.error};
    case OP_SUBTRACT:
        return real ? add(x.value - y.value, x, y) : (struct approx){x.value - y.value, x.error + y.error};
    case OP_MULTIPLY:
        return real ? multiply(x, y)
                    : (struct approx){x.value * y.value,
                                      fabs(x.value) * y.error + fabs(y.value) * x.error + x.error * y.error};
    case OP_DIVIDE: return divide(x, y);
    case OP_MIN: return (struct approx){fmin(x.value, y.value), fmax(x.error, y.error)};
    case OP_MAX: return (struct approx){fmax(x.value, y.value), fmax(x.error, y.error)};
    default: return of_integers(n->op, x, y);
    }
}

/* A function at infinity equals its limit exactly, except for the error that folding adds. */
static struct approx at_infinity(const struct analysis *a, const struct tree_node *n, double x) {
    double value = n->op == OP_EXP    ? exp(x)
                   : n->op == OP_LOG  ? log(x)
                   : n->op == OP_SQRT ? sqrt(x)
                   : n->op == OP_TANH ? tanh(x)
                                      : 1 / (1 + exp(-x));
    return (struct approx){value, isnan(value) ? UNKNOWN : n->op == OP_TANH ? a->tanh_error * UNIT : 0};
}

/* The functions of CUDA's library and of this machine's are accurate to 2 ulp, 4 units. */
static struct approx of_one(const struct analysis *a, const struct tree_node *n, struct approx x) {
    double least = x.value - x.error, root = sqrt(fmax(least, 0)), t = tanh(x.value);
    bool function = n->op == OP_EXP || n->op == OP_LOG || n->op == OP_SQRT || n->op == OP_TANH || n->op == OP_SIGMOID;
    if (function && is_exact_infinity(x))
        return at_infinity(a, n, x.value);
    switch (n->op) {
    case OP_TO_REAL: return rounded(x.value, x.error, fabs(x.value) > 0x1p24 ? 1 : 0);
    case OP_NOT: return (struct approx){x.value == 0, x.error};
    case OP_NEGATE: return (struct approx){-x.value, x.error};
    case OP_COMPLEMENT: return (struct approx){-x.value - 1, x.error};
    case OP_ABS: return (struct approx){fabs(x.value), x.error};
    case OP_FLOOR: return (struct approx){floor(x.value), floor(x.value + x.error) != floor(x.value - x.error) ? 1 : 0};
    case OP_EXP: return rounded(exp(x.value), exp(x.value) * expm1(fmin(x.error, 100)), 4);
    case OP_LOG: return least > 0 ? rounded(log(x.value), x.error / least, 4) : (struct approx){log(x.value), UNKNOWN};
    case OP_SQRT:
        return root > 0 ? rounded(sqrt(x.value), x.error / root, 2) : (struct approx){sqrt(x.value), sqrt(x.error)};
    case OP_TANH: return rounded(t, fmin(x.error + a->tanh_error * UNIT, 2), 4);
    case OP_SIGMOID: return rounded(1 / (1 + exp(-x.value)), x.error / 4, 8);
    default: return (struct approx){x.value, UNKNOWN};
    }
}

/* FORMULA_DEPTH bounds the recursion. */
static struct approx approximate(const struct analysis *a, int node) {
    const struct tree_node *n = &a->f->node[node];
    if (n->op <= OP_MOST)
        return leaf(a, n);
    struct approx operand[3] = {{0}};
    for (int i = 0; i < n->operands; i++)
        operand[i] = approximate(a, n->operand[i]);
    if (n->op == OP_IF)
        return choose(operand[0], operand[1], operand[2]);
    return n->operands == 1 ? of_one(a, n, operand[0]) : of_two(n, operand[0], operand[1]);
}

/* Error that folding adds (docs/numerics.md): it has its own tanh, and computes the rest from a key up to WIDEST keys
   away. */
static double add_folding(struct analysis *analysis) {
    enum { WIDEST = 256 };
    struct formula_fold fold;
    double error = 0;
    if (formula_fold_score(analysis->f, &fold) && fold.factor) {
        analysis->tanh_error = fold.cap ? 12 : 0;
        error = 4 * UNIT * WIDEST * fabs(formula_score(fold.slope, analysis->env));
    }
    formula_fold_free(&fold);
    return error;
}

double score_error(const struct oracle_attention *p, int64_t b, int64_t h, int64_t query, int64_t key, double s,
                   double error_of_s, bool folded) {
    struct formula_env env = oracle_env(p, b, h, query, key);
    struct analysis analysis = {p->score, &env, s, isinf(s) ? 0 : error_of_s, 0};
    double error = folded ? add_folding(&analysis) : 0;
    return known(error + approximate(&analysis, p->score->root).error);
}

double derivative_error(const struct oracle_attention *p, const struct formula *derivative, int64_t b, int64_t h,
                        int64_t query, int64_t key, double s, double error_of_s) {
    struct formula_env env = oracle_env(p, b, h, query, key);
    struct analysis analysis = {derivative, &env, s, isinf(s) ? 0 : error_of_s, 0};
    return known(approximate(&analysis, derivative->root).error);
}
