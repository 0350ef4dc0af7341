/* formula_tree: the tree behind formula.h, shared by the files formula*.c only.

   All nodes are in one array, operands before their operator, each distinct node once: equal subtrees have equal
   numbers. `depth` bounds the depth of every walk, `weight` the length of a walk that revisits shared nodes. */
#ifndef ATTILE_FORMULA_TREE_H
#define ATTILE_FORMULA_TREE_H

#include "formula.h"

enum tree_op {
#define OP(name, symbol, binding, cuda, cuda_binding) OP_##name,
#include "formula_ops.def"
    OP_COUNT
};

struct tree_op_row {
    const char *symbol;
    int binding;
    const char *cuda;
    int cuda_binding;
};
extern const struct tree_op_row tree_ops[OP_COUNT];
extern const char *const tree_names[FORMULA_NAMES];

enum { NO_NODE = -1, TREE_OPERANDS = 2 * FORMULA_DIMS };
enum { TREE_WIDEST = 62 }; /* integers stay below 2^62 in magnitude */

struct tree_node {
    enum tree_op op;
    enum formula_type type;
    int operand[TREE_OPERANDS];
    int operands;
    int64_t number;
    float real;
    int64_t least, most; /* of bool and int: a range that the value cannot leave */
    int depth, weight;
};

enum tree_fault { TREE_FINE, TREE_NO_MEMORY, TREE_TOO_LONG, TREE_TOO_DEEP, TREE_TOO_WIDE };

/* An index of a tensor and its bounds: nodes of formula->bounds, over sizes and scalars. */
struct tree_index {
    int param, dim;
    int node; /* the index itself */
    int least, most;
};

struct formula {
    enum formula_kind kind;
    const struct formula_scope *scope;
    int root;
    int count, room;
    struct tree_node *node; /* owned */
    int weight_limit, depth_limit;
    enum tree_fault fault; /* the first one; every node after it is NO_NODE */
    /* Only for parsed formulas, so that a launch can check indices without allocating: */
    struct formula *bounds;   /* owned; null without indices */
    struct tree_index *index; /* owned */
    int indices;
};

struct formula *tree_new(enum formula_kind kind, const struct formula_scope *scope);

/* Makes a tree for formulas derived from another one: its limits are wider, since bounds contain everything twice. */
struct formula *tree_derive(enum formula_kind kind, const struct formula *from);

/* Makes a node, or an equivalent simpler one: constants are folded, `not` is pushed down, comparisons that ranges
   decide become constants. Types must fit: an integer next to a real is made real first. NO_NODE after a fault or if an
   operand is NO_NODE. */
int tree_int(struct formula *f, int64_t number);
int tree_real(struct formula *f, double real);
int tree_bool(struct formula *f, bool value);
int tree_name(struct formula *f, enum formula_name name);
int tree_score(struct formula *f);
int tree_scalar(struct formula *f, int param);
int tree_tensor(struct formula *f, enum tree_op access, int param, const int *index, int count);
int tree_one(struct formula *f, enum tree_op op, int a);
int tree_two(struct formula *f, enum tree_op op, int a, int b);
int tree_if(struct formula *f, int condition, int a, int b);

/* Sums and products in which NO_NODE stands for 0, so that no `0.0 +` remains. */
int tree_sum(struct formula *f, enum tree_op op, int a, int b);
int tree_scaled(struct formula *f, enum tree_op op, int a, int by);

/* Fills bounds and index. False if memory ran out. */
bool tree_bound_indices(struct formula *f);

/* Copies a subtree into another tree of the same scope. */
int tree_copy(struct formula *f, const struct formula *from, int node);

bool tree_is_int(const struct formula *f, int node, int64_t number);
bool tree_is_bool(const struct formula *f, int node, bool value);

/* Prints the shortest digits that give the same fp32 number, never in the form of an integer; inf if it is infinite. */
enum { TREE_DIGITS = 32 };
void tree_print_real(float real, char digits[TREE_DIGITS]);

bool tree_uses_score(const struct formula *f, int node);
bool tree_has(const struct formula *f, int node, int part); /* true if `part` is in the subtree */
int tree_find(const struct formula *f, enum tree_op op,
              int first); /* first such node from number `first` on, or NO_NODE */

/* Bit FORMULA_... set: the subtree uses this name. */
unsigned tree_names_of(const struct formula *f, int node);

/* The range of an integer operation over ranges; false if it could leave 64 bits. */
struct tree_range {
    int64_t least, most;
};
bool tree_range_one(enum tree_op op, struct tree_range a, struct tree_range *out);
bool tree_range_two(enum tree_op op, struct tree_range a, struct tree_range b, struct tree_range *out);

/* The results of the language for one pair of integers; only for results that fit into 64 bits. */
int64_t tree_floor_divide(int64_t a, int64_t b);
int64_t tree_modulo(int64_t a, int64_t b);
int64_t tree_shift(int64_t a, int64_t count, bool left);

#endif
