/* expr_tree: the tree behind expr.h, shared by the files expr*.c only.

   All nodes are in one array, operands before their operator; `depth` bounds every walk over the tree. */
#ifndef ATTILE_EXPR_TREE_H
#define ATTILE_EXPR_TREE_H

#include "expr.h"

enum { TREE_NODES = 512, TREE_DEPTH = 64, NONE = -1 };

enum tree_op {
    TREE_INT,   /* number */
    TREE_BOOL,  /* number */
    TREE_NAME,  /* an identifier that is not resolved yet: size bytes at offset */
    TREE_WORD,  /* number, within type.words */
    TREE_KNOB,  /* number: enum knob_id */
    TREE_SLOT,  /* number: index of the name */
    TREE_SHAPE, /* number: enum shape_id */
    TREE_LIST,  /* left: first TREE_ITEM */
    TREE_ITEM,  /* left: the value, right: next item or NONE */
    TREE_NOT,
    TREE_NEGATE,
    TREE_OR,
    TREE_AND,
    TREE_EQUAL,
    TREE_UNEQUAL,
    TREE_LESS,
    TREE_LESS_EQUAL,
    TREE_GREATER,
    TREE_GREATER_EQUAL,
    TREE_IN,
    TREE_NOT_IN,
    TREE_ADD,
    TREE_SUBTRACT,
    TREE_MULTIPLY,
    TREE_DIVIDE,
    TREE_MODULO,
    TREE_MIN,
    TREE_MAX
};

struct tree_node {
    enum tree_op op;
    int left, right;  /* operands, or NONE */
    int depth;        /* 1 for a leaf */
    int offset, size; /* of the token in the text, for the caret */
    struct expr_type type;
    int64_t number;
};

struct expr {
    struct place place; /* of text[0] */
    char *text;         /* owned copy, NUL-terminated */
    knob_flags knobs;
    int root;
    int count;
    struct tree_node *node; /* owned */
    const char **words;     /* owned: the word list of a list of free words, null-terminated; else null */
    char *word_text;        /* owned: the text that `words` points into */
};

struct place tree_place(const struct expr *expr, int offset);

/* Resolves names and checks types; false after an error. */
bool tree_check(struct expr *expr, unsigned wanted, const struct expr_scope *scope, struct diag *diag);

#endif
