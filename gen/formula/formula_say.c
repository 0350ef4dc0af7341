/* formula_say: queries on a whole formula: what it names, whether it does anything, whether it is a word of the
   table. */
#include "formula_tree.h"

#include <string.h>

unsigned formula_names(const struct formula *formula) { return tree_names_of(formula, formula->root); }

static unsigned params_below(const struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    unsigned params = n->op >= OP_SCALAR && n->op <= OP_MOST ? 1u << n->number : 0;
    for (int i = 0; i < n->operands; i++)
        params |= params_below(f, n->operand[i]);
    return params;
}

unsigned formula_params(const struct formula *formula) { return params_below(formula, formula->root); }

bool tree_uses_score(const struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    bool uses = n->op == OP_SCORE;
    for (int i = 0; i < n->operands && !uses; i++)
        uses = tree_uses_score(f, n->operand[i]);
    return uses;
}

bool tree_has(const struct formula *f, int node, int part) {
    bool has = node == part;
    for (int i = 0; i < f->node[node].operands && !has; i++)
        has = tree_has(f, f->node[node].operand[i], part);
    return has;
}

int tree_find(const struct formula *f, enum tree_op op, int first) {
    for (int i = first; i < f->count; i++)
        if (f->node[i].op == op)
            return i;
    return NO_NODE;
}

bool formula_uses_score(const struct formula *formula) { return tree_uses_score(formula, formula->root); }

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
