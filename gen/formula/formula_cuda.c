/* formula_cuda: tree -> a C++ expression with the same meaning, in 32-bit integers where the ranges allow it, otherwise
   64-bit integers, and fp32. It uses CUDA operators where they mean the same; where the language differs (floor
   division, NaN in min and max), it calls a helper function. */
#include "formula_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOSEST = 0,
    TERNARY = 2,
    BITS_OR = 5,
    BITS_AND = 7,
    EQUALITY = 8,
    SHIFT = 10,
    FACTOR = 12,
    UNARY = 13,
    PRIMARY = 14
};

struct printer {
    const struct formula *formula;
    const struct formula_spelling *spelling;
    struct text *text;
};

static bool fits_int(const struct tree_node *n) { return n->least >= INT32_MIN && n->most <= INT32_MAX; }

/* True if the printed expression of this integer is a long long. Bounded like every walk over the tree. */
static bool is_wide(const struct formula *f, int node) {
    const struct tree_node *n = &f->node[node];
    if (n->type != FORMULA_INT || n->op == OP_AT || n->op == OP_LEAST || n->op == OP_MOST || n->op == OP_FLOOR)
        return false;
    if (!fits_int(n))
        return true;
    for (int i = n->op == OP_IF ? 1 : 0; i < n->operands; i++)
        if (is_wide(f, n->operand[i]))
            return true;
    return false;
}

static void print(const struct printer *p, int node, int least);

/* Prints an integer operand as long long. */
static void print_wide(const struct printer *p, int node, int least) {
    const struct tree_node *n = &p->formula->node[node];
    if (n->op == OP_INT) {
        text_print(p->text, "%" PRId64 "LL", n->number);
    } else if (is_wide(p->formula, node)) {
        print(p, node, least);
    } else {
        text_print(p->text, "static_cast<long long>(");
        print(p, node, LOOSEST);
        text_print(p->text, ")");
    }
}

static void print_either(const struct printer *p, int node, int least, bool wide) {
    wide ? print_wide(p, node, least) : print(p, node, least);
}

static void print_int(const struct printer *p, int64_t number) {
    if (number == INT32_MIN)
        text_print(p->text, "(-2147483647 - 1)");
    else
        text_print(p->text, number > INT32_MIN && number <= INT32_MAX ? "%" PRId64 : "%" PRId64 "LL", number);
}

static void print_real(const struct printer *p, float real) {
    char digits[TREE_DIGITS];
    tree_print_real(real, digits);
    text_print(p->text, isinf(real) ? real < 0 ? "-INFINITY" : "INFINITY" : "%sf", digits);
}

/* Prints a parameter as the spelling says, or as NAME_at(p, i, j), NAME_least(p, i_first, i_last), p.NAME. */
static void print_param(const struct printer *p, const struct tree_node *n) {
    const struct formula_param *param = &p->formula->scope->param[n->number];
    enum formula_access access = n->op == OP_LEAST ? FORMULA_LEAST : n->op == OP_MOST ? FORMULA_MOST : FORMULA_AT;
    struct text index[TREE_OPERANDS] = {0};
    const char *strings[TREE_OPERANDS] = {0};
    for (int i = 0; i < n->operands; i++) {
        struct printer inner = {p->formula, p->spelling, &index[i]};
        print(&inner, n->operand[i], TERNARY);
        strings[i] = text_string(&index[i]);
        p->text->failed |= index[i].failed;
    }
    if (p->spelling->param) {
        p->spelling->param(p->spelling->context, param, access, strings, p->text);
    } else if (n->op == OP_SCALAR) {
        text_print(p->text, "p.%s", param->name);
    } else {
        static const char *const suffixes[] = {"at", "least", "most"};
        text_print(p->text, "%s_%s(p", param->name, suffixes[access]);
        for (int i = 0; i < n->operands; i++)
            text_print(p->text, ", %s", strings[i]);
        text_print(p->text, ")");
    }
    for (int i = 0; i < n->operands; i++)
        text_free(&index[i]);
}

static void print_call(const struct printer *p, const char *function, const struct tree_node *n, bool wide) {
    text_print(p->text, "%s(", function);
    for (int i = 0; i < n->operands; i++) {
        text_print(p->text, i ? ", " : "");
        print_either(p, n->operand[i], TERNARY, wide);
    }
    text_print(p->text, ")");
}

/* log2 of a positive power of two, or -1. */
static int exponent(const struct tree_node *n) {
    if (n->op != OP_INT || n->number <= 0 || (n->number & (n->number - 1)))
        return -1;
    int e = 0;
    while (n->number >> e != 1)
        e++;
    return e;
}

/* The C++ form of an operation: an operator with its binding, or a function (binding PRIMARY). */
struct form {
    const char *symbol;
    int binding;
};

static struct form form_of(const struct formula *f, const struct tree_node *n) {
    struct form form = {tree_ops[n->op].cuda, tree_ops[n->op].cuda_binding};
    const struct tree_node *a = &f->node[n->operand[0]], *b = &f->node[n->operand[1]];
    bool real = a->type == FORMULA_REAL;
    if (n->op == OP_FLOOR_DIVIDE || n->op == OP_MODULO) {
        bool divides = n->op == OP_FLOOR_DIVIDE;
        if (exponent(b) >= 0)
            form = divides ? (struct form){">>", SHIFT} : (struct form){"&", tree_ops[OP_AND_BITS].cuda_binding};
        else if (a->least >= 0 && b->least > 0) /* C rounds toward 0, which is down here */
            form = divides ? (struct form){"/", FACTOR} : (struct form){"%", FACTOR};
    } else if (n->op == OP_SHIFT_LEFT || n->op == OP_SHIFT_RIGHT) {
        if (b->least < 0 || b->most > (fits_int(n) && fits_int(a) ? 31 : 63))
            form = (struct form){n->op == OP_SHIFT_LEFT ? "shift_left" : "shift_right", 0};
    } else if (n->op == OP_MIN || n->op == OP_MAX) {
        if (real)
            form.symbol = n->op == OP_MIN ? "min_or_nan" : "max_or_nan";
    } else if (n->op == OP_ABS && real) {
        form.symbol = "fabsf";
    }
    if (!form.binding)
        form.binding = PRIMARY;
    return form;
}

static const char *symbol_of(const struct printer *p, enum tree_op op) {
    bool eager = p->spelling->eager && (op == OP_AND || op == OP_OR);
    return tree_ops[!eager ? op : op == OP_AND ? OP_AND_BITS : OP_OR_BITS].cuda;
}

/* Returns the least binding that an operand of an operator with this binding may have without brackets. Some brackets
   are only for readers. */
static int least_within(int binding) {
    if (binding == tree_ops[OP_OR].cuda_binding) /* a && b || c */
        return tree_ops[OP_AND].cuda_binding + 1;
    if (binding >= BITS_OR && binding <= BITS_AND)
        return UNARY;
    if (binding == EQUALITY || binding == EQUALITY + 1)
        return SHIFT;
    return binding == SHIFT ? UNARY : binding;
}

static void print_operation(const struct printer *p, const struct tree_node *n, struct form form) {
    const struct formula *f = p->formula;
    bool wide = false; /* 64-bit operands, because the result or one of them needs it */
    for (int i = n->op == OP_IF ? 1 : 0; i < n->operands; i++)
        wide |= is_wide(f, n->operand[i]);
    wide |= n->type == FORMULA_INT && !fits_int(n);
    int e = n->operands == 2 ? exponent(&f->node[n->operand[1]]) : -1;
    if (n->op == OP_IF) {
        print(p, n->operand[0], TERNARY + 1);
        text_print(p->text, " ? ");
        print_either(p, n->operand[1], TERNARY + 1, wide);
        text_print(p->text, " : ");
        print_either(p, n->operand[2], TERNARY, wide);
    } else if (n->op == OP_TO_REAL) {
        text_print(p->text, "static_cast<float>(");
        print(p, n->operand[0], LOOSEST);
        text_print(p->text, ")");
    } else if (form.binding == PRIMARY) {
        print_call(p, form.symbol, n, wide && n->op != OP_FLOOR);
    } else if (n->operands == 1) {
        text_print(p->text, "%s", form.symbol);
        print_either(p, n->operand[0], UNARY + 1, wide); /* - -x must not become --x */
    } else if (e >= 0 && (n->op == OP_FLOOR_DIVIDE || n->op == OP_MODULO)) {
        print_either(p, n->operand[0], least_within(form.binding), wide);
        text_print(p->text, " %s ", form.symbol);
        print_int(p, n->op == OP_MODULO ? f->node[n->operand[1]].number - 1 : e);
    } else {
        int least = least_within(form.binding);
        print_either(p, n->operand[0], least, wide);
        text_print(p->text, " %s ", form.symbol);
        print_either(p, n->operand[1], least == form.binding ? least + 1 : least, wide);
    }
}

static void print(const struct printer *p, int node, int least) {
    const struct formula *f = p->formula;
    const struct tree_node *n = &f->node[node];
    const char *name = n->op == OP_NAME ? p->spelling->name[n->number] : NULL;
    bool negative = (n->op == OP_INT && n->number < 0) || (n->op == OP_REAL && signbit(n->real));
    if (negative && least > UNARY) {
        text_print(p->text, "(");
        print(p, node, LOOSEST);
        text_print(p->text, ")");
        return;
    }
    switch (n->op) {
    case OP_INT: print_int(p, n->number); return;
    case OP_REAL: print_real(p, n->real); return;
    case OP_BOOL: text_print(p->text, n->number ? "true" : "false"); return;
    case OP_NAME: text_print(p->text, "%s", name ? name : tree_names[n->number]); return;
    case OP_SCORE: text_print(p->text, "%s", p->spelling->score ? p->spelling->score : "s"); return;
    case OP_SCALAR:
    case OP_AT:
    case OP_LEAST:
    case OP_MOST: print_param(p, n); return;
    default: break;
    }
    struct form form = n->op == OP_IF ? (struct form){"?", TERNARY} : form_of(f, n);
    if (p->spelling->eager && (n->op == OP_AND || n->op == OP_OR))
        form = (struct form){symbol_of(p, n->op), n->op == OP_AND ? BITS_AND : BITS_OR};
    bool brackets = form.binding < least;
    text_print(p->text, brackets ? "(" : "");
    print_operation(p, n, form);
    text_print(p->text, brackets ? ")" : "");
}

/* Prints a && b && c, which the parser groups from the left, one part per line. */
static void print_lines(const struct printer *p, int node, enum tree_op op) {
    const struct tree_node *n = &p->formula->node[node];
    if (n->op != op) {
        print(p, node, p->spelling->eager ? UNARY : least_within(tree_ops[op].cuda_binding));
        return;
    }
    print_lines(p, n->operand[0], op);
    text_print(p->text, " %s\n%*s", symbol_of(p, op), p->spelling->indent, "");
    print_lines(p, n->operand[1], op);
}

void formula_print_cuda(const struct formula *formula, const struct formula_spelling *spelling, struct text *text) {
    enum { COLUMNS = 119 };
    static const struct formula_spelling plain;
    struct printer printer = {formula, spelling ? spelling : &plain, text};
    enum tree_op op = formula->node[formula->root].op;
    size_t begin = text->size;
    print(&printer, formula->root, LOOSEST);
    if (!printer.spelling->indent || (op != OP_AND && op != OP_OR) || text->failed ||
        text->size - begin + (size_t)printer.spelling->indent <= COLUMNS)
        return;
    text->size = begin;
    print_lines(&printer, formula->root, op);
}

bool formula_is_wide(const struct formula *formula) { return is_wide(formula, formula->root); }

/* --- helpers */

static const struct helper {
    const char *symbol; /* chosen by form_of; functions that CUDA has are not in this table */
    const char *text;
} helpers[] = {
    {"floor_divide", "// Rounded down; 0 if b is 0.\n"
                     "template <typename Int> __device__ __forceinline__ Int floor_divide(Int a, Int b) {\n"
                     "    if (b == 0)\n"
                     "        return 0;\n"
                     "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n"
                     "}\n"},
    {"floor_modulo", "// Remainder of floor division, with the sign of b; a if b is 0.\n"
                     "template <typename Int> __device__ __forceinline__ Int floor_modulo(Int a, Int b) {\n"
                     "    if (b == 0 || b == -1)\n"
                     "        return b == 0 ? a : 0;\n"
                     "    return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);\n"
                     "}\n"},
    {"shift_left", "// The count is clamped to the width of the type.\n"
                   "template <typename Int> __device__ __forceinline__ Int shift_left(Int a, Int count) {\n"
                   "    Int most = 8 * sizeof(Int) - 1;\n"
                   "    return a << (count < 0 ? 0 : count > most ? most : count);\n"
                   "}\n"},
    {"shift_right", "// The count is clamped to the width of the type.\n"
                    "template <typename Int> __device__ __forceinline__ Int shift_right(Int a, Int count) {\n"
                    "    Int most = 8 * sizeof(Int) - 1;\n"
                    "    return a >> (count < 0 ? 0 : count > most ? most : count);\n"
                    "}\n"},
    {"magnitude",
     "template <typename Int> __device__ __forceinline__ Int magnitude(Int a) { return a < 0 ? -a : a; }\n"},
    {"min_or_nan",
     "// fminf would lose a NaN.\n"
     "__device__ __forceinline__ float min_or_nan(float a, float b) { return a <= b || a != a ? a : b; }\n"},
    {"max_or_nan",
     "// fmaxf would lose a NaN.\n"
     "__device__ __forceinline__ float max_or_nan(float a, float b) { return a >= b || a != a ? a : b; }\n"},
    {"floor_to_int", "// Rounded down and clamped to the range of int; 0 for NaN.\n"
                     "__device__ __forceinline__ int floor_to_int(float x) {\n"
                     "    if (!(x >= -2147483648.0f))\n"
                     "        return x != x ? 0 : -2147483647 - 1;\n"
                     "    return x >= 2147483648.0f ? 2147483647 : static_cast<int>(floorf(x));\n"
                     "}\n"},
    {"sigmoid", "__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }\n"},
};
enum { HELPERS = sizeof helpers / sizeof *helpers };

static void find_helpers(const struct formula *f, int node, bool *needed) {
    const struct tree_node *n = &f->node[node];
    if (n->operands && n->op > OP_IF) {
        struct form form = form_of(f, n);
        for (int i = 0; i < HELPERS; i++)
            needed[i] |= strcmp(helpers[i].symbol, form.symbol) == 0;
    }
    for (int i = 0; i < n->operands; i++)
        find_helpers(f, n->operand[i], needed);
}

void formula_print_helpers(const struct formula *const *formulas, int count, struct text *text) {
    bool needed[HELPERS] = {0};
    for (int i = 0; i < count; i++)
        if (formulas[i])
            find_helpers(formulas[i], formulas[i]->root, needed);
    for (int i = 0; i < HELPERS; i++)
        if (needed[i])
            text_print(text, "%s\n", helpers[i].text);
}
