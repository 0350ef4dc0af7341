/* formula_say: questions about a whole formula: what it names, whether it says anything, whether it is a word of the
   table, and a score as factor * s + rest. */
#include "formula_tree.h"

#include <string.h>

enum formula_type formula_type(const struct formula *formula) { return formula->node[formula->root].type; }

unsigned formula_names(const struct formula *formula) { return tree_names_of(formula, formula->root); }

static unsigned params_below(const struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    unsigned params = n->op >= OP_SCALAR && n->op <= OP_MOST ? 1u << n->number : 0;
    for (int i = 0; i < n->operands; i++)
        params |= params_below(f, n->operand[i]);
    return params;
}

unsigned formula_params(const struct formula *formula) { return params_below(formula, formula->root); }

static bool uses_score(const struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    bool uses = n->op == OP_SCORE;
    for (int i = 0; i < n->operands && !uses; i++)
        uses = uses_score(f, n->operand[i]);
    return uses;
}

bool formula_uses_score(const struct formula *formula) { return uses_score(formula, formula->root); }

bool formula_is_none(const struct formula *formula) {
    return formula->kind == FORMULA_SCORE ? formula->node[formula->root].op == OP_SCORE
                                          : tree_is_bool(formula, formula->root, true);
}

const char *formula_word(const struct formula *formula) {
    const char *word = NULL;
    struct text said = {0};
    formula_print(formula, &said);
    for (int i = 0; i < formula_table_count && !word; i++) {
        const struct formula_entry *entry = &formula_table[i];
        if (entry->kind != formula->kind || entry->params[0])
            continue;
        struct diag diag = {0};
        struct text text = {0};
        struct formula *other =
            formula_parse(entry->kind, (struct place){0}, entry->text, strlen(entry->text), NULL, &diag);
        if (other)
            formula_print(other, &text);
        if (other && strcmp(text_string(&text), text_string(&said)) == 0 && !text.failed && !said.failed)
            word = entry->name;
        formula_free(other);
        text_free(&text);
        diag_free(&diag);
    }
    text_free(&said);
    return word;
}

/* --- factor * s + rest */

struct split { /* NO_NODE = 1 as a factor of nothing else, 0 as a rest: see `none` */
    int factor, rest;
    bool good;
};

/* What is absent stays absent, so that no `0.0 +` and `1.0 *` are left behind. */
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

static struct split split(struct formula *f, const struct formula *from, int node) {
    const struct tree_node *n = &from->node[node];
    const struct split no = {NO_NODE, NO_NODE, false};
    if (!uses_score(from, node)) {
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
