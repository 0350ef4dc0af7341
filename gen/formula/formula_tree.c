/* formula_tree: makes nodes. Every node is simplified and bounded; then an equal node is reused, or the node is
   added. */
#include "formula_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct tree_op_row tree_ops[OP_COUNT] = {
#define OP(name, symbol, binding, cuda, cuda_binding) [OP_##name] = {symbol, binding, cuda, cuda_binding},
#include "formula_ops.def"
};

const char *const tree_names[FORMULA_NAMES] = {
    [FORMULA_B] = "b",
    [FORMULA_H] = "h",
    [FORMULA_HK] = "hk",
    [FORMULA_Q] = "q",
    [FORMULA_K] = "k",
    [FORMULA_BATCH] = "batch",
    [FORMULA_HEADS] = "heads",
    [FORMULA_KV_HEADS] = "kv_heads",
    [FORMULA_LEN_Q] = "len_q",
    [FORMULA_LEN_KV] = "len_kv",
    [FORMULA_Q_FIRST] = "q_first",
    [FORMULA_Q_LAST] = "q_last",
    [FORMULA_K_FIRST] = "k_first",
    [FORMULA_K_LAST] = "k_last",
};

enum { CORNER = FORMULA_LENGTH + 1024 }; /* the last tile may reach over the end */

static const struct tree_range name_ranges[FORMULA_NAMES] = {
    [FORMULA_B] = {0, FORMULA_BATCHES - 1},
    [FORMULA_H] = {0, FORMULA_HEAD_COUNT - 1},
    [FORMULA_HK] = {0, FORMULA_HEAD_COUNT - 1},
    [FORMULA_Q] = {-FORMULA_LENGTH, FORMULA_LENGTH - 1},
    [FORMULA_K] = {0, FORMULA_LENGTH - 1},
    [FORMULA_BATCH] = {0, FORMULA_BATCHES},
    [FORMULA_HEADS] = {0, FORMULA_HEAD_COUNT},
    [FORMULA_KV_HEADS] = {0, FORMULA_HEAD_COUNT},
    [FORMULA_LEN_Q] = {0, FORMULA_LENGTH},
    [FORMULA_LEN_KV] = {0, FORMULA_LENGTH},
    [FORMULA_Q_FIRST] = {-FORMULA_LENGTH, CORNER},
    [FORMULA_Q_LAST] = {-FORMULA_LENGTH, CORNER},
    [FORMULA_K_FIRST] = {0, CORNER},
    [FORMULA_K_LAST] = {0, CORNER},
};

struct formula *tree_new(enum formula_kind kind, const struct formula_scope *scope) {
    struct formula *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->kind = kind;
    f->scope = scope;
    f->root = NO_NODE;
    f->weight_limit = FORMULA_NODES;
    f->depth_limit = FORMULA_DEPTH;
    return f;
}

struct formula *tree_derive(enum formula_kind kind, const struct formula *from) {
    struct formula *f = tree_new(kind, from->scope);
    if (!f)
        return NULL;
    f->weight_limit = 8 * FORMULA_NODES;
    f->depth_limit = 8 * FORMULA_DEPTH;
    return f;
}

void formula_free(struct formula *formula) {
    if (!formula)
        return;
    formula_free(formula->bounds);
    free(formula->index);
    free(formula->node);
    free(formula);
}

static int refuse(struct formula *f, enum tree_fault fault) {
    if (f->fault == TREE_FINE)
        f->fault = fault;
    return NO_NODE;
}

static bool same(const struct tree_node *a, const struct tree_node *b) {
    return a->op == b->op && a->type == b->type && a->number == b->number && a->operands == b->operands &&
           memcmp(&a->real, &b->real, sizeof a->real) == 0 &&
           memcmp(a->operand, b->operand, (size_t)a->operands * sizeof *a->operand) == 0;
}

/* Adds a node whose operands are in the tree, or finds the equal one. */
static int add(struct formula *f, struct tree_node node) {
    if (f->fault != TREE_FINE)
        return NO_NODE;
    node.depth = node.weight = 1;
    for (int i = 0; i < node.operands; i++) {
        const struct tree_node *operand = &f->node[node.operand[i]];
        node.weight += operand->weight;
        if (operand->depth >= node.depth)
            node.depth = operand->depth + 1;
    }
    if (node.weight > f->weight_limit)
        return refuse(f, TREE_TOO_LONG);
    if (node.depth > f->depth_limit)
        return refuse(f, TREE_TOO_DEEP);
    for (int i = f->count - 1; i >= 0; i--)
        if (same(&f->node[i], &node))
            return i;
    if (f->count == f->weight_limit) /* nodes that were simplified away count too */
        return refuse(f, TREE_TOO_LONG);
    if (f->count == f->room) {
        int room = f->room ? 2 * f->room : 16;
        struct tree_node *grown = realloc(f->node, (size_t)room * sizeof *grown);
        if (!grown)
            return refuse(f, TREE_NO_MEMORY);
        f->node = grown;
        f->room = room;
    }
    f->node[f->count] = node;
    return f->count++;
}

int tree_int(struct formula *f, int64_t number) {
    if (number <= -((int64_t)1 << TREE_WIDEST) || number >= (int64_t)1 << TREE_WIDEST)
        return refuse(f, TREE_TOO_WIDE);
    return add(
        f, (struct tree_node){.op = OP_INT, .type = FORMULA_INT, .number = number, .least = number, .most = number});
}

int tree_real(struct formula *f, double real) {
    return add(f, (struct tree_node){.op = OP_REAL, .type = FORMULA_REAL, .real = (float)real});
}

int tree_bool(struct formula *f, bool value) {
    return add(f,
               (struct tree_node){.op = OP_BOOL, .type = FORMULA_BOOL, .number = value, .least = value, .most = value});
}

int tree_name(struct formula *f, enum formula_name name) {
    return add(f, (struct tree_node){.op = OP_NAME,
                                     .type = FORMULA_INT,
                                     .number = name,
                                     .least = name_ranges[name].least,
                                     .most = name_ranges[name].most});
}

int tree_score(struct formula *f) { return add(f, (struct tree_node){.op = OP_SCORE, .type = FORMULA_REAL}); }

int tree_scalar(struct formula *f, int param) {
    enum formula_type type = f->scope->param[param].type;
    struct tree_node node = {.op = OP_SCALAR, .type = type, .number = param, .most = 1};
    if (type == FORMULA_INT) {
        node.least = -FORMULA_SCALAR;
        node.most = FORMULA_SCALAR;
    }
    return add(f, node);
}

int tree_tensor(struct formula *f, enum tree_op access, int param, const int *index, int count) {
    enum formula_type type = f->scope->param[param].type;
    struct tree_node node = {.op = access, .type = type, .number = param, .operands = count, .most = 1};
    for (int i = 0; i < count; i++) {
        if (index[i] == NO_NODE)
            return NO_NODE;
        node.operand[i] = index[i];
    }
    if (type == FORMULA_INT) {
        node.least = INT32_MIN;
        node.most = INT32_MAX;
    }
    return add(f, node);
}

static const struct tree_node *at(const struct formula *f, int node) { return &f->node[node]; }

bool tree_is_int(const struct formula *f, int node, int64_t number) {
    return node != NO_NODE && at(f, node)->op == OP_INT && at(f, node)->number == number;
}

bool tree_is_bool(const struct formula *f, int node, bool value) {
    return node != NO_NODE && at(f, node)->op == OP_BOOL && at(f, node)->number == value;
}

static bool is_real(const struct formula *f, int node, float real) {
    return at(f, node)->op == OP_REAL && at(f, node)->real == real;
}

/* Makes a node for the operation without simplifying it; its range may turn it into a constant. */
static int make(struct formula *f, enum tree_op op, enum formula_type type, int a, int b, int c) {
    struct tree_node node = {.op = op, .type = type, .operand = {a, b, c}};
    node.operands = c != NO_NODE ? 3 : b != NO_NODE ? 2 : 1;
    for (int i = node.operands; i < 3; i++)
        node.operand[i] = 0;
    struct tree_range left = {at(f, a)->least, at(f, a)->most}, right = {0, 0}, range = {0, 1};
    bool from_ints = at(f, a)->type != FORMULA_REAL;
    if (b != NO_NODE)
        right = (struct tree_range){at(f, b)->least, at(f, b)->most};
    if (op == OP_IF) {
        struct tree_range other = {at(f, c)->least, at(f, c)->most};
        range.least = right.least < other.least ? right.least : other.least;
        range.most = right.most > other.most ? right.most : other.most;
    } else if (op == OP_FLOOR) {
        range = (struct tree_range){INT32_MIN, INT32_MAX};
    } else if (type != FORMULA_REAL && from_ints) {
        if (!(b == NO_NODE ? tree_range_one(op, left, &range) : tree_range_two(op, left, right, &range)))
            return refuse(f, TREE_TOO_WIDE);
    }
    if (type != FORMULA_REAL && range.least == range.most)
        return type == FORMULA_INT ? tree_int(f, range.least) : tree_bool(f, range.least != 0);
    node.least = range.least;
    node.most = range.most;
    return add(f, node);
}

/* Pushes `not` down to where it costs nothing. An order of reals cannot be reversed: it is false for a NaN either
   way. */
static int make_not(struct formula *f, int a) {
    struct tree_node node = *at(f, a);
    switch (node.op) {
    case OP_NOT: return node.operand[0];
    case OP_EQUAL: return tree_two(f, OP_UNEQUAL, node.operand[0], node.operand[1]);
    case OP_UNEQUAL: return tree_two(f, OP_EQUAL, node.operand[0], node.operand[1]);
    case OP_AND:
    case OP_OR:
        return tree_two(f, node.op == OP_AND ? OP_OR : OP_AND, tree_one(f, OP_NOT, node.operand[0]),
                        tree_one(f, OP_NOT, node.operand[1]));
    case OP_LESS:
    case OP_LESS_EQUAL:
        if (at(f, node.operand[0])->type == FORMULA_INT)
            return tree_two(f, node.op == OP_LESS ? OP_LESS_EQUAL : OP_LESS, node.operand[1], node.operand[0]);
        break;
    default: break;
    }
    return make(f, OP_NOT, FORMULA_BOOL, a, NO_NODE, NO_NODE);
}

int tree_one(struct formula *f, enum tree_op op, int a) {
    if (a == NO_NODE)
        return NO_NODE;
    const struct tree_node *node = at(f, a);
    enum formula_type type = op == OP_NOT                      ? FORMULA_BOOL
                             : op == OP_FLOOR                  ? FORMULA_INT
                             : op == OP_ABS || op == OP_NEGATE ? node->type
                             : op == OP_COMPLEMENT             ? FORMULA_INT
                                                               : FORMULA_REAL;
    if (op == OP_NOT)
        return make_not(f, a);
    if (op == OP_NEGATE && node->op == OP_NEGATE)
        return node->operand[0];
    if (op == OP_NEGATE && node->op == OP_SUBTRACT && type == FORMULA_INT)
        return tree_two(f, OP_SUBTRACT, node->operand[1], node->operand[0]);
    if (op == OP_NEGATE && node->op == OP_REAL)
        return tree_real(f, -node->real);
    if (op == OP_TO_REAL && node->op == OP_INT)
        return tree_real(f, (double)node->number);
    if (op == OP_FLOOR && node->op == OP_TO_REAL && at(f, node->operand[0])->least >= INT32_MIN &&
        at(f, node->operand[0])->most <= INT32_MAX)
        return node->operand[0];
    if (op == OP_ABS && type == FORMULA_INT && node->least >= 0)
        return a;
    return make(f, op, type, a, NO_NODE, NO_NODE);
}

/* and, or: constants decide or vanish, and right-associated operands are regrouped from the left. */
static int make_logic(struct formula *f, enum tree_op op, int a, int b) {
    bool decides = op == OP_OR;
    if (tree_is_bool(f, a, decides) || tree_is_bool(f, b, !decides) || a == b)
        return a;
    if (tree_is_bool(f, b, decides) || tree_is_bool(f, a, !decides))
        return b;
    if (at(f, b)->op == op) {
        int first = at(f, b)->operand[0], second = at(f, b)->operand[1];
        return tree_two(f, op, tree_two(f, op, a, first), second);
    }
    return make(f, op, FORMULA_BOOL, a, b, NO_NODE);
}

/* max(min(x, y), x) is x, and so is min(max(x, y), x). */
static bool absorbs(const struct formula *f, enum tree_op op, int a, int b) {
    const struct tree_node *node = at(f, a);
    return node->op == (op == OP_MIN ? OP_MAX : OP_MIN) && (node->operand[0] == b || node->operand[1] == b);
}

static int make_int(struct formula *f, enum tree_op op, int a, int b) {
    const struct tree_node *x = at(f, a), *y = at(f, b);
    switch (op) {
    case OP_ADD:
        if (tree_is_int(f, a, 0))
            return b;
        if (tree_is_int(f, b, 0))
            return a;
        break;
    case OP_SUBTRACT:
        if (tree_is_int(f, b, 0))
            return a;
        if (a == b)
            return tree_int(f, 0);
        break;
    case OP_MULTIPLY:
        if (tree_is_int(f, a, 1))
            return b;
        if (tree_is_int(f, b, 1))
            return a;
        break;
    case OP_FLOOR_DIVIDE:
        if (tree_is_int(f, b, 1))
            return a;
        break;
    case OP_MODULO:
        if (x->least >= 0 && x->most < y->least)
            return a;
        break;
    case OP_MIN:
    case OP_MAX:
        if (a == b || (op == OP_MIN ? x->most <= y->least : x->least >= y->most))
            return a;
        if (op == OP_MIN ? y->most <= x->least : y->least >= x->most)
            return b;
        if (absorbs(f, op, a, b))
            return b;
        if (absorbs(f, op, b, a))
            return a;
        break;
    default: break;
    }
    return make(f, op, FORMULA_INT, a, b, NO_NODE);
}

/* Folding two fp32 constants rounds as the kernel would: once, to nearest. */
static int make_real(struct formula *f, enum tree_op op, int a, int b) {
    const struct tree_node *x = at(f, a), *y = at(f, b);
    if (x->op == OP_REAL && y->op == OP_REAL) {
        double u = (double)x->real, v = (double)y->real, folded = (double)NAN;
        switch (op) {
        case OP_ADD: folded = u + v; break;
        case OP_SUBTRACT: folded = u - v; break;
        case OP_MULTIPLY: folded = u * v; break;
        case OP_DIVIDE: folded = v != 0 ? u / v : folded; break;
        default: break;
        }
        if (!isnan(folded))
            return tree_real(f, folded);
    }
    if ((op == OP_MULTIPLY || op == OP_DIVIDE) && is_real(f, b, 1))
        return a;
    if (op == OP_MULTIPLY && is_real(f, a, 1))
        return b;
    return make(f, op, FORMULA_REAL, a, b, NO_NODE);
}

int tree_two(struct formula *f, enum tree_op op, int a, int b) {
    if (a == NO_NODE || b == NO_NODE)
        return NO_NODE;
    if (op == OP_AND || op == OP_OR)
        return make_logic(f, op, a, b);
    if (op >= OP_LESS && op <= OP_UNEQUAL)
        return make(f, op, FORMULA_BOOL, a, b, NO_NODE);
    return at(f, a)->type == FORMULA_INT ? make_int(f, op, a, b) : make_real(f, op, a, b);
}

int tree_if(struct formula *f, int condition, int a, int b) {
    if (condition == NO_NODE || a == NO_NODE || b == NO_NODE)
        return NO_NODE;
    if (at(f, condition)->op == OP_BOOL)
        return at(f, condition)->number ? a : b;
    if (a == b)
        return a;
    return make(f, OP_IF, at(f, a)->type, condition, a, b);
}

int tree_copy(struct formula *f, const struct formula *from, int node) {
    struct tree_node copy = from->node[node];
    for (int i = 0; i < copy.operands; i++) {
        copy.operand[i] = tree_copy(f, from, copy.operand[i]);
        if (copy.operand[i] == NO_NODE)
            return NO_NODE;
    }
    return add(f, copy);
}

int tree_sum(struct formula *f, enum tree_op op, int a, int b) {
    if (b == NO_NODE)
        return a;
    if (a == NO_NODE)
        return op == OP_SUBTRACT ? tree_one(f, OP_NEGATE, b) : b;
    return tree_two(f, op, a, b);
}

int tree_scaled(struct formula *f, enum tree_op op, int a, int by) {
    return a == NO_NODE ? NO_NODE : tree_two(f, op, a, by);
}

unsigned tree_names_of(const struct formula *f, int node) {
    const struct tree_node *n = at(f, node);
    unsigned names = n->op == OP_NAME ? 1u << n->number : 0;
    for (int i = 0; i < n->operands; i++)
        names |= tree_names_of(f, n->operand[i]);
    return names;
}

enum formula_type formula_type(const struct formula *formula) { return formula->node[formula->root].type; }
