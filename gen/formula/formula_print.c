/* formula_print: tree -> canonical text. Brackets are printed only where the tree would be different without them. */
#include "formula_tree.h"

#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(const struct formula *f, int node, int least, struct text *text);

void tree_print_real(float real, char digits[TREE_DIGITS]) {
    if (isinf(real)) {
        snprintf(digits, TREE_DIGITS, real < 0 ? "-inf" : "inf");
        return;
    }
    if (fabsf(real) < 1e7f && real == floorf(real)) {
        snprintf(digits, TREE_DIGITS, "%.1f", (double)real);
        return;
    }
    for (int precision = 1; precision <= 9; precision++) {
        snprintf(digits, TREE_DIGITS, "%.*g", precision, (double)real);
        if ((float)strtod(digits, NULL) == real)
            break;
    }
    if (!strpbrk(digits, ".e"))
        strcat(digits, ".0");
}

/* An integer becomes real implicitly if the other operand is real; elsewhere real(..) is needed. */
static bool is_implied(const struct formula *f, const struct tree_node *n, int which) {
    if (n->op == OP_NEGATE || n->op == OP_ABS)
        return false;
    if (n->operands == 1 || (n->op == OP_DIVIDE && which == 1))
        return true;
    const struct tree_node *other = &f->node[n->operand[n->op == OP_IF ? 3 - which : 1 - which]];
    return other->type == FORMULA_REAL && other->op != OP_TO_REAL;
}

static void print_operand(const struct formula *f, const struct tree_node *n, int which, int least, struct text *text) {
    const struct tree_node *operand = &f->node[n->operand[which]];
    if (operand->op != OP_TO_REAL || is_implied(f, n, which)) {
        print(f, n->operand[which], least, text);
        return;
    }
    text_print(text, "real(");
    print(f, operand->operand[0], 0, text);
    text_print(text, ")");
}

static void print_arguments(const struct formula *f, const struct tree_node *n, const char *close, struct text *text) {
    for (int i = 0; i < n->operands; i++) {
        text_print(text, i ? ", " : "");
        print_operand(f, n, i, 0, text);
    }
    text_print(text, "%s", close);
}

static void print_operator(const struct formula *f, const struct tree_node *n, struct text *text) {
    const struct tree_op_row *row = &tree_ops[n->op];
    if (n->op == OP_IF) {
        print_operand(f, n, 1, row->binding + 1, text);
        text_print(text, " if ");
        print_operand(f, n, 0, row->binding + 1, text);
        text_print(text, " else ");
        print_operand(f, n, 2, row->binding, text);
    } else if (n->operands == 1) {
        text_print(text, n->op == OP_NOT ? "%s " : "%s", row->symbol);
        print_operand(f, n, 0, row->binding, text);
    } else { /* a comparison within a comparison would read as a chain */
        bool compares = n->op >= OP_LESS && n->op <= OP_UNEQUAL;
        print_operand(f, n, 0, row->binding + compares, text);
        text_print(text, " %s ", row->symbol);
        print_operand(f, n, 1, row->binding + 1, text);
    }
}

static void print(const struct formula *f, int node, int least, struct text *text) {
    const struct tree_node *n = &f->node[node];
    char digits[TREE_DIGITS];
    const char *param = n->op >= OP_SCALAR && n->op <= OP_MOST ? f->scope->param[n->number].name : "";
    switch (n->op) {
    case OP_INT: text_print(text, "%" PRId64, n->number); return;
    case OP_REAL:
        tree_print_real(n->real, digits);
        text_print(text, "%s", digits);
        return;
    case OP_BOOL: text_print(text, n->number ? "true" : "false"); return;
    case OP_NAME: text_print(text, "%s", tree_names[n->number]); return;
    case OP_SCORE: text_print(text, "s"); return;
    case OP_SCALAR: text_print(text, "%s", param); return;
    case OP_AT:
        text_print(text, "%s[", param);
        print_arguments(f, n, "]", text);
        return;
    case OP_LEAST:
    case OP_MOST:
        text_print(text, "%s(%s, ", n->op == OP_LEAST ? "least" : "most", param);
        print_arguments(f, n, ")", text);
        return;
    case OP_TO_REAL: print(f, n->operand[0], least, text); return;
    default: break;
    }
    if (!tree_ops[n->op].binding) {
        text_print(text, "%s(", tree_ops[n->op].symbol);
        print_arguments(f, n, ")", text);
        return;
    }
    bool brackets = tree_ops[n->op].binding < least;
    text_print(text, brackets ? "(" : "");
    print_operator(f, n, text);
    text_print(text, brackets ? ")" : "");
}

void formula_print(const struct formula *formula, struct text *text) { print(formula, formula->root, 0, text); }
