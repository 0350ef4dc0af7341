/* formula_score: what a score does to s: factor * s + rest, or that within a tanh, where it is that, and its slope. */
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

static bool has(const struct formula *f, int node, int part) {
    if (node == part)
        return true;
    for (int i = 0; i < f->node[node].operands; i++)
        if (has(f, f->node[node].operand[i], part))
            return true;
    return false;
}

/* Of the subtree, as factor * variable + rest. */
static struct split split(struct formula *f, const struct formula *from, int node, int variable) {
    const struct tree_node *n = &from->node[node];
    const struct split no = {NO_NODE, NO_NODE, false};
    if (node == variable)
        return (struct split){tree_real(f, 1), NO_NODE, true};
    if (!has(from, node, variable)) {
        int rest = tree_copy(f, from, node);
        return (struct split){NO_NODE, rest, rest != NO_NODE};
    }
    if (n->op != OP_ADD && n->op != OP_SUBTRACT && n->op != OP_NEGATE && n->op != OP_MULTIPLY && n->op != OP_DIVIDE)
        return no;
    struct split a = split(f, from, n->operand[0], variable);
    if (n->op == OP_NEGATE)
        return (struct split){sum(f, OP_SUBTRACT, NO_NODE, a.factor), sum(f, OP_SUBTRACT, NO_NODE, a.rest), a.good};
    struct split b = split(f, from, n->operand[1], variable);
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

/* The first node with this operator from number `first` on; NO_NODE when there is none. */
static int node_of(const struct formula *f, enum tree_op op, int first) {
    for (int i = first; i < f->count; i++)
        if (f->node[i].op == op)
            return i;
    return NO_NODE;
}

/* --- folded into the exponent */

/* By how much the subtree grows with k. *affine becomes false when it does not grow evenly. */
static int growth(struct formula *f, const struct formula *from, int node, bool *affine) {
    const struct tree_node *n = &from->node[node];
    if (!(tree_names_of(from, node) >> FORMULA_K & 1))
        return NO_NODE;
    int a = n->operands > 0 ? n->operand[0] : NO_NODE, b = n->operands > 1 ? n->operand[1] : NO_NODE;
    bool by_a = a != NO_NODE && tree_names_of(from, a) >> FORMULA_K & 1;
    bool by_b = b != NO_NODE && tree_names_of(from, b) >> FORMULA_K & 1;
    switch (n->op) {
    case OP_NAME: return tree_real(f, 1);
    case OP_TO_REAL: return growth(f, from, a, affine);
    case OP_NEGATE: return sum(f, OP_SUBTRACT, NO_NODE, growth(f, from, a, affine));
    case OP_ADD:
    case OP_SUBTRACT: return sum(f, n->op, growth(f, from, a, affine), growth(f, from, b, affine));
    case OP_MULTIPLY:
    case OP_DIVIDE:
        if (by_b && (by_a || n->op == OP_DIVIDE))
            break;
        int by = tree_copy(f, from, by_a ? b : a);
        if (from->node[by_a ? b : a].type == FORMULA_INT)
            by = tree_one(f, OP_TO_REAL, by);
        return tree_two(f, n->op, growth(f, from, by_a ? a : b, affine), by);
    default: break;
    }
    *affine = false;
    return NO_NODE;
}

/* Does the same value hold for all keys and queries of a tile? */
static bool holds_for_all(const struct formula *f, int node) {
    return node == NO_NODE ||
           (!tree_uses_score(f, node) && !(tree_names_of(f, node) & (1u << FORMULA_Q | 1u << FORMULA_K)));
}

/* Is the subtree something that holds for all, times k - q? */
static bool goes_by_distance(const struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    int a = n->operands > 0 ? n->operand[0] : NO_NODE, b = n->operands > 1 ? n->operand[1] : NO_NODE;
    switch (n->op) {
    case OP_TO_REAL:
    case OP_NEGATE: return goes_by_distance(f, a);
    case OP_MULTIPLY:
        return (goes_by_distance(f, a) && holds_for_all(f, b)) || (goes_by_distance(f, b) && holds_for_all(f, a));
    case OP_DIVIDE: return goes_by_distance(f, a) && holds_for_all(f, b);
    case OP_SUBTRACT:
        return f->node[a].op == OP_NAME && f->node[b].op == OP_NAME &&
               f->node[a].number + f->node[b].number == FORMULA_K + FORMULA_Q &&
               (f->node[a].number == FORMULA_K || f->node[a].number == FORMULA_Q);
    default: return false;
    }
}

static struct formula *slope_in_key(const struct formula *rest, bool *affine) {
    struct formula *f = tree_derive(FORMULA_SCORE, rest);
    if (!f)
        return NULL;
    int slope = growth(f, rest, rest->root, affine);
    f->root = slope == NO_NODE && f->fault == TREE_FINE ? tree_real(f, 0) : slope;
    return f;
}

/* With `variable` in place of s, the score is folded into *fold if it can be. False when memory ran out. */
static bool fold_with(const struct formula *score, int variable, struct formula_fold *fold) {
    struct formula *f = tree_derive(FORMULA_SCORE, score);
    if (!f)
        return false;
    const struct tree_node *function = &score->node[variable];
    bool capped = function->op == OP_TANH, affine = true;
    struct split outer = split(f, score, score->root, variable), inner = {NO_NODE, NO_NODE, true};
    if (capped)
        inner = split(f, score, function->operand[0], node_of(score, OP_SCORE, 0));
    bool folds = outer.good && outer.factor != NO_NODE && holds_for_all(f, outer.factor) && inner.good &&
                 inner.rest == NO_NODE && holds_for_all(f, inner.factor) &&
                 (outer.rest == NO_NODE || !tree_uses_score(f, outer.rest)) && f->fault == TREE_FINE;
    bool good = f->fault != TREE_NO_MEMORY;
    if (folds) {
        fold->cap = capped ? take(f, outer.factor, 0) : NULL;
        fold->factor = take(f, capped ? inner.factor : outer.factor, 0);
        fold->rest = take(f, outer.rest, 0);
        fold->slope = fold->rest ? slope_in_key(fold->rest, &affine) : NULL;
        fold->by_distance = fold->rest && goes_by_distance(fold->rest, fold->rest->root);
        good = (fold->cap || !capped) && fold->factor && fold->slope && fold->slope->fault != TREE_NO_MEMORY;
    }
    if (!good || !folds || !affine || fold->slope->fault != TREE_FINE || !holds_for_all(fold->slope, fold->slope->root))
        formula_fold_free(fold);
    formula_free(f);
    return good;
}

bool formula_fold_score(const struct formula *score, struct formula_fold *fold) {
    *fold = (struct formula_fold){0};
    int s = node_of(score, OP_SCORE, 0);
    bool good = s == NO_NODE || fold_with(score, s, fold);
    for (int i = node_of(score, OP_TANH, 0); good && !fold->factor && i != NO_NODE; i = node_of(score, OP_TANH, i + 1))
        if (tree_uses_score(score, i) && has(score, score->root, i))
            good = fold_with(score, i, fold);
    return good;
}

void formula_fold_free(struct formula_fold *fold) {
    formula_free(fold->cap);
    formula_free(fold->factor);
    formula_free(fold->rest);
    formula_free(fold->slope);
    *fold = (struct formula_fold){0};
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
