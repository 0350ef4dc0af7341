/* expr_check: gives every node of a tree its type and every name its meaning. A word has no meaning by itself: a name
   that is neither a knob, a let nor a size stays open until it meets an operand with a word list. */
#include "expr_tree.h"
#include "renamed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checker {
    struct expr *expr;
    const struct expr_scope *scope;
    struct diag *diag;
};

static struct tree_node *node_at(struct checker *c, int node) { return &c->expr->node[node]; }
static const char *spelling(struct checker *c, const struct tree_node *n) { return c->expr->text + n->offset; }

static bool same_words(const char *const *a, const char *const *b) {
    if (a == b || !a || !b)
        return a == b;
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}

static bool same_type(struct expr_type a, struct expr_type b) {
    return a.kind == b.kind && (a.kind != EXPR_WORD || same_words(a.words, b.words));
}

/* Returns the knob that owns a word list, or -1. */
static int owner_id(const char *const *words) {
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].words == words)
            return id;
    return -1;
}

static const char *owner_of(const char *const *words) {
    int id = words ? owner_id(words) : -1;
    return id < 0 ? NULL : knob_table[id].name;
}

/* Prints "an integer" or "a word of mask"; 64 bytes are enough for any knob. */
static const char *describe(struct expr_type type, char *out, size_t size) {
    const char *owner = type.kind == EXPR_WORD ? owner_of(type.words) : NULL;
    const char *kind = type.kind == EXPR_INT    ? "an integer"
                       : type.kind == EXPR_BOOL ? "true or false"
                       : type.kind == EXPR_LIST ? "a list"
                                                : "a word";
    snprintf(out, size, "%s%s%s", kind, owner ? " of " : "", owner ? owner : "");
    return out;
}

struct candidates {
    const struct expr_scope *scope;
    const char *const *words; /* if set, only these */
    int next;
};

static const char *next_candidate(void *context) {
    struct candidates *c = context;
    if (c->words)
        return c->words[c->next] ? c->words[c->next++] : NULL;
    while (c->next < KNOB_COUNT + c->scope->count + SHAPE_COUNT) {
        int i = c->next++;
        if (i < KNOB_COUNT)
            return knob_table[i].name;
        i -= KNOB_COUNT;
        if (i < c->scope->count) {
            if (c->scope->names[i].name)
                return c->scope->names[i].name;
            continue;
        }
        i -= c->scope->count;
        if (c->scope->families & shape_table[i].families)
            return shape_table[i].name;
    }
    return NULL;
}

/* Returns a knob that has this word, or -1. */
static int knob_with(const char *word, size_t size) {
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_word((enum knob_id)id, word, size) >= 0)
            return id;
    return -1;
}

static bool refuse_name(struct checker *c, const struct tree_node *n) {
    const char *name = spelling(c, n);
    struct place place = tree_place(c->expr, n->offset);
    int shape = shape_find(name, (size_t)n->size), knob = knob_with(name, (size_t)n->size);
    if (knob >= 0)
        diag_error(c->diag, place, "the word '%.*s' means something beside its knob only, as in %s == %.*s", n->size,
                   name, knob_table[knob].name, n->size, name);
    else if (shape >= 0 && !c->scope->families)
        diag_error(c->diag, place, "%s is a run-time size: only grid, workspace and splits of a template may use it",
                   shape_table[shape].name);
    else if (shape >= 0)
        diag_error(c->diag, place, "%s is not a size of this kernel family", shape_table[shape].name);
    else if (renamed_knob(name, (size_t)n->size, place, c->diag) < 0 &&
             !renamed_word(-1, name, (size_t)n->size, place, c->diag)) {
        const char *near = diag_nearest(name, (size_t)n->size, next_candidate, &(struct candidates){c->scope, NULL, 0});
        diag_error(c->diag, place, near ? "unknown name '%.*s'; did you mean '%s'?" : "unknown name '%.*s'", n->size,
                   name, near);
    }
    return false;
}

/* Resolves an open name to its index in a word list. */
static bool resolve_word(struct checker *c, int node, const char *const *words) {
    struct tree_node *n = node_at(c, node);
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == (size_t)n->size && memcmp(words[i], spelling(c, n), (size_t)n->size) == 0) {
            n->op = TREE_WORD;
            n->number = i;
            n->type = (struct expr_type){EXPR_WORD, words};
            return true;
        }
    int knob = owner_id(words);
    if (knob >= 0 && renamed_word(knob, spelling(c, n), (size_t)n->size, tree_place(c->expr, n->offset), c->diag))
        return false;
    const char *near =
        diag_nearest(spelling(c, n), (size_t)n->size, next_candidate, &(struct candidates){c->scope, words, 0});
    struct text all = {0};
    for (int i = 0; words[i]; i++)
        text_print(&all, i ? ", %s" : "%s", words[i]);
    const char *owner = owner_of(words);
    diag_error(c->diag, tree_place(c->expr, n->offset), "unknown word '%.*s'%s%s; %s%s%s", n->size, spelling(c, n),
               owner ? " of knob " : "", owner ? owner : "", near ? "did you mean '" : "it has ",
               near ? near : text_string(&all), near ? "'?" : "");
    text_free(&all);
    return false;
}

/* Resolves a name that is not a word. */
static void resolve_name(struct checker *c, int node) {
    struct tree_node *n = node_at(c, node);
    const char *name = spelling(c, n);
    size_t size = (size_t)n->size;
    for (int i = 0; i < c->scope->count; i++) {
        const struct expr_name *known = &c->scope->names[i];
        if (known->name && text_equals(name, size, known->name)) {
            n->op = TREE_SLOT;
            n->number = i;
            n->type = known->type;
            return;
        }
    }
    int knob = knob_find(name, size);
    if (knob >= 0) {
        n->op = TREE_KNOB;
        n->number = knob;
        n->type.kind = knob_table[knob].kind == KNOB_KIND_INT ? EXPR_INT : EXPR_WORD;
        n->type.words = knob_table[knob].words;
        c->expr->knobs |= KNOB_FLAG(knob);
        return;
    }
    int shape = shape_find(name, size);
    if (shape >= 0 && (shape_table[shape].families & c->scope->families)) {
        n->op = TREE_SHAPE;
        n->number = shape;
        n->type.kind = EXPR_INT;
    }
}

static bool is_open(struct checker *c, int node) { return node_at(c, node)->op == TREE_NAME; }

static bool check(struct checker *c, int node);

/* Checks an operand that must have the kind `kind`. */
static bool check_operand(struct checker *c, int node, enum expr_kind kind, const struct tree_node *operator) {
    char found[64], wanted[64];
    if (!check(c, node))
        return false;
    const struct tree_node *n = node_at(c, node);
    if (n->op == TREE_NAME)
        return refuse_name(c, n);
    if (n->type.kind == kind)
        return true;
    diag_error(c->diag, tree_place(c->expr, n->offset),
               "'%.*s' takes %s, and this is %s", operator->op == TREE_NOT ? 3 : operator->size, spelling(c, operator),
               describe((struct expr_type){kind, NULL}, wanted, sizeof wanted), describe(n->type, found, sizeof found));
    return false;
}

static bool refuse_mix(struct checker *c, int offset, struct expr_type a, struct expr_type b) {
    char left[64], right[64];
    diag_error(c->diag, tree_place(c->expr, offset), "cannot compare %s with %s", describe(a, left, sizeof left),
               describe(b, right, sizeof right));
    return false;
}

/* Checks == and !=: both values must have one type; an open name on one side is a word of the other side's list. */
static bool check_equality(struct checker *c, int node) {
    struct tree_node *n = node_at(c, node);
    if (!check(c, n->left) || !check(c, n->right))
        return false;
    for (int side = 0; side < 2; side++) {
        int here = side ? n->right : n->left, other = side ? n->left : n->right;
        struct expr_type type = node_at(c, other)->type;
        if (!is_open(c, here))
            continue;
        if (is_open(c, other) || type.kind != EXPR_WORD)
            return refuse_name(c, node_at(c, here));
        if (!resolve_word(c, here, type.words))
            return false;
    }
    struct expr_type a = node_at(c, n->left)->type, b = node_at(c, n->right)->type;
    if (a.kind == EXPR_LIST || !same_type(a, b))
        return refuse_mix(c, n->offset, a, b);
    n->type.kind = EXPR_BOOL;
    return true;
}

/* Checks the items of a list; each must have type `type`. */
static bool check_items(struct checker *c, int list, struct expr_type type) {
    for (int item = node_at(c, list)->left; item != NONE; item = node_at(c, item)->right) {
        int value = node_at(c, item)->left;
        if (!check(c, value))
            return false;
        if (is_open(c, value) && type.kind == EXPR_WORD) {
            if (!resolve_word(c, value, type.words))
                return false;
        } else if (is_open(c, value)) {
            return refuse_name(c, node_at(c, value));
        }
        const struct tree_node *n = node_at(c, value);
        if (n->type.kind == EXPR_LIST || !same_type(type, n->type))
            return refuse_mix(c, n->offset, type, n->type);
    }
    node_at(c, list)->type = type; /* a list node has the type of its items; its op marks it as a list */
    return true;
}

static bool check_in(struct checker *c, int node) {
    struct tree_node *n = node_at(c, node);
    if (!check(c, n->left))
        return false;
    if (is_open(c, n->left))
        return refuse_name(c, node_at(c, n->left));
    if (node_at(c, n->right)->op != TREE_LIST) {
        diag_error(c->diag, tree_place(c->expr, node_at(c, n->right)->offset), "'in' takes a list, as in [64, 128]");
        return false;
    }
    if (!check_items(c, n->right, node_at(c, n->left)->type))
        return false;
    n->type.kind = EXPR_BOOL;
    return true;
}

/* Recursion is bounded by TREE_DEPTH, which the parser enforces. */
static bool check(struct checker *c, int node) {
    struct tree_node *n = node_at(c, node);
    switch (n->op) {
    case TREE_INT: n->type.kind = EXPR_INT; return true;
    case TREE_BOOL: n->type.kind = EXPR_BOOL; return true;
    case TREE_NAME: resolve_name(c, node); return true;
    case TREE_WORD: /* already resolved: the first item of a list is checked twice */
    case TREE_KNOB:
    case TREE_SLOT:
    case TREE_SHAPE: return true;
    case TREE_LIST: n->type.kind = EXPR_LIST; return true;
    case TREE_EQUAL:
    case TREE_UNEQUAL: return check_equality(c, node);
    case TREE_IN:
    case TREE_NOT_IN: return check_in(c, node);
    case TREE_NOT:
    case TREE_AND:
    case TREE_OR:
        n->type.kind = EXPR_BOOL;
        return check_operand(c, n->left, EXPR_BOOL, n) &&
               (n->right == NONE || check_operand(c, n->right, EXPR_BOOL, n));
    default: {
        bool compares = n->op >= TREE_LESS && n->op <= TREE_GREATER_EQUAL;
        n->type.kind = compares ? EXPR_BOOL : EXPR_INT;
        return check_operand(c, n->left, EXPR_INT, n) && (n->right == NONE || check_operand(c, n->right, EXPR_INT, n));
    }
    }
}

/* Makes a list of words that belong to no knob its own word list. */
static bool make_words(struct checker *c, int list) {
    struct expr *expr = c->expr;
    size_t count = 0, length = strlen(expr->text);
    for (int item = node_at(c, list)->left; item != NONE; item = node_at(c, item)->right)
        count++;
    expr->words = calloc(count + 1, sizeof *expr->words);
    expr->word_text = malloc(length + 1);
    if (!expr->words || !expr->word_text) {
        diag_error(c->diag, expr->place, "out of memory");
        return false;
    }
    memcpy(expr->word_text, expr->text, length + 1);
    count = 0;
    for (int item = node_at(c, list)->left; item != NONE; item = node_at(c, item)->right) {
        const struct tree_node *value = node_at(c, node_at(c, item)->left);
        if (value->op != TREE_NAME)
            continue; /* check_items reports the error */
        char *word = expr->word_text + value->offset;
        word[value->size] = '\0';
        expr->words[count++] = word;
    }
    return true;
}

/* Checks the list of a `for`: its first item determines the type. */
static bool check_loop_list(struct checker *c, int list) {
    int first = node_at(c, node_at(c, list)->left)->left;
    if (!check(c, first))
        return false;
    if (!is_open(c, first))
        return check_items(c, list, node_at(c, first)->type);
    return make_words(c, list) && check_items(c, list, (struct expr_type){EXPR_WORD, c->expr->words});
}

bool tree_check(struct expr *expr, unsigned wanted, const struct expr_scope *scope, struct diag *diag) {
    static const struct expr_scope knobs_only;
    struct checker c = {expr, scope ? scope : &knobs_only, diag};
    struct tree_node *root = &expr->node[expr->root];
    bool is_list = root->op == TREE_LIST;
    if (is_list && (wanted & EXPR_LIST))
        return check_loop_list(&c, expr->root);
    if (!check(&c, expr->root))
        return false;
    if (root->op == TREE_NAME)
        return c.scope->words ? resolve_word(&c, expr->root, c.scope->words) : refuse_name(&c, root);
    if (wanted & root->type.kind)
        return true;
    char found[64];
    const char *expected = wanted == EXPR_BOOL   ? "a condition, as in head_dim % 16 == 0"
                           : wanted == EXPR_INT  ? "an integer"
                           : wanted == EXPR_LIST ? "a list, as in [64, 128]"
                           : wanted == EXPR_WORD ? "a knob, a fact or a let whose value is a word"
                                                 : "one value";
    diag_error(diag, tree_place(expr, root->offset), "expected %s; this is %s", expected,
               describe(root->type, found, sizeof found));
    return false;
}
