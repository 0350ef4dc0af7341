/* formula_bound: interval arithmetic on formulas instead of numbers: each integer becomes a lower and an upper bound,
   each condition a "for some" and a "for all", as formulas over the corners of a box. A value that does not vary within
   the box is its own exact bound. A value without good bounds gets the range of its node. */
#include "formula_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct bounds {
    int least, most; /* of a condition: for all, for some */
};

struct bounder {
    const struct formula *from;
    struct formula *to;
    struct bounds name[FORMULA_NAMES]; /* least NO_NODE = does not vary */
    bool tensors;                      /* true if bounds may read tensor values */
    bool *varies;                      /* indexed by node of `from` */
};

static const struct tree_node *node_of(const struct bounder *b, int node) { return &b->from->node[node]; }
static int two(struct bounder *b, enum tree_op op, int x, int y) { return tree_two(b->to, op, x, y); }
static int negated(struct bounder *b, int condition) { return tree_one(b->to, OP_NOT, condition); }

static struct bounds bound(struct bounder *b, int node);

/* Returns the range of the node as bounds; a condition may be true or false. */
static struct bounds by_range(struct bounder *b, const struct tree_node *n) {
    if (n->type == FORMULA_BOOL)
        return (struct bounds){tree_bool(b->to, false), tree_bool(b->to, true)};
    return (struct bounds){tree_int(b->to, n->least), tree_int(b->to, n->most)};
}

static struct bounds min_max_of(struct bounder *b, int x, int y) {
    return (struct bounds){two(b, OP_MIN, x, y), two(b, OP_MAX, x, y)};
}

static struct bounds multiply(struct bounder *b, const struct tree_node *n) {
    int left = n->operand[0], right = n->operand[1];
    if (b->varies[right] && !b->varies[left]) { /* the constant factor goes right */
        left = n->operand[1];
        right = n->operand[0];
    }
    struct bounds x = bound(b, left), y = bound(b, right);
    const struct tree_node *factor = node_of(b, right);
    if (!b->varies[right] && factor->least >= 0)
        return (struct bounds){two(b, OP_MULTIPLY, x.least, y.least), two(b, OP_MULTIPLY, x.most, y.least)};
    if (!b->varies[right] && factor->most <= 0)
        return (struct bounds){two(b, OP_MULTIPLY, x.most, y.least), two(b, OP_MULTIPLY, x.least, y.least)};
    struct bounds low = min_max_of(b, two(b, OP_MULTIPLY, x.least, y.least), two(b, OP_MULTIPLY, x.most, y.least));
    if (!b->varies[right])
        return low;
    struct bounds high = min_max_of(b, two(b, OP_MULTIPLY, x.least, y.most), two(b, OP_MULTIPLY, x.most, y.most));
    return (struct bounds){two(b, OP_MIN, low.least, high.least), two(b, OP_MAX, low.most, high.most)};
}

/* Floor division by a constant divisor keeps or reverses the order. */
static struct bounds divide(struct bounder *b, const struct tree_node *n) {
    if (b->varies[n->operand[1]])
        return by_range(b, n);
    struct bounds x = bound(b, n->operand[0]);
    int divisor = bound(b, n->operand[1]).least;
    int first = two(b, OP_FLOOR_DIVIDE, x.least, divisor), last = two(b, OP_FLOOR_DIVIDE, x.most, divisor);
    if (node_of(b, n->operand[1])->least >= 0)
        return (struct bounds){first, last};
    return min_max_of(b, first, last);
}

/* Within one period the remainder grows with x; across periods it may take all values. */
static struct bounds modulo(struct bounder *b, const struct tree_node *n) {
    if (b->varies[n->operand[1]])
        return by_range(b, n);
    struct bounds x = bound(b, n->operand[0]);
    int divisor = bound(b, n->operand[1]).least, one = tree_int(b->to, 1), zero = tree_int(b->to, 0);
    int within = two(b, OP_EQUAL, two(b, OP_FLOOR_DIVIDE, x.least, divisor), two(b, OP_FLOOR_DIVIDE, x.most, divisor));
    int least = two(b, OP_MIN, zero, two(b, OP_ADD, divisor, one));
    int most = two(b, OP_MAX, zero, two(b, OP_SUBTRACT, divisor, one));
    return (struct bounds){tree_if(b->to, within, two(b, OP_MODULO, x.least, divisor), least),
                           tree_if(b->to, within, two(b, OP_MODULO, x.most, divisor), most)};
}

static struct bounds magnitude(struct bounder *b, const struct tree_node *n) {
    struct bounds x = bound(b, n->operand[0]);
    int minus_least = tree_one(b->to, OP_NEGATE, x.least), minus_most = tree_one(b->to, OP_NEGATE, x.most);
    int least = two(b, OP_MAX, two(b, OP_MAX, x.least, minus_most), tree_int(b->to, 0));
    return (struct bounds){least, two(b, OP_MAX, minus_least, x.most)};
}

static struct bounds tensor(struct bounder *b, const struct tree_node *n) {
    int box[TREE_OPERANDS];
    if (!b->tensors)
        return by_range(b, n);
    for (int i = 0; i < n->operands; i++) {
        struct bounds index = bound(b, n->operand[i]);
        box[2 * i] = index.least;
        box[2 * i + 1] = index.most;
    }
    return (struct bounds){tree_tensor(b->to, OP_LEAST, (int)n->number, box, 2 * n->operands),
                           tree_tensor(b->to, OP_MOST, (int)n->number, box, 2 * n->operands)};
}

/* Bounds of the branches that may be taken. Also works for conditions, where min is `and` and max is `or`. */
static struct bounds choose(struct bounder *b, const struct tree_node *n) {
    struct bounds condition = bound(b, n->operand[0]), x = bound(b, n->operand[1]), y = bound(b, n->operand[2]);
    bool logic = n->type == FORMULA_BOOL;
    int least = two(b, logic ? OP_AND : OP_MIN, x.least, y.least),
        most = two(b, logic ? OP_OR : OP_MAX, x.most, y.most);
    return (struct bounds){tree_if(b->to, condition.least, x.least, tree_if(b->to, condition.most, least, y.least)),
                           tree_if(b->to, condition.least, x.most, tree_if(b->to, condition.most, most, y.most))};
}

static struct bounds both_ways(struct bounder *b, struct bounds x) { /* not */
    return (struct bounds){negated(b, x.most), negated(b, x.least)};
}

static struct bounds equal(struct bounder *b, const struct tree_node *n) {
    struct bounds x = bound(b, n->operand[0]), y = bound(b, n->operand[1]);
    if (node_of(b, n->operand[0])->type == FORMULA_INT)
        return (struct bounds){
            two(b, OP_AND, two(b, OP_EQUAL, x.least, y.most), two(b, OP_EQUAL, x.most, y.least)),
            two(b, OP_AND, two(b, OP_LESS_EQUAL, x.least, y.most), two(b, OP_LESS_EQUAL, y.least, x.most))};
    int both = two(b, OP_AND, x.least, y.least), neither = negated(b, two(b, OP_OR, x.most, y.most));
    int some_both = two(b, OP_AND, x.most, y.most), some_neither = negated(b, two(b, OP_AND, x.least, y.least));
    return (struct bounds){two(b, OP_OR, both, neither), two(b, OP_OR, some_both, some_neither)};
}

static struct bounds compare(struct bounder *b, const struct tree_node *n) {
    if (node_of(b, n->operand[0])->type == FORMULA_REAL)
        return by_range(b, n);
    if (n->op == OP_EQUAL || n->op == OP_UNEQUAL) {
        struct bounds bounds = equal(b, n);
        return n->op == OP_EQUAL ? bounds : both_ways(b, bounds);
    }
    struct bounds x = bound(b, n->operand[0]), y = bound(b, n->operand[1]);
    return (struct bounds){two(b, n->op, x.most, y.least), two(b, n->op, x.least, y.most)};
}

static struct bounds by_operation(struct bounder *b, const struct tree_node *n) {
    struct bounds x, y;
    switch (n->op) {
    case OP_NAME: return b->name[n->number];
    case OP_AT: return tensor(b, n);
    case OP_IF: return choose(b, n);
    case OP_NOT: return both_ways(b, bound(b, n->operand[0]));
    case OP_LESS:
    case OP_LESS_EQUAL:
    case OP_EQUAL:
    case OP_UNEQUAL: return compare(b, n);
    case OP_NEGATE:
    case OP_COMPLEMENT:
        x = bound(b, n->operand[0]);
        return (struct bounds){tree_one(b->to, n->op, x.most), tree_one(b->to, n->op, x.least)};
    case OP_ABS: return magnitude(b, n);
    case OP_MULTIPLY: return multiply(b, n);
    case OP_FLOOR_DIVIDE: return divide(b, n);
    case OP_MODULO: return modulo(b, n);
    case OP_SHIFT_RIGHT:
        if (b->varies[n->operand[1]])
            return by_range(b, n);
        x = bound(b, n->operand[0]);
        y = bound(b, n->operand[1]);
        return (struct bounds){two(b, n->op, x.least, y.least), two(b, n->op, x.most, y.least)};
    case OP_AND:
    case OP_OR:
    case OP_ADD:
    case OP_MIN:
    case OP_MAX:
        x = bound(b, n->operand[0]);
        y = bound(b, n->operand[1]);
        return (struct bounds){two(b, n->op, x.least, y.least), two(b, n->op, x.most, y.most)};
    case OP_SUBTRACT:
        x = bound(b, n->operand[0]);
        y = bound(b, n->operand[1]);
        return (struct bounds){two(b, n->op, x.least, y.most), two(b, n->op, x.most, y.least)};
    default: return by_range(b, n);
    }
}

static struct bounds bound(struct bounder *b, int node) {
    const struct tree_node *n = node_of(b, node);
    struct bounds bounds;
    if (b->varies[node])
        bounds = by_operation(b, n);
    else
        bounds.least = bounds.most = tree_copy(b->to, b->from, node);
    if (bounds.least != NO_NODE && bounds.most != NO_NODE)
        return bounds;
    if (b->to->fault == TREE_NO_MEMORY)
        return bounds;
    b->to->fault = TREE_FINE; /* too long or too wide: fall back to the less precise range */
    return by_range(b, n);
}

/* Operands come before their operators, so one pass suffices. */
static bool find_varying(struct bounder *b) {
    b->varies = calloc((size_t)b->from->count, sizeof *b->varies);
    for (int i = 0; b->varies && i < b->from->count; i++) {
        const struct tree_node *n = node_of(b, i);
        b->varies[i] = (n->op == OP_NAME && b->name[n->number].least != NO_NODE) || (n->op == OP_AT && !b->tensors);
        for (int j = 0; j < n->operands; j++)
            b->varies[i] |= b->varies[n->operand[j]];
    }
    return b->varies != NULL;
}

static struct formula *bound_mask(const struct formula *mask, bool some) {
    struct bounder b = {.from = mask, .to = tree_derive(FORMULA_MASK, mask), .tensors = true};
    if (!b.to)
        return NULL;
    for (int i = 0; i < FORMULA_NAMES; i++)
        b.name[i].least = b.name[i].most = NO_NODE;
    b.name[FORMULA_Q] = (struct bounds){tree_name(b.to, FORMULA_Q_FIRST), tree_name(b.to, FORMULA_Q_LAST)};
    b.name[FORMULA_K] = (struct bounds){tree_name(b.to, FORMULA_K_FIRST), tree_name(b.to, FORMULA_K_LAST)};
    int anything = tree_bool(b.to, some); /* made first, so it always fits */
    if (find_varying(&b)) {
        struct bounds bounds = bound(&b, mask->root);
        b.to->root = some ? bounds.most : bounds.least;
        if (b.to->root == NO_NODE && b.to->fault != TREE_NO_MEMORY)
            b.to->root = anything;
    }
    free(b.varies);
    if (b.to->root != NO_NODE)
        return b.to;
    formula_free(b.to);
    return NULL;
}

bool formula_tile(const struct formula *mask, struct formula **some, struct formula **all) {
    *some = bound_mask(mask, true);
    *all = bound_mask(mask, false);
    if (*some && *all)
        return true;
    formula_free(*some);
    formula_free(*all);
    *some = *all = NULL;
    return false;
}

/* --- are tensor indices within their tensors? ------------------------------------------------------------------- */

static struct bounds up_to(struct formula *f, enum formula_name count) { /* 0 .. count - 1 */
    return (struct bounds){tree_int(f, 0), tree_two(f, OP_SUBTRACT, tree_name(f, count), tree_int(f, 1))};
}

static void name_bounds(struct bounder *b) {
    for (int i = 0; i < FORMULA_NAMES; i++)
        b->name[i].least = b->name[i].most = NO_NODE;
    b->name[FORMULA_B] = up_to(b->to, FORMULA_BATCH);
    b->name[FORMULA_H] = up_to(b->to, FORMULA_HEADS);
    b->name[FORMULA_HK] = up_to(b->to, FORMULA_KV_HEADS);
    b->name[FORMULA_K] = b->name[FORMULA_Q] = up_to(b->to, FORMULA_LEN_KV);
    b->name[FORMULA_Q].least = two(b, OP_SUBTRACT, tree_name(b->to, FORMULA_LEN_KV), tree_name(b->to, FORMULA_LEN_Q));
}

/* Counts every index of every tensor access below a node, once. */
static int count_indices(const struct formula *f, int node, bool *visited) {
    const struct tree_node *n = &f->node[node];
    int count = 0;
    if (visited[node])
        return 0;
    visited[node] = true;
    for (int i = 0; i < n->operands; i++)
        count += count_indices(f, n->operand[i], visited) + (n->op == OP_AT);
    return count;
}

static bool bound_access(struct bounder *b, struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    for (int i = 0; n->op == OP_AT && i < n->operands; i++) {
        struct bounds bounds = bound(b, n->operand[i]);
        if (bounds.least == NO_NODE || bounds.most == NO_NODE)
            return false;
        f->index[f->indices++] = (struct tree_index){(int)n->number, i, n->operand[i], bounds.least, bounds.most};
    }
    return true;
}

bool tree_bound_indices(struct formula *f) {
    bool *visited = calloc((size_t)f->count, sizeof *visited);
    int count = visited ? count_indices(f, f->root, visited) : 0;
    bool good = visited != NULL;
    if (count) {
        struct bounder b = {.from = f, .to = f->bounds = tree_derive(FORMULA_SIZE, f)};
        f->index = calloc((size_t)count, sizeof *f->index);
        good = f->bounds && f->index;
        if (good)
            name_bounds(&b);
        good = good && find_varying(&b);
        for (int i = 0; good && i < f->count; i++)
            good = !visited[i] || bound_access(&b, f, i);
        free(b.varies);
    }
    free(visited);
    return good;
}

static bool check_index(const struct formula *f, const struct tree_index *index, const struct formula_env *env,
                        char message[FORMULA_MESSAGE]) {
    struct formula least = *f->bounds, most = *f->bounds, itself = *f;
    least.root = index->least;
    most.root = index->most;
    itself.root = index->node;
    int64_t first = formula_integer(&least, env), last = formula_integer(&most, env);
    int64_t size = formula_dim(f->scope, index->param, index->dim, env);
    if (first >= 0 && last < size)
        return true;
    struct text text = {0};
    formula_print(&itself, &text);
    snprintf(message, FORMULA_MESSAGE,
             "index %d of %s, %.80s, may run from %" PRId64 " to %" PRId64 ", and that dimension has %" PRId64
             " elements; limit the index with clamp(.., .., ..)",
             index->dim + 1, f->scope->param[index->param].name, text_string(&text), first, last, size);
    text_free(&text);
    return false;
}

bool formula_check_indices(const struct formula *formula, const struct formula_env *env,
                           char message[FORMULA_MESSAGE]) {
    for (int i = FORMULA_BATCH; i <= FORMULA_LEN_KV; i++)
        if (env->name[i] == 0) /* nothing runs */
            return true;
    for (int i = 0; i < formula->indices; i++)
        if (!check_index(formula, &formula->index[i], env, message))
            return false;
    return true;
}
