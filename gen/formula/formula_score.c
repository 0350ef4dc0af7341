/* formula_score: brings a score into the form factor * s + rest, possibly within a tanh, if it has that form. */
#include "formula_tree.h"

/* --- factor * s + rest */

struct split {
    int factor, rest; /* NO_NODE = 0 */
    bool good;
};

/* Splits the subtree into factor * variable + rest. */
static struct split split(struct formula *f, const struct formula *from, int node, int variable) {
    const struct tree_node *n = &from->node[node];
    const struct split no = {NO_NODE, NO_NODE, false};
    if (node == variable)
        return (struct split){tree_real(f, 1), NO_NODE, true};
    if (!tree_has(from, node, variable)) {
        int rest = tree_copy(f, from, node);
        return (struct split){NO_NODE, rest, rest != NO_NODE};
    }
    if (n->op != OP_ADD && n->op != OP_SUBTRACT && n->op != OP_NEGATE && n->op != OP_MULTIPLY && n->op != OP_DIVIDE)
        return no;
    struct split a = split(f, from, n->operand[0], variable);
    if (n->op == OP_NEGATE)
        return (struct split){tree_sum(f, OP_SUBTRACT, NO_NODE, a.factor), tree_sum(f, OP_SUBTRACT, NO_NODE, a.rest),
                              a.good};
    struct split b = split(f, from, n->operand[1], variable);
    if (!a.good || !b.good)
        return no;
    if (n->op == OP_ADD || n->op == OP_SUBTRACT)
        return (struct split){tree_sum(f, n->op, a.factor, b.factor), tree_sum(f, n->op, a.rest, b.rest), true};
    if (b.factor != NO_NODE && (a.factor != NO_NODE || n->op == OP_DIVIDE)) /* s * s, 1 / s */
        return no;
    struct split with = a.factor != NO_NODE ? a : b;
    int by = a.factor != NO_NODE ? b.rest : a.rest;
    return (struct split){tree_scaled(f, n->op, with.factor, by), tree_scaled(f, n->op, with.rest, by), true};
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

/* --- folded into the exponent */

/* Returns how much the subtree grows per k. *affine becomes false if it does not grow evenly. */
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
    case OP_NEGATE: return tree_sum(f, OP_SUBTRACT, NO_NODE, growth(f, from, a, affine));
    case OP_ADD:
    case OP_SUBTRACT: return tree_sum(f, n->op, growth(f, from, a, affine), growth(f, from, b, affine));
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

/* True if all keys and queries of a tile have the same value. */
static bool holds_for_all(const struct formula *f, int node) {
    return node == NO_NODE ||
           (!tree_uses_score(f, node) && !(tree_names_of(f, node) & (1u << FORMULA_Q | 1u << FORMULA_K)));
}

/* True if the subtree is k - q times a value that holds for all. */
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

/* Folds the score into *fold if possible, with `variable` in place of s. False if memory ran out. */
static bool fold_with(const struct formula *score, int variable, struct formula_fold *fold) {
    struct formula *f = tree_derive(FORMULA_SCORE, score);
    if (!f)
        return false;
    const struct tree_node *function = &score->node[variable];
    bool capped = function->op == OP_TANH, affine = true;
    struct split outer = split(f, score, score->root, variable), inner = {NO_NODE, NO_NODE, true};
    if (capped)
        inner = split(f, score, function->operand[0], tree_find(score, OP_SCORE, 0));
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
    int s = tree_find(score, OP_SCORE, 0);
    bool good = s == NO_NODE || fold_with(score, s, fold);
    for (int i = tree_find(score, OP_TANH, 0); good && !fold->factor && i != NO_NODE;
         i = tree_find(score, OP_TANH, i + 1))
        if (tree_uses_score(score, i) && tree_has(score, score->root, i))
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
