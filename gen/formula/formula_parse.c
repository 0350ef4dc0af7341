/* formula_parse: joins parts by operators, by precedence (Pratt), up to the whole formula. formula_check.c checks the
   operands. */
#include "formula_parse.h"

#include <string.h>

static const struct part nothing = {.node = NO_NODE};

static const struct infix {
    const char *symbol;
    enum tree_op op;
    bool swapped; /* a > b is b < a */
} infixes[] = {
    {"if", OP_IF, false},           {"or", OP_OR, false},          {"and", OP_AND, false},
    {"<", OP_LESS, false},          {"<=", OP_LESS_EQUAL, false},  {">", OP_LESS, true},
    {">=", OP_LESS_EQUAL, true},    {"==", OP_EQUAL, false},       {"!=", OP_UNEQUAL, false},
    {"|", OP_OR_BITS, false},       {"^", OP_XOR_BITS, false},     {"&", OP_AND_BITS, false},
    {"<<", OP_SHIFT_LEFT, false},   {">>", OP_SHIFT_RIGHT, false}, {"+", OP_ADD, false},
    {"-", OP_SUBTRACT, false},      {"*", OP_MULTIPLY, false},     {"/", OP_DIVIDE, false},
    {"//", OP_FLOOR_DIVIDE, false}, {"%", OP_MODULO, false},
};

static const struct infix *find_infix(const struct parser *p) {
    for (size_t i = 0; i < sizeof infixes / sizeof *infixes; i++)
        if (parse_is_token(p, infixes[i].symbol))
            return &infixes[i];
    return NULL;
}

static bool is_comparison(enum tree_op op) { return op >= OP_LESS && op <= OP_UNEQUAL; }

static struct part parse_binding(struct parser *p, int least);

static struct part parse_operand(struct parser *p) {
    static const struct {
        const char *symbol;
        enum tree_op op;
    } prefixes[] = {{"not", OP_NOT}, {"-", OP_NEGATE}, {"~", OP_COMPLEMENT}};
    char c = p->token ? p->text[p->at] : '\0';
    int at = parse_here(p);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (parse_is_token(p, prefixes[i].symbol)) {
            parse_advance(p);
            return check_one(p, prefixes[i].op, parse_binding(p, tree_ops[prefixes[i].op].binding), at);
        }
    if (c == '(') {
        parse_advance(p);
        struct part part = parse_expression(p);
        parse_expect(p, ")", "");
        part.at = at;
        return part;
    }
    if (parse_is_digit(c))
        return parse_number(p);
    if (parse_is_letter(c) && !find_infix(p) && !parse_is_token(p, "else") && !parse_is_token(p, "then"))
        return parse_name(p);
    if (c == '!')
        return parse_refuse(p, at, "did you mean 'not'?");
    if (c == '.')
        return parse_refuse(p, at, "a number begins with a digit, as in 0.5");
    return parse_refuse(p, at, "expected a name, a number or '('");
}

/* a < b < c means a < b and b < c. */
static struct part parse_chain(struct parser *p, struct part left, const struct infix *infix) {
    struct part whole = nothing;
    for (bool first = true; infix && is_comparison(infix->op); first = false, infix = find_infix(p)) {
        int at = parse_here(p), start = left.at;
        parse_advance(p);
        struct part right = parse_binding(p, tree_ops[OP_LESS].binding + 1);
        struct part link = check_two(p, infix->op, infix->swapped ? right : left, infix->swapped ? left : right, at);
        whole = first ? link : check_two(p, OP_AND, whole, link, at);
        if (p->failed)
            return nothing;
        if (first)
            whole.at = start;
        left = right;
    }
    return whole;
}

/* Parses an operand and all following operators that bind at least as strongly as `least`. */
static struct part parse_binding(struct parser *p, int least) {
    if (++p->nesting > PARSE_NESTING)
        return parse_refuse(p, parse_here(p), "this formula nests too deeply");
    struct part left = parse_operand(p);
    for (const struct infix *infix; !p->failed && (infix = find_infix(p)) && tree_ops[infix->op].binding >= least;) {
        int at = parse_here(p), start = left.at;
        if (is_comparison(infix->op)) {
            left = parse_chain(p, left, infix);
            continue;
        }
        parse_advance(p);
        if (infix->op == OP_IF) {
            struct part condition = parse_binding(p, tree_ops[OP_OR].binding);
            if (!parse_expect(p, "else", ": both values of an `if` are needed"))
                return nothing;
            left = check_if(p, condition, left, parse_binding(p, tree_ops[OP_IF].binding), at);
        } else {
            left = check_two(p, infix->op, left, parse_binding(p, tree_ops[infix->op].binding + 1), at);
        }
        left.at = start;
    }
    p->nesting--;
    return left;
}

/* first then second: in the second, s is the value of the first. */
struct part parse_expression(struct parser *p) {
    int score = p->score;
    struct part part = parse_binding(p, 0);
    while (!p->failed && parse_is_token(p, "then")) {
        if (p->formula->kind != FORMULA_SCORE)
            return parse_refuse(p, parse_here(p), "'then' chains scores");
        if (!check_type(p, part, FORMULA_REAL, "'then'", &part))
            return nothing;
        parse_advance(p);
        p->score = part.node;
        part = parse_binding(p, 0);
    }
    p->score = score;
    return part;
}

/* A formula is stored as its canonical text, which must be short enough to be parsed again. */
static void check_length(struct parser *p) {
    struct text text = {0};
    formula_print(p->formula, &text);
    if (text.failed)
        parse_refuse(p, 0, "out of memory");
    else if (text.size > FORMULA_TEXT)
        parse_refuse(p, 0, "this formula is longer than %d bytes, named masks and scores expanded", FORMULA_TEXT);
    text_free(&text);
}

struct formula *formula_parse(enum formula_kind kind, struct place place, const char *text, size_t size,
                              const struct formula_scope *scope, struct diag *diag) {
    static const enum formula_type wanted[] = {
        [FORMULA_MASK] = FORMULA_BOOL, [FORMULA_SCORE] = FORMULA_REAL, [FORMULA_SIZE] = FORMULA_INT};
    static const char *const who[] = {
        [FORMULA_MASK] = "a mask", [FORMULA_SCORE] = "a score", [FORMULA_SIZE] = "a size"};
    if (size > FORMULA_TEXT) {
        diag_error(diag, place, "this formula is longer than %d bytes", FORMULA_TEXT);
        return NULL;
    }
    struct formula *formula = tree_new(kind, scope);
    if (!formula) {
        diag_error(diag, place, "out of memory");
        return NULL;
    }
    struct parser p = {.formula = formula,
                       .place = place,
                       .user_text = text,
                       .user_size = (int)size,
                       .text = text,
                       .size = (int)size,
                       .call = -1,
                       .score = NO_NODE,
                       .diag = diag};
    parse_advance(&p);
    struct part part = parse_expression(&p);
    if (!p.failed && p.token)
        parse_expect(&p, NULL, "");
    if (!p.failed)
        check_type(&p, part, wanted[kind], who[kind], &part);
    formula->root = part.node;
    if (!p.failed)
        check_length(&p);
    if (!p.failed && !tree_bound_indices(formula))
        parse_refuse(&p, 0, "out of memory");
    if (!p.failed)
        return formula;
    formula_free(formula);
    return NULL;
}
