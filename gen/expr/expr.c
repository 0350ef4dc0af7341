/* expr: text -> tree, by operator precedence (Pratt). This file checks only the syntax; expr_check.c resolves names and
   checks types. Parsing stops at the first error: further messages would only be guesses. */
#include "expr_tree.h"

#include <stdlib.h>
#include <string.h>

struct parser {
    struct expr *expr;
    const char *text;
    int size, at; /* at: start of the current token */
    int token;    /* its length; 0 at the end */
    int after;    /* end of the previous token */
    int nesting;
    int room; /* nodes allocated */
    bool failed;
    struct diag *diag;
};

static const struct operator{
    const char *symbol;
    enum tree_op op;
    int binding;
}
operators[] = {
    {"or", TREE_OR, 1},
    {"and", TREE_AND, 2},
    {"==", TREE_EQUAL, 4},
    {"!=", TREE_UNEQUAL, 4},
    {"<=", TREE_LESS_EQUAL, 4},
    {"<", TREE_LESS, 4},
    {">=", TREE_GREATER_EQUAL, 4},
    {">", TREE_GREATER, 4},
    {"in", TREE_IN, 4},
    {"not", TREE_NOT_IN, 4},
    {"+", TREE_ADD, 5},
    {"-", TREE_SUBTRACT, 5},
    {"*", TREE_MULTIPLY, 6},
    {"/", TREE_DIVIDE, 6},
    {"%", TREE_MODULO, 6},
};
enum { BINDING_NOT = 3, BINDING_NEGATE = 7 };

static int fail(struct parser *p, int offset, const char *sentence) {
    if (!p->failed)
        diag_error(p->diag, tree_place(p->expr, offset), "%s", sentence);
    p->failed = true;
    return NONE;
}

static bool is_blank(char c) { return text_is_blank(c) || c == '\n'; }

/* Advances to the next token. */
static void advance(struct parser *p) {
    const char *s = p->text;
    p->after = p->at + p->token;
    p->at = p->after;
    while (p->at < p->size && is_blank(s[p->at]))
        p->at++;
    int end = p->at;
    if (end < p->size && text_is_name(s[end]))
        while (end < p->size && text_is_name(s[end]))
            end++;
    else if (end + 1 < p->size && s[end + 1] == '=' && strchr("=!<>", s[end]))
        end += 2;
    else if (end < p->size)
        end++;
    p->token = end - p->at;
}

static bool is_token(const struct parser *p, const char *symbol) {
    return text_equals(p->text + p->at, (size_t)p->token, symbol);
}

static const struct operator* find_operator(const struct parser *p) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (is_token(p, operators[i].symbol))
            return &operators[i];
    return NULL;
}

static int depth_of(const struct expr *expr, int node) { return node == NONE ? 0 : expr->node[node].depth; }

static int add_node(struct parser *p, enum tree_op op, int left, int right, int offset, int size) {
    struct expr *expr = p->expr;
    if (p->failed)
        return NONE;
    if (expr->count == TREE_NODES)
        return fail(p, offset, "this expression is too long");
    if (expr->count == p->room) {
        int room = p->room ? 2 * p->room : 8;
        struct tree_node *node = realloc(expr->node, (size_t)room * sizeof *node);
        if (!node)
            return fail(p, offset, "out of memory");
        expr->node = node;
        p->room = room;
    }
    int below_left = depth_of(expr, left), below_right = depth_of(expr, right);
    int depth = 1 + (below_left > below_right ? below_left : below_right);
    if (op == TREE_ITEM) /* items are walked in a loop, not in depth */
        depth = below_left;
    else if (depth > TREE_DEPTH)
        return fail(p, offset, "this expression nests too deeply");
    expr->node[expr->count] =
        (struct tree_node){.op = op, .left = left, .right = right, .depth = depth, .offset = offset, .size = size};
    return expr->count++;
}

static int parse_binding(struct parser *p, int least);

static int parse_number(struct parser *p) {
    int64_t number = 0;
    for (int i = p->at; i < p->at + p->token; i++) {
        if (!text_is_digit(p->text[i]))
            return fail(p, i, "a number has decimal digits only");
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, p->text[i] - '0', &number))
            return fail(p, p->at, "this number does not fit into 64 bits");
    }
    int node = add_node(p, TREE_INT, NONE, NONE, p->at, p->token);
    if (node != NONE)
        p->expr->node[node].number = number;
    advance(p);
    return node;
}

static int parse_name(struct parser *p) {
    bool is_true = is_token(p, "true"), is_bool = is_true || is_token(p, "false");
    int node = add_node(p, is_bool ? TREE_BOOL : TREE_NAME, NONE, NONE, p->at, p->token);
    if (node != NONE)
        p->expr->node[node].number = is_true;
    advance(p);
    return node;
}

/* [a, b, c]: the items become a chain in order. */
static int parse_list(struct parser *p) {
    int offset = p->at, first = NONE, last = NONE, depth = 0;
    advance(p);
    if (is_token(p, "]"))
        return fail(p, offset, "a list needs at least one value");
    for (;;) {
        int at = p->at;
        int value = parse_binding(p, 0);
        int item = add_node(p, TREE_ITEM, value, NONE, at, 0);
        if (item == NONE)
            return NONE;
        if (last == NONE)
            first = item;
        else
            p->expr->node[last].right = item;
        last = item;
        if (p->expr->node[item].depth > depth)
            depth = p->expr->node[item].depth;
        if (is_token(p, "]"))
            break;
        if (!is_token(p, ","))
            return fail(p, p->at, "expected ',' or ']' in this list");
        advance(p);
    }
    advance(p);
    int list = add_node(p, TREE_LIST, first, NONE, offset, 1);
    if (list != NONE)
        p->expr->node[list].depth = depth + 1;
    return list;
}

/* Parses min(a, b) or max(a, b); the current token is its name. */
static int parse_call(struct parser *p, enum tree_op op) {
    int offset = p->at, size = p->token;
    advance(p);
    advance(p); /* the parenthesis, which distinguishes a call from a name */
    int left = parse_binding(p, 0);
    if (!is_token(p, ","))
        return fail(p, p->at, "expected ',': min and max take two values");
    advance(p);
    int right = parse_binding(p, 0);
    if (!is_token(p, ")"))
        return fail(p, p->at, "expected ')': min and max take two values");
    advance(p);
    return add_node(p, op, left, right, offset, size);
}

static bool is_call(const struct parser *p) {
    int after = p->at + p->token;
    while (after < p->size && is_blank(p->text[after]))
        after++;
    return after < p->size && p->text[after] == '(' && (is_token(p, "min") || is_token(p, "max"));
}

static int parse_operand(struct parser *p) {
    char c = p->token ? p->text[p->at] : '\0';
    int offset = p->at;
    if (is_token(p, "not") || c == '-') {
        advance(p);
        int operand = parse_binding(p, c == '-' ? BINDING_NEGATE : BINDING_NOT);
        return add_node(p, c == '-' ? TREE_NEGATE : TREE_NOT, operand, NONE, offset, 1);
    }
    if (c == '(') {
        advance(p);
        int inner = parse_binding(p, 0);
        if (!is_token(p, ")"))
            return fail(p, p->at, "expected ')'");
        advance(p);
        return inner;
    }
    if (c == '[')
        return parse_list(p);
    if (text_is_digit(c))
        return parse_number(p);
    if (is_call(p))
        return parse_call(p, is_token(p, "min") ? TREE_MIN : TREE_MAX);
    if (text_is_letter(c) && !find_operator(p))
        return parse_name(p);
    return fail(p, p->at, "expected a name, a number, '(' or '['");
}

/* Parses an operand and all following operators that bind at least as strongly as `least`. */
static int parse_binding(struct parser *p, int least) {
    if (++p->nesting > TREE_DEPTH)
        return fail(p, p->at, "this expression nests too deeply");
    int left = parse_operand(p);
    for (const struct operator* o; !p->failed && (o = find_operator(p)) && o->binding >= least;) {
        int offset = p->at, size = p->token;
        advance(p);
        if (o->op == TREE_NOT_IN) {
            if (!is_token(p, "in"))
                return fail(p, offset, "'not' between two values must be 'not in'");
            advance(p);
        }
        int right = parse_binding(p, o->binding + 1);
        left = add_node(p, o->op, left, right, offset, size);
    }
    p->nesting--;
    return left;
}

struct expr *expr_parse(struct place place, const char *text, size_t size, size_t *used, unsigned wanted,
                        const struct expr_scope *scope, struct diag *diag) {
    enum { TEXT_LIMIT = 4096 };
    if (size > TEXT_LIMIT) {
        diag_error(diag, place, "this expression is longer than %d bytes", TEXT_LIMIT);
        return NULL;
    }
    struct expr *expr = calloc(1, sizeof *expr);
    if (expr)
        expr->text = malloc(size + 1);
    if (!expr || !expr->text) {
        diag_error(diag, place, "out of memory");
        free(expr);
        return NULL;
    }
    memcpy(expr->text, text, size);
    expr->text[size] = '\0';
    expr->place = place;

    struct parser parser = {.expr = expr, .text = expr->text, .size = (int)size, .diag = diag};
    advance(&parser);
    int start = parser.at;
    expr->root = parse_binding(&parser, 0);
    if (!parser.failed && parser.token && !used)
        fail(&parser, parser.at, "unexpected text after the expression");
    if (parser.failed || !tree_check(expr, wanted, scope, diag)) {
        expr_free(expr);
        return NULL;
    }
    if (used)
        *used = (size_t)parser.after;
    expr->text[parser.after] = '\0';
    if (start > 0) { /* drop leading blanks */
        expr->place = tree_place(expr, start);
        memmove(expr->text, expr->text + start, (size_t)(parser.after - start) + 1);
        for (int i = 0; i < expr->count; i++)
            expr->node[i].offset -= start;
    }
    return expr;
}

void expr_free(struct expr *expr) {
    if (!expr)
        return;
    free(expr->text);
    free(expr->node);
    free(expr->words);
    free(expr->word_text);
    free(expr);
}

const char *expr_text(const struct expr *expr) { return expr->text; }
struct place expr_place(const struct expr *expr) {
    return expr->place;
}
void expr_mark_names(const struct expr *expr, unsigned char *marks, unsigned char mark) {
    for (int i = 0; i < expr->count; i++)
        if (expr->node[i].op == TREE_SLOT)
            marks[expr->node[i].number] |= mark;
}

bool expr_names(const struct expr *expr, int name) {
    for (int i = 0; i < expr->count; i++)
        if (expr->node[i].op == TREE_SLOT && expr->node[i].number == name)
            return true;
    return false;
}
