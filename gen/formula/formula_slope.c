/* formula_slope: derivatives of a score, by the rules of calculus: with respect to s and to each float that it
   reads. */
#include "formula_tree.h"

static int constant(struct formula *f, double real) { return tree_real(f, real); }

static int product(struct formula *f, int a, int b) { return tree_scaled(f, OP_MULTIPLY, a, b); }

static int or_zero(struct formula *f, int node) { return node == NO_NODE ? constant(f, 0) : node; }

/* Returns one of two slopes, by a condition; 0 if both are 0. */
static int either(struct formula *f, int condition, int a, int b) {
    return a == NO_NODE && b == NO_NODE ? NO_NODE : tree_if(f, condition, or_zero(f, a), or_zero(f, b));
}

/* d f(x) = f'(x) dx, with dx not 0. */
static int slope_of_function(struct formula *f, enum tree_op op, int x, int dx) {
    int y = op == OP_ABS ? NO_NODE : tree_one(f, op, x), one = constant(f, 1), zero = constant(f, 0);
    switch (op) {
    case OP_NEGATE: return tree_sum(f, OP_SUBTRACT, NO_NODE, dx);
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

/* Returns the slope of a real node with respect to the node `variable`; NO_NODE for 0. Failures show in f->fault. */
static int slope(struct formula *f, const struct formula *from, int node, int variable) {
    const struct tree_node *n = &from->node[node];
    if (node == variable)
        return constant(f, 1);
    if (!tree_has(from, node, variable) || n->op == OP_TO_REAL || n->op == OP_AT) /* integers have steps but no slope */
        return NO_NODE;
    if (n->op == OP_IF)
        return either(f, tree_copy(f, from, n->operand[0]), slope(f, from, n->operand[1], variable),
                      slope(f, from, n->operand[2], variable));
    int x = tree_copy(f, from, n->operand[0]), dx = slope(f, from, n->operand[0], variable);
    if (n->operands == 1)
        return dx == NO_NODE ? NO_NODE : slope_of_function(f, n->op, x, dx);
    int y = tree_copy(f, from, n->operand[1]), dy = slope(f, from, n->operand[1], variable);
    switch (n->op) {
    case OP_MULTIPLY: return tree_sum(f, OP_ADD, product(f, dx, y), product(f, dy, x));
    case OP_DIVIDE: /* (dx - x / y dy) / y */
        dy = dy == NO_NODE ? NO_NODE : product(f, dy, tree_two(f, OP_DIVIDE, x, y));
        return tree_scaled(f, OP_DIVIDE, tree_sum(f, OP_SUBTRACT, dx, dy), y);
    case OP_MIN: return either(f, tree_two(f, OP_LESS_EQUAL, x, y), dx, dy);
    case OP_MAX: return either(f, tree_two(f, OP_LESS_EQUAL, y, x), dx, dy);
    default: return tree_sum(f, n->op, dx, dy);
    }
}

/* Returns the tree with this root, or null after a fault: memory ran out, or it would be too long. */
static struct formula *finished(struct formula *f, int root) {
    f->root = root;
    if (f->root != NO_NODE && f->fault == TREE_FINE)
        return f;
    formula_free(f);
    return NULL;
}

struct formula *formula_slope(const struct formula *score) {
    struct formula *f = tree_derive(FORMULA_SCORE, score);
    int s = tree_find(score, OP_SCORE, 0);
    return f ? finished(f, s == NO_NODE ? constant(f, 0) : or_zero(f, slope(f, score, score->root, s))) : NULL;
}

bool formula_is_one(const struct formula *formula) {
    const struct tree_node *root = &formula->node[formula->root];
    return root->op == OP_REAL && root->real == 1;
}

/* --- with respect to what it reads ------------------------------------------------------------------------------- */

static bool is_float(const struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    return (n->op == OP_SCALAR || n->op == OP_AT) && n->type == FORMULA_REAL;
}

static struct formula *copy_of(const struct formula *from, int node) {
    struct formula *f = tree_derive(FORMULA_SIZE, from);
    return f ? finished(f, tree_copy(f, from, node)) : NULL;
}

/* Fills *read for the node, with its slope. False if memory ran out or the slope is too long. */
static bool read_at(const struct formula *score, int node, struct formula_read *read) {
    const struct tree_node *n = &score->node[node];
    struct formula *f = tree_derive(FORMULA_SCORE, score);
    int of_node = f ? slope(f, score, score->root, node) : NO_NODE;
    *read = (struct formula_read){.param = n->number, .indices = n->operands, .of_head = true};
    if (!f || f->fault != TREE_FINE) {
        formula_free(f);
        return false;
    }
    if (of_node == NO_NODE) { /* the score has no slope with respect to it */
        formula_free(f);
        return true;
    }
    bool good = (read->slope = finished(f, of_node)) != NULL;
    for (int i = 0; i < n->operands; i++) {
        good &= (read->index[i] = copy_of(score, n->operand[i])) != NULL;
        read->of_head &= !tree_uses_score(score, n->operand[i]) &&
                         !(tree_names_of(score, n->operand[i]) & (1u << FORMULA_Q | 1u << FORMULA_K));
    }
    return good;
}

bool formula_reads_find(const struct formula *score, unsigned params, struct formula_reads *reads) {
    *reads = (struct formula_reads){0};
    for (int i = 0; i < score->count; i++) {
        if (!is_float(score, i) || !(params >> score->node[i].number & 1) || !tree_has(score, score->root, i))
            continue;
        if (reads->count == FORMULA_READS || !read_at(score, i, &reads->read[reads->count++]))
            return false;
        if (!reads->read[reads->count - 1].slope)
            reads->count--;
    }
    for (int i = 0; i < reads->count; i++) /* an element that a pair and a head both add to belongs to the pairs */
        for (int j = 0; j < reads->count; j++)
            if (reads->read[j].param == reads->read[i].param && !reads->read[j].of_head)
                reads->read[i].of_head = false;
    return true;
}

enum formula_sharing formula_reads_sharing(const struct formula_reads *reads) {
    const unsigned of_head = 1u << FORMULA_H | 1u << FORMULA_Q | 1u << FORMULA_K;
    unsigned names = 0;
    int last = NO_NODE;
    for (int d = 0; reads->count == 1 && d < reads->read[0].indices; d++) {
        const struct formula *index = reads->read[0].index[d];
        const struct tree_node *n = &index->node[index->root];
        last = n->op == OP_NAME ? (int)n->number : NO_NODE;
        names |= n->op == OP_NAME ? 1u << n->number : 0;
    }
    if ((names & of_head) != of_head || last != FORMULA_K || !formula_is_one(reads->read[0].slope))
        return FORMULA_SHARED;
    return names >> FORMULA_B & 1 ? FORMULA_OF_BATCH : FORMULA_OF_HEAD;
}

void formula_reads_free(struct formula_reads *reads) {
    for (int i = 0; i < reads->count; i++) {
        formula_free(reads->read[i].slope);
        for (int d = 0; d < FORMULA_DIMS; d++)
            formula_free(reads->read[i].index[d]);
    }
    *reads = (struct formula_reads){0};
}
