/* formula_operand: numbers, names, calls and elements of tensors -> parts. A name is resolved in this order: a
   parameter of the entry being expanded, a declared parameter, the language, the table of named masks and scores. */
#include "formula_parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct part nothing = {.node = NO_NODE};

struct part parse_number(struct parser *p) {
    int at = parse_here(p), digits = p->token;
    const char *s = p->text + p->at;
    char copy[64];
    if (digits >= (int)sizeof copy)
        return parse_refuse(p, at, "this number is too long");
    memcpy(copy, s, (size_t)digits);
    copy[digits] = '\0';
    int end = parse_number_end(s, 0, digits);
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

/* Finds a function: an operation that is written as a word and is not an operator. */
static enum tree_op find_function(const char *name, size_t size) {
    for (enum tree_op op = OP_MIN; op < OP_COUNT; op++)
        if (text_equals(name, size, tree_ops[op].symbol))
            return op;
    return OP_COUNT;
}

/* Returns the current name for a name of an earlier version, else null. */
static const char *renamed(const char *name, size_t size) {
    static const struct {
        const char *before, *now;
    } rows[] = {
#define RENAMED_NAME(before, now) {before, now},
#include "renamed.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_equals(name, size, rows[i].before))
            return rows[i].now;
    return NULL;
}

static int find_language_name(const char *name, size_t size) {
    const char *now = renamed(name, size);
    for (int i = 0; i < FORMULA_Q_FIRST; i++)
        if (now ? strcmp(now, tree_names[i]) == 0 : text_equals(name, size, tree_names[i]))
            return i;
    return -1;
}

static const char *const other_words[] = {"s",  "true", "false", "inf",   "and", "or",  "not",
                                          "if", "else", "then",  "clamp", "mod", "real"};

bool parse_is_word(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof other_words / sizeof *other_words; i++)
        if (text_equals(name, size, other_words[i]))
            return true;
    int entry = table_find(FORMULA_MASK, name, size);
    return find_language_name(name, size) >= 0 || find_function(name, size) != OP_COUNT ||
           (entry >= 0 && !formula_table[entry].params[0]) || storage_find(name, size) >= 0;
}

/* Iterates over all names that could have been meant. */
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
        return parse_refuse(p, parse_here(p), "%.*s is a score, and this is %s", p->token, name,
                            p->formula->kind == FORMULA_MASK ? "a mask" : "a size");
    const char *near = diag_nearest(name, (size_t)p->token, next_candidate, &(struct candidates){p, 0});
    if (near)
        return parse_refuse(p, parse_here(p), "unknown name '%.*s'; did you mean '%s'?", p->token, name, near);
    return parse_refuse(p, parse_here(p),
                        p->formula->kind == FORMULA_SIZE
                            ? "unknown name '%.*s'; a size may use numbers that are declared before it"
                            : "unknown name '%.*s'; parameters are declared under `params`",
                        p->token, name);
}

/* Parses the arguments of a function, each an expression. */
static int parse_arguments(struct parser *p, struct part *argument, int least, int most, const char *who) {
    int at = parse_here(p), count = 0;
    if (!parse_expect(p, "(", " after the name of a function"))
        return 0;
    do {
        if (count == most) {
            parse_refuse(p, parse_here(p), "%s takes no more than %d argument%s", who, most, most == 1 ? "" : "s");
            return 0;
        }
        argument[count++] = parse_expression(p);
    } while (!p->failed && parse_is_token(p, ",") && (parse_advance(p), true));
    if (!parse_expect(p, ")", " or ','"))
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
    int at = parse_here(p);
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
    int at = parse_here(p), index[FORMULA_DIMS], count = 0;
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
    int end = parse_here(p);
    if (!parse_expect(p, "]", " or ','"))
        return nothing;
    if (count < tensor->dims)
        return parse_refuse(p, end, "%s needs %d indices, and here %s %d", tensor->name, tensor->dims,
                            count == 1 ? "is" : "are", count);
    return check_part(p, tree_tensor(p->formula, OP_AT, param, index, count), at);
}

static struct part parse_param(struct parser *p, int param) {
    int at = parse_here(p);
    if (p->formula->scope->param[param].dims)
        return parse_tensor(p, param);
    parse_advance(p);
    return check_part(p, tree_scalar(p->formula, param), at);
}

static struct part parse_score(struct parser *p) {
    int at = parse_here(p);
    if (p->formula->kind != FORMULA_SCORE)
        return parse_refuse(p, at, "s is known in a score only: whether a key is seen cannot depend on it");
    parse_advance(p);
    return check_part(p, p->score != NO_NODE ? p->score : tree_score(p->formula), at);
}

static struct part parse_language_name(struct parser *p, int name) {
    int at = parse_here(p);
    if (renamed(p->text + p->at, (size_t)p->token))
        parse_note_once(p, at, "'%.*s' is called '%s' now; the next release will not read the old name", p->token,
                        p->text + p->at, tree_names[name]);
    if (p->formula->kind == FORMULA_SIZE && name < FORMULA_BATCH)
        return parse_refuse(p, at, "a size is the same for all %s; it may use batch, heads, kv_heads, len_q, len_kv",
                            name == FORMULA_Q || name == FORMULA_K ? "positions" : "heads");
    parse_advance(p);
    return check_part(p, tree_name(p->formula, (enum formula_name)name), at);
}

/* bias(bias): a parameter may have the name of a named score; brackets distinguish them. */
static bool is_call(const struct parser *p) {
    int at = p->at + p->token;
    while (at < p->size && parse_is_blank(p->text[at]))
        at++;
    return at < p->size && p->text[at] == '(';
}

struct part parse_name(struct parser *p) {
    struct formula *f = p->formula;
    const char *name = p->text + p->at;
    size_t size = (size_t)p->token;
    int at = parse_here(p);
    for (int i = p->bindings - 1; i >= p->first_binding; i--)
        if (p->binding[i].size == size && memcmp(p->binding[i].name, name, size) == 0) {
            if (p->binding[i].param >= 0)
                return parse_tensor(p, p->binding[i].param);
            parse_advance(p);
            return check_part(p, p->binding[i].node, at);
        }
    for (int i = 0; p->call < 0 && !is_call(p) && f->scope && i < f->scope->count; i++)
        if (text_equals(name, size, f->scope->param[i].name))
            return parse_param(p, i);
    if (text_equals(name, size, "s"))
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
