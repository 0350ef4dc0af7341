/* formula_tree: the tree behind formula.h, shared by the files formula*.c only.

   All nodes are in one array, operands before their operator, each different node once: equal subtrees have equal numbers.
   `depth` bounds every walk in depth, `weight` every walk that visits shared nodes again. */
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

/* An index of a tensor, and how far it can go: nodes of formula->bounds, over sizes and scalars. */
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
    enum tree_fault fault; /* the first; every node after it is NO_NODE */
    /* Of what was parsed, so that a launch need not allocate to check its indices: */
    struct formula *bounds;   /* owned; null without indices */
    struct tree_index *index; /* owned */
    int indices;
};

struct formula *tree_new(enum formula_kind kind, const struct formula_scope *scope);

/* A tree made of another one: its limits are wider, since bounds say everything twice. */
struct formula *tree_derive(enum formula_kind kind, const struct formula *from);

/* Make a node, or an equal and simpler one: constants are folded, `not` is pushed down, what a range decides is decided.
   Types must fit: an integer beside a real is made real first. NO_NODE after a fault, or when an operand is NO_NODE. */
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

/* Sums and products in which NO_NODE stands for 0, so that no `0.0 +` is left behind. */
int tree_sum(struct formula *f, enum tree_op op, int a, int b);
int tree_scaled(struct formula *f, enum tree_op op, int a, int by);

/* Fill bounds and index. False when memory ran out. */
bool tree_bound_indices(struct formula *f);

/* The same subtree in another tree of the same scope. */
int tree_copy(struct formula *f, const struct formula *from, int node);

bool tree_is_int(const struct formula *f, int node, int64_t number);
bool tree_is_bool(const struct formula *f, int node, bool value);

/* The shortest digits that give the same fp32 number, never like an integer; inf when it is infinite. */
enum { TREE_DIGITS = 32 };
void tree_print_real(float real, char digits[TREE_DIGITS]);

bool tree_uses_score(const struct formula *f, int node);
bool tree_has(const struct formula *f, int node, int part); /* is `part` in the subtree? */
int tree_find(const struct formula *f, enum tree_op op,
              int first); /* first such node from number `first` on, or NO_NODE */

/* Bit FORMULA_...: the subtree names it. */
unsigned tree_names_of(const struct formula *f, int node);

/* The range of an integer operation over ranges; false when it could leave 64 bits. */
struct tree_range {
    int64_t least, most;
};
bool tree_range_one(enum tree_op op, struct tree_range a, struct tree_range *out);
bool tree_range_two(enum tree_op op, struct tree_range a, struct tree_range b, struct tree_range *out);

/* What the language says about one pair of integers; for what cannot leave 64 bits. */
int64_t tree_floor_divide(int64_t a, int64_t b);
int64_t tree_modulo(int64_t a, int64_t b);
int64_t tree_shift(int64_t a, int64_t count, bool left);

#endif
