/* formula_score: what a score does to s: factor * s + rest, where it is that, and its slope. */
#include "formula_tree.h"

/* NO_NODE is 0 here. What is 0 stays so, and no `0.0 +` and `1.0 *` are left behind. */
static int sum(struct formula *f, enum tree_op op, int a, int b) {
    if (b == NO_NODE)
        return a;
    if (a == NO_NODE)
        return op == OP_SUBTRACT ? tree_one(f, OP_NEGATE, b) : b;
    return tree_two(f, op, a, b);
}

static int scaled(struct formula *f, enum tree_op op, int a, int by) {
    return a == NO_NODE ? NO_NODE : tree_two(f, op, a, by);
}

/* --- factor * s + rest */

struct split {
    int factor, rest; /* NO_NODE = 0 */
    bool good;
};

static struct split split(struct formula *f, const struct formula *from, int node) {
    const struct tree_node *n = &from->node[node];
    const struct split no = {NO_NODE, NO_NODE, false};
    if (!tree_uses_score(from, node)) {
        int rest = tree_copy(f, from, node);
        return (struct split){NO_NODE, rest, rest != NO_NODE};
    }
    if (n->op == OP_SCORE)
        return (struct split){tree_real(f, 1), NO_NODE, true};
    if (n->op != OP_ADD && n->op != OP_SUBTRACT && n->op != OP_NEGATE && n->op != OP_MULTIPLY && n->op != OP_DIVIDE)
        return no;
    struct split a = split(f, from, n->operand[0]);
    if (n->op == OP_NEGATE)
        return (struct split){sum(f, OP_SUBTRACT, NO_NODE, a.factor), sum(f, OP_SUBTRACT, NO_NODE, a.rest), a.good};
    struct split b = split(f, from, n->operand[1]);
    if (!a.good || !b.good)
        return no;
    if (n->op == OP_ADD || n->op == OP_SUBTRACT)
        return (struct split){sum(f, n->op, a.factor, b.factor), sum(f, n->op, a.rest, b.rest), true};
    if (b.factor != NO_NODE && (a.factor != NO_NODE || n->op == OP_DIVIDE)) /* s * s, 1 / s */
        return no;
    struct split with = a.factor != NO_NODE ? a : b;
    int by = a.factor != NO_NODE ? b.rest : a.rest;
    return (struct split){scaled(f, n->op, with.factor, by), scaled(f, n->op, with.rest, by), true};
}

static struct formula *take(struct formula *from, int node, double otherwise) {
    struct formula *f = tree_derive(FORMULA_SCORE, from);
    if (!f)
        return NULL;
    f->root = node == NO_NODE ? tree_real(f, otherwise) : tree_copy(f, from, node);
    if (f->root != NO_NODE)
        return f;
    formula_free(f);
    return NULL;
}

bool formula_split_score(const struct formula *score, struct formula **factor, struct formula **rest) {
    *factor = *rest = NULL;
    struct formula *f = tree_derive(FORMULA_SCORE, score);
    if (!f)
        return false;
    struct split parts = split(f, score, score->root);
    if (parts.good && f->fault == TREE_FINE) {
        *factor = take(f, parts.factor, 0);
        *rest = take(f, parts.rest, 0);
    }
    formula_free(f);
    if (*factor && *rest)
        return true;
    formula_free(*factor);
    formula_free(*rest);
    *factor = *rest = NULL;
    return false;
}

/* --- slope */

static int constant(struct formula *f, double real) { return tree_real(f, real); }

static int product(struct formula *f, int a, int b) { return scaled(f, OP_MULTIPLY, a, b); }

static int or_zero(struct formula *f, int node) { return node == NO_NODE ? constant(f, 0) : node; }

/* Either slope, by a condition; 0 when both are. */
static int either(struct formula *f, int condition, int a, int b) {
    return a == NO_NODE && b == NO_NODE ? NO_NODE : tree_if(f, condition, or_zero(f, a), or_zero(f, b));
}

/* d f(x) / ds = f'(x) dx, with dx not 0. */
static int slope_of_function(struct formula *f, enum tree_op op, int x, int dx) {
    int y = op == OP_ABS ? NO_NODE : tree_one(f, op, x), one = constant(f, 1), zero = constant(f, 0);
    switch (op) {
    case OP_NEGATE: return sum(f, OP_SUBTRACT, NO_NODE, dx);
    case OP_EXP: return product(f, dx, y);
    case OP_LOG: return tree_two(f, OP_DIVIDE, dx, x);
    case OP_SQRT: return tree_two(f, OP_DIVIDE, product(f, dx, constant(f, 0.5)), y);
    case OP_TANH: return product(f, dx, tree_two(f, OP_SUBTRACT, one, tree_two(f, OP_MULTIPLY, y, y)));
    case OP_SIGMOID: return product(f, dx, tree_two(f, OP_MULTIPLY, y, tree_two(f, OP_SUBTRACT, one, y)));
    default: /* abs; 0 at 0 */
        return tree_if(f, tree_two(f, OP_LESS, zero, x), dx,
                       tree_if(f, tree_two(f, OP_LESS, x, zero), tree_one(f, OP_NEGATE, dx), zero));
    }
}

/* The slope below a real node; NO_NODE for 0. What failed shows in f->fault. */
static int slope(struct formula *f, const struct formula *from, int node) {
    const struct tree_node *n = &from->node[node];
    if (!tree_uses_score(from, node) || n->op == OP_TO_REAL) /* integers have steps, and no slope between them */
        return NO_NODE;
    if (n->op == OP_SCORE)
        return constant(f, 1);
    if (n->op == OP_IF)
        return either(f, tree_copy(f, from, n->operand[0]), slope(f, from, n->operand[1]),
                      slope(f, from, n->operand[2]));
    int x = tree_copy(f, from, n->operand[0]), dx = slope(f, from, n->operand[0]);
    if (n->operands == 1)
        return dx == NO_NODE ? NO_NODE : slope_of_function(f, n->op, x, dx);
    int y = tree_copy(f, from, n->operand[1]), dy = slope(f, from, n->operand[1]);
    switch (n->op) {
    case OP_MULTIPLY: return sum(f, OP_ADD, product(f, dx, y), product(f, dy, x));
    case OP_DIVIDE: /* (dx - x / y dy) / y */
        dy = dy == NO_NODE ? NO_NODE : product(f, dy, tree_two(f, OP_DIVIDE, x, y));
        return scaled(f, OP_DIVIDE, sum(f, OP_SUBTRACT, dx, dy), y);
    case OP_MIN: return either(f, tree_two(f, OP_LESS_EQUAL, x, y), dx, dy);
    case OP_MAX: return either(f, tree_two(f, OP_LESS_EQUAL, y, x), dx, dy);
    default: return sum(f, n->op, dx, dy);
    }
}

struct formula *formula_slope(const struct formula *score) {
    struct formula *f = tree_derive(FORMULA_SCORE, score);
    if (!f)
        return NULL;
    f->root = or_zero(f, slope(f, score, score->root));
    if (f->root != NO_NODE && f->fault == TREE_FINE)
        return f;
    formula_free(f);
    return NULL;
}
