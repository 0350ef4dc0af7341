/* formula_parse: text -> parts, by operator precedence (Pratt). Names and calls are resolved as they are read; whether
   operands fit is formula_check.c's. The first error ends the formula: after it, further messages would be guesses. */
#include "formula_parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct part nothing = {.node = NO_NODE};

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* --- tokens */

static int number_end(const char *s, int at, int size) {
    int end = at;
    while (end < size && is_digit(s[end]))
        end++;
    if (end < size && s[end] == '.')
        for (end++; end < size && is_digit(s[end]);)
            end++;
    if (end < size && (s[end] == 'e' || s[end] == 'E')) {
        int digits = end + 1;
        if (digits < size && (s[digits] == '+' || s[digits] == '-'))
            digits++;
        if (digits < size && is_digit(s[digits]))
            for (end = digits; end < size && is_digit(s[end]);)
                end++;
    }
    return end;
}

void parse_advance(struct parser *p) {
    static const char *const doubles[] = {"==", "!=", "<=", ">=", "<<", ">>", "//", "**", "&&", "||"};
    const char *s = p->text;
    p->at += p->token;
    while (p->at < p->size && is_blank(s[p->at]))
        p->at++;
    int end = p->at;
    if (end < p->size && is_digit(s[end]))
        end = number_end(s, end, p->size);
    if (end < p->size && (is_letter(s[end]) || is_digit(s[end]))) /* also the letters that spoil a number */
        while (end < p->size && (is_letter(s[end]) || is_digit(s[end])))
            end++;
    if (end == p->at && end < p->size) {
        end++;
        for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
            if (p->at + 1 < p->size && memcmp(s + p->at, doubles[i], 2) == 0)
                end = p->at + 2;
    }
    p->token = end - p->at;
}

bool parse_is_token(const struct parser *p, const char *symbol) {
    return (size_t)p->token == strlen(symbol) && memcmp(p->text + p->at, symbol, (size_t)p->token) == 0;
}

/* --- messages */

static struct place place_of(const struct parser *p, int at) {
    struct place place = p->place;
    for (int i = 0; i < at; i++) {
        place.col++;
        if (p->user_text[i] == '\n') { /* only block scalars of a spec have these */
            place.line++;
            place.col = 1;
        }
    }
    return place;
}

struct part parse_refuse(struct parser *p, int at, const char *format, ...) {
    if (p->failed)
        return nothing;
    p->failed = true;
    struct text sentence = {0};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&sentence, format, arguments);
    va_end(arguments);
    diag_error(p->diag, place_of(p, p->call >= 0 ? p->call : at), "%s", text_string(&sentence));
    text_free(&sentence);
    return nothing;
}

/* Where a part begins that starts at the current token. */
static int here(const struct parser *p) { return p->call >= 0 ? p->call : p->at; }

static bool expect(struct parser *p, const char *symbol, const char *where) {
    if (p->failed)
        return false;
    if (symbol && parse_is_token(p, symbol)) {
        parse_advance(p);
        return true;
    }
    static const struct {
        const char *found, *meant;
    } slips[] = {{"&&", "and"}, {"||", "or"}, {"=", "=="}, {"?", ".. if .. else .."}, {"!", "not"}};
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++)
        if (parse_is_token(p, slips[i].found)) {
            parse_refuse(p, p->at, "'%s' is no operator here; did you mean '%s'?", slips[i].found, slips[i].meant);
            return false;
        }
    if (parse_is_token(p, "**"))
        parse_refuse(p, p->at, "there is no power; write x * x, or exp(y * log(x))");
    else if (symbol)
        parse_refuse(p, p->at, "expected '%s'%s", symbol, where);
    else
        parse_refuse(p, p->at, "unexpected text after the formula");
    return false;
}

/* --- operands */

static struct part parse_number(struct parser *p) {
    int at = here(p), digits = p->token;
    const char *s = p->text + p->at;
    char copy[64];
    if (digits >= (int)sizeof copy)
        return parse_refuse(p, at, "this number is too long");
    memcpy(copy, s, (size_t)digits);
    copy[digits] = '\0';
    int end = number_end(s, 0, digits);
    if (end < digits)
        return parse_refuse(p, at + end, "a number has decimal digits only, as in 128, 0.5 or 1e-3");
    parse_advance(p);
    if (strspn(copy, "0123456789") == (size_t)digits) {
        int64_t number = 0;
        for (int i = 0; i < digits; i++)
            if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, copy[i] - '0', &number))
                return parse_refuse(p, at, "this number does not fit into 62 bits");
        return check_part(p, tree_int(p->formula, number), at);
    }
    double real = strtod(copy, NULL);
    if (isinf((float)real))
        return parse_refuse(p, at, "this number does not fit into fp32; infinity is written inf");
    return check_part(p, tree_real(p->formula, real), at);
}

static bool has_name(const char *name, const char *text, size_t size) {
    return strlen(name) == size && memcmp(name, text, size) == 0;
}

/* The functions: every operation that is written as a word and is no operator. */
static enum tree_op find_function(const char *name, size_t size) {
    for (enum tree_op op = OP_MIN; op < OP_COUNT; op++)
        if (has_name(tree_ops[op].symbol, name, size))
            return op;
    return OP_COUNT;
}

static int find_language_name(const char *name, size_t size) {
    for (int i = 0; i < FORMULA_Q_FIRST; i++)
        if (has_name(tree_names[i], name, size))
            return i;
    return -1;
}

static const char *const other_words[] = {"s",  "true", "false", "inf",   "and", "or",  "not",
                                          "if", "else", "then",  "clamp", "mod", "real"};

bool parse_is_word(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof other_words / sizeof *other_words; i++)
        if (has_name(other_words[i], name, size))
            return true;
    int entry = table_find(FORMULA_MASK, name, size);
    return find_language_name(name, size) >= 0 || find_function(name, size) != OP_COUNT ||
           (entry >= 0 && !formula_table[entry].params[0]) || storage_find(name, size) >= 0;
}

/* Everything that could have been meant, one after the other. */
struct candidates {
    const struct parser *p;
    int next;
};

static const char *next_candidate(void *context) {
    struct candidates *c = context;
    const struct formula *f = c->p->formula;
    int i = c->next++;
    if (i < FORMULA_Q_FIRST)
        return tree_names[i];
    i -= FORMULA_Q_FIRST;
    if (i < OP_COUNT - OP_MIN)
        return tree_ops[OP_MIN + i].symbol;
    i -= OP_COUNT - OP_MIN;
    if (i < (int)(sizeof other_words / sizeof *other_words))
        return other_words[i];
    i -= (int)(sizeof other_words / sizeof *other_words);
    if (f->scope && i < f->scope->count)
        return f->scope->param[i].name;
    i -= f->scope ? f->scope->count : 0;
    return i < formula_table_count ? formula_table[i].name : NULL;
}

static struct part refuse_name(struct parser *p) {
    const char *name = p->text + p->at;
    if (table_find(FORMULA_SCORE, name, (size_t)p->token) >= 0)
        return parse_refuse(p, here(p), "%.*s is a score, and this is %s", p->token, name,
                            p->formula->kind == FORMULA_MASK ? "a mask" : "a size");
    const char *near = diag_nearest(name, (size_t)p->token, next_candidate, &(struct candidates){p, 0});
    if (near)
        return parse_refuse(p, here(p), "unknown name '%.*s'; did you mean '%s'?", p->token, name, near);
    return parse_refuse(p, here(p), "unknown name '%.*s'; parameters are declared under `params`", p->token, name);
}

/* The arguments of a function, each one an expression. */
static int parse_arguments(struct parser *p, struct part *argument, int least, int most, const char *who) {
    int at = here(p), count = 0;
    if (!expect(p, "(", " after the name of a function"))
        return 0;
    do {
        if (count == most) {
            parse_refuse(p, here(p), "%s takes no more than %d argument%s", who, most, most == 1 ? "" : "s");
            return 0;
        }
        argument[count++] = parse_expression(p);
    } while (!p->failed && parse_is_token(p, ",") && (parse_advance(p), true));
    if (!expect(p, ")", " or ','"))
        return 0;
    if (count < least) {
        parse_refuse(p, at, "%s takes %d arguments", who, least);
        return 0;
    }
    return count;
}

static struct part parse_clamp(struct parser *p, int at) {
    struct part a[3];
    if (!parse_arguments(p, a, 3, 3, "clamp(value, least, most)"))
        return nothing;
    struct part part = check_two(p, OP_MIN, check_two(p, OP_MAX, a[0], a[1], at), a[2], at);
    part.at = at;
    return part;
}

static struct part parse_function(struct parser *p, enum tree_op op) {
    enum { MOST_ARGUMENTS = 16 };
    struct part a[MOST_ARGUMENTS];
    int at = here(p);
    bool many = op == OP_MIN || op == OP_MAX;
    parse_advance(p);
    int count = parse_arguments(p, a, many ? 2 : 1, many ? MOST_ARGUMENTS : 1, tree_ops[op].symbol);
    if (!count)
        return nothing;
    if (!many)
        return check_one(p, op, a[0], at);
    struct part part = a[0];
    for (int i = 1; i < count; i++)
        part = check_two(p, op, part, a[i], at);
    part.at = at;
    return part;
}

static struct part parse_tensor(struct parser *p, int param) {
    const struct formula_param *tensor = &p->formula->scope->param[param];
    int at = here(p), index[FORMULA_DIMS], count = 0;
    parse_advance(p);
    if (!parse_is_token(p, "["))
        return parse_refuse(p, at, "%s is a tensor of %d dimension%s and needs an index for each, as in %s[..]",
                            tensor->name, tensor->dims, tensor->dims == 1 ? "" : "s", tensor->name);
    do {
        parse_advance(p);
        struct part part = parse_expression(p);
        if (!check_type(p, part, FORMULA_INT, "an index", &part))
            return nothing;
        if (count == tensor->dims)
            return parse_refuse(p, part.at, "%s has %d dimension%s, and this is one index more", tensor->name,
                                tensor->dims, tensor->dims == 1 ? "" : "s");
        index[count++] = part.node;
    } while (parse_is_token(p, ","));
    int end = here(p);
    if (!expect(p, "]", " or ','"))
        return nothing;
    if (count < tensor->dims)
        return parse_refuse(p, end, "%s needs %d indices, and here %s %d", tensor->name, tensor->dims,
                            count == 1 ? "is" : "are", count);
    return check_part(p, tree_tensor(p->formula, OP_AT, param, index, count), at);
}

static struct part parse_param(struct parser *p, int param) {
    int at = here(p);
    if (p->formula->scope->param[param].dims)
        return parse_tensor(p, param);
    parse_advance(p);
    return check_part(p, tree_scalar(p->formula, param), at);
}

static struct part parse_score(struct parser *p) {
    int at = here(p);
    if (p->formula->kind != FORMULA_SCORE)
        return parse_refuse(p, at, "s is known in a score only: whether a key is seen cannot depend on it");
    parse_advance(p);
    return check_part(p, p->score != NO_NODE ? p->score : tree_score(p->formula), at);
}

static struct part parse_language_name(struct parser *p, int name) {
    int at = here(p);
    if (p->formula->kind == FORMULA_SIZE && name < FORMULA_BATCH)
        return parse_refuse(p, at,
                            "a size is the same for all %s; it may speak of batch, heads, kv_heads, len_q, len_k",
                            name == FORMULA_Q || name == FORMULA_K ? "positions" : "heads");
    parse_advance(p);
    return check_part(p, tree_name(p->formula, (enum formula_name)name), at);
}

/* bias(bias): a parameter may be called like a named score; brackets tell them apart. */
static bool is_call(const struct parser *p) {
    int at = p->at + p->token;
    while (at < p->size && is_blank(p->text[at]))
        at++;
    return at < p->size && p->text[at] == '(';
}

static struct part parse_name(struct parser *p) {
    struct formula *f = p->formula;
    const char *name = p->text + p->at;
    size_t size = (size_t)p->token;
    int at = here(p);
    for (int i = p->bindings - 1; i >= p->first_binding; i--)
        if (p->binding[i].size == size && memcmp(p->binding[i].name, name, size) == 0) {
            if (p->binding[i].param >= 0)
                return parse_tensor(p, p->binding[i].param);
            parse_advance(p);
            return check_part(p, p->binding[i].node, at);
        }
    for (int i = 0; p->call < 0 && !is_call(p) && f->scope && i < f->scope->count; i++)
        if (has_name(f->scope->param[i].name, name, size))
            return parse_param(p, i);
    if (has_name("s", name, size))
        return parse_score(p);
    int known = find_language_name(name, size);
    if (known >= 0)
        return parse_language_name(p, known);
    bool is_true = parse_is_token(p, "true");
    if (is_true || parse_is_token(p, "false")) {
        parse_advance(p);
        return check_part(p, tree_bool(f, is_true), at);
    }
    if (parse_is_token(p, "inf")) {
        parse_advance(p);
        return check_part(p, tree_real(f, (double)INFINITY), at);
    }
    if (parse_is_token(p, "clamp")) {
        parse_advance(p);
        return parse_clamp(p, at);
    }
    if (parse_is_token(p, "real")) {
        struct part a;
        parse_advance(p);
        return parse_arguments(p, &a, 1, 1, "real") && check_type(p, a, FORMULA_REAL, "'real'", &a) ? a : nothing;
    }
    if (parse_is_token(p, "mod")) {
        struct part a[2];
        parse_advance(p);
        return parse_arguments(p, a, 2, 2, "mod") ? check_two(p, OP_MODULO, a[0], a[1], at) : nothing;
    }
    enum tree_op function = find_function(name, size);
    if (function != OP_COUNT)
        return parse_function(p, function);
    int entry = table_find(f->kind, name, size);
    if (entry >= 0)
        return table_expand(p, entry);
    return refuse_name(p);
}

/* --- operators */

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
    int at = here(p);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (parse_is_token(p, prefixes[i].symbol)) {
            parse_advance(p);
            return check_one(p, prefixes[i].op, parse_binding(p, tree_ops[prefixes[i].op].binding), at);
        }
    if (c == '(') {
        parse_advance(p);
        struct part part = parse_expression(p);
        expect(p, ")", "");
        part.at = at;
        return part;
    }
    if (is_digit(c))
        return parse_number(p);
    if (is_letter(c) && !find_infix(p) && !parse_is_token(p, "else") && !parse_is_token(p, "then"))
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
        int at = here(p), start = left.at;
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

/* An operand and all operators after it that bind at least as strongly as `least`. */
static struct part parse_binding(struct parser *p, int least) {
    if (++p->nesting > PARSE_NESTING)
        return parse_refuse(p, here(p), "this formula nests too deeply");
    struct part left = parse_operand(p);
    for (const struct infix *infix; !p->failed && (infix = find_infix(p)) && tree_ops[infix->op].binding >= least;) {
        int at = here(p), start = left.at;
        if (is_comparison(infix->op)) {
            left = parse_chain(p, left, infix);
            continue;
        }
        parse_advance(p);
        if (infix->op == OP_IF) {
            struct part condition = parse_binding(p, tree_ops[OP_OR].binding);
            if (!expect(p, "else", ": both values of an `if` are needed"))
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

/* first then second: in the second, s is what the first makes of it. */
struct part parse_expression(struct parser *p) {
    int score = p->score;
    struct part part = parse_binding(p, 0);
    while (!p->failed && parse_is_token(p, "then")) {
        if (p->formula->kind != FORMULA_SCORE)
            return parse_refuse(p, here(p), "'then' chains scores");
        if (!check_type(p, part, FORMULA_REAL, "'then'", &part))
            return nothing;
        parse_advance(p);
        p->score = part.node;
        part = parse_binding(p, 0);
    }
    p->score = score;
    return part;
}

/* What is kept of a formula is its canonical text, which must be readable again. */
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
                       .text = text,
                       .size = (int)size,
                       .call = -1,
                       .score = NO_NODE,
                       .diag = diag};
    parse_advance(&p);
    struct part part = parse_expression(&p);
    if (!p.failed && p.token)
        expect(&p, NULL, "");
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
