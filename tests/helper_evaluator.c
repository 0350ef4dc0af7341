#include "helper_evaluator.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluated value;

struct reader {
    const char *at;
    const struct formula_fixture *fixture;
    double score; /* value of s at this point */
    bool failed;
};

static value choice(struct reader *r);
static value chain_of_scores(struct reader *r);
static value unary(struct reader *r);

/* --- values ------------------------------------------------------------------------------------------------------- */

static value truth(bool b) { return (value){FORMULA_BOOL, b, 0}; }
static value whole(int64_t i) { return (value){FORMULA_INT, i, 0}; }
static value real(double d) { return (value){FORMULA_REAL, 0, d}; }
static double as_real(value v) { return v.type == FORMULA_REAL ? v.real : (double)v.integer; }

static value fail(struct reader *r) {
    r->failed = true;
    return truth(false);
}

static int64_t floor_of_quotient(int64_t a, int64_t b) {
    if (b == 0)
        return 0;
    int64_t down = a / b;
    return down * b != a && (a < 0) != (b < 0) ? down - 1 : down; /* C rounds towards 0 */
}

static int64_t floor_of_real(double x) {
    if (isnan(x))
        return 0;
    return x < -0x1p31 ? INT32_MIN : x >= 0x1p31 ? INT32_MAX : (int64_t)floor(x);
}

static int shift_count(int64_t count) { return count < 0 ? 0 : count > 63 ? 63 : (int)count; }

/* --- characters --------------------------------------------------------------------------------------------------- */

static void blanks(struct reader *r) {
    while (isspace((unsigned char)*r->at))
        r->at++;
}

/* Skips this symbol if it comes next: "<" does not match the start of "<=", nor "or" that of "order". */
static bool take(struct reader *r, const char *symbol) {
    blanks(r);
    size_t size = strlen(symbol);
    if (strncmp(r->at, symbol, size) != 0)
        return false;
    char next = r->at[size];
    bool word = isalpha((unsigned char)symbol[0]);
    if (word ? isalnum((unsigned char)next) || next == '_'
             : size == 1 &&
                   ((strchr("<>=!", symbol[0]) && next == '=') || (strchr("<>/", symbol[0]) && next == symbol[0])))
        return false;
    r->at += size;
    return true;
}

static void want(struct reader *r, const char *symbol) { r->failed |= !take(r, symbol); }

/* --- operands ----------------------------------------------------------------------------------------------------- */

static value number(struct reader *r) {
    char *end;
    size_t digits = strspn(r->at, "0123456789");
    if (strchr(".eE", r->at[digits]) && r->at[digits]) {
        double d = strtod(r->at, &end);
        r->at = end;
        return real((double)(float)d);
    }
    int64_t i = strtoll(r->at, &end, 10);
    r->at = end;
    return whole(i);
}

enum { ARGUMENTS = 8 };

static int arguments(struct reader *r, const char *open, const char *close, value argument[ARGUMENTS]) {
    int count = 0;
    want(r, open);
    do
        argument[count++] = chain_of_scores(r);
    while (!r->failed && count < ARGUMENTS && take(r, ","));
    want(r, close);
    return r->failed ? 0 : count;
}

static value extreme(value a, value b, bool most) {
    if (a.type != FORMULA_REAL && b.type != FORMULA_REAL)
        return whole(most == (a.integer > b.integer) ? a.integer : b.integer);
    double x = as_real(a), y = as_real(b);
    return real(isnan(x) || isnan(y) ? (double)NAN : most == (x > y) ? x : y);
}

static value parameter(struct reader *r, int number) {
    const struct formula_env *env = &r->fixture->env;
    const struct formula_param *param = &r->fixture->scope->param[number];
    union formula_value found = {0};
    if (param->dims == 0) {
        found = env->scalar[number];
    } else {
        value argument[ARGUMENTS];
        int64_t index[ARGUMENTS];
        if (arguments(r, "[", "]", argument) != param->dims)
            return fail(r);
        for (int i = 0; i < param->dims; i++)
            index[i] = argument[i].integer;
        found = env->tensor(env->context, number, FORMULA_AT, index);
    }
    if (param->type == FORMULA_REAL)
        return real(found.real);
    return param->type == FORMULA_BOOL ? truth(found.integer != 0) : whole(found.integer);
}

static value function(struct reader *r, const char *name) {
    value a[ARGUMENTS];
    int count = arguments(r, "(", ")", a);
    bool most = strcmp(name, "max") == 0;
    double x = count ? as_real(a[0]) : 0;
    if (count >= 2 && (most || strcmp(name, "min") == 0)) {
        for (int i = 1; i < count; i++)
            a[0] = extreme(a[0], a[i], most);
        return a[0];
    }
    if (count == 3 && strcmp(name, "clamp") == 0)
        return extreme(extreme(a[0], a[1], true), a[2], false);
    if (count == 1 && strcmp(name, "abs") == 0)
        return a[0].type == FORMULA_REAL ? real(fabs(x)) : whole(a[0].integer < 0 ? -a[0].integer : a[0].integer);
    if (count == 1 && strcmp(name, "real") == 0)
        return real(x);
    if (count == 1 && strcmp(name, "floor") == 0)
        return whole(floor_of_real(x));
    static const struct {
        const char *name;
        double (*of)(double);
    } of_reals[] = {{"exp", exp}, {"log", log}, {"sqrt", sqrt}, {"tanh", tanh}};
    for (size_t i = 0; count == 1 && i < sizeof of_reals / sizeof *of_reals; i++)
        if (strcmp(name, of_reals[i].name) == 0)
            return real(of_reals[i].of(x));
    if (count == 1 && strcmp(name, "sigmoid") == 0)
        return real(1 / (1 + exp(-x)));
    /* Named masks and scores. */
    int64_t q = r->fixture->env.name[FORMULA_Q], k = r->fixture->env.name[FORMULA_K];
    if (count == 1 && strcmp(name, "chunked") == 0)
        return truth(floor_of_quotient(q, a[0].integer) == floor_of_quotient(k, a[0].integer));
    if (count == 2 && strcmp(name, "sliding_window") == 0)
        return truth(q - k <= a[0].integer && k - q <= a[1].integer);
    if (count == 1 && strcmp(name, "prefix") == 0)
        return truth(k <= q || k < a[0].integer);
    if (count == 1 && strcmp(name, "softcap") == 0)
        return real(x * tanh(r->score / x));
    return fail(r);
}

static value name(struct reader *r) {
    static const struct {
        const char *name;
        enum formula_name number;
    } names[] = {
        {"b", FORMULA_B},         {"h", FORMULA_H},          {"hk", FORMULA_HK},       {"q", FORMULA_Q},
        {"k", FORMULA_K},         {"batch", FORMULA_BATCH},  {"heads", FORMULA_HEADS}, {"kv_heads", FORMULA_KV_HEADS},
        {"len_q", FORMULA_LEN_Q}, {"len_kv", FORMULA_LEN_KV}};
    char word[32] = "";
    size_t size = strspn(r->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (size == 0 || size >= sizeof word)
        return fail(r);
    memcpy(word, r->at, size);
    r->at += size;
    const int64_t *env = r->fixture->env.name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(word, names[i].name) == 0)
            return whole(env[names[i].number]);
    for (int i = 0; i < r->fixture->scope->count; i++)
        if (strcmp(word, r->fixture->scope->param[i].name) == 0)
            return parameter(r, i);
    if (strcmp(word, "s") == 0)
        return real(r->score);
    if (strcmp(word, "inf") == 0)
        return real((double)INFINITY);
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        return truth(word[0] == 't');
    if (strcmp(word, "causal") == 0)
        return truth(env[FORMULA_K] <= env[FORMULA_Q]);
    return function(r, word);
}

static value operand(struct reader *r) {
    blanks(r);
    if (take(r, "(")) {
        value v = chain_of_scores(r);
        want(r, ")");
        return v;
    }
    return isdigit((unsigned char)*r->at) ? number(r) : name(r);
}

static value unary(struct reader *r) {
    if (take(r, "-")) {
        value v = unary(r);
        return v.type == FORMULA_REAL ? real(-v.real) : whole(-v.integer);
    }
    return take(r, "~") ? whole(-1 - unary(r).integer) : operand(r);
}

/* --- operators, one function a row of the table in docs/expressions.md -------------------------------------------- */

static value product(struct reader *r) {
    value a = unary(r);
    while (!r->failed) {
        if (take(r, "*")) {
            value b = unary(r);
            bool reals = a.type == FORMULA_REAL || b.type == FORMULA_REAL;
            a = reals ? real(as_real(a) * as_real(b)) : whole(a.integer * b.integer);
        } else if (take(r, "//")) {
            a = whole(floor_of_quotient(a.integer, unary(r).integer));
        } else if (take(r, "/")) {
            a = real(as_real(a) / as_real(unary(r)));
        } else if (take(r, "%")) {
            int64_t b = unary(r).integer;
            a = whole(a.integer - b * floor_of_quotient(a.integer, b));
        } else {
            break;
        }
    }
    return a;
}

static value sum(struct reader *r) {
    value a = product(r);
    for (bool plus; !r->failed && ((plus = take(r, "+")) || take(r, "-"));) {
        value b = product(r);
        if (a.type == FORMULA_REAL || b.type == FORMULA_REAL)
            a = real(plus ? as_real(a) + as_real(b) : as_real(a) - as_real(b));
        else
            a = whole(plus ? a.integer + b.integer : a.integer - b.integer);
    }
    return a;
}

static value shifted(struct reader *r) {
    value a = sum(r);
    for (bool left; !r->failed && ((left = take(r, "<<")) || take(r, ">>"));) {
        int count = shift_count(sum(r).integer);
        for (; count > 0; count--)
            a.integer = left ? (int64_t)(2 * (uint64_t)a.integer) : floor_of_quotient(a.integer, 2);
    }
    return a;
}

static value anded(struct reader *r) {
    value a = shifted(r);
    while (!r->failed && take(r, "&"))
        a = whole(a.integer & shifted(r).integer);
    return a;
}

static value exclusive(struct reader *r) {
    value a = anded(r);
    while (!r->failed && take(r, "^"))
        a = whole(a.integer ^ anded(r).integer);
    return a;
}

static value bits(struct reader *r) {
    value a = exclusive(r);
    while (!r->failed && take(r, "|"))
        a = whole(a.integer | exclusive(r).integer);
    return a;
}

static bool compares(const char *symbol, value a, value b) {
    bool reals = a.type == FORMULA_REAL || b.type == FORMULA_REAL;
    double x = as_real(a), y = as_real(b);
    bool less = reals ? x < y : a.integer < b.integer, equal = reals ? x == y : a.integer == b.integer;
    bool more = reals ? x > y : a.integer > b.integer;
    switch (symbol[0]) {
    case '<': return less || (symbol[1] && equal);
    case '>': return more || (symbol[1] && equal);
    case '=': return equal;
    default: return !equal;
    }
}

static value comparison(struct reader *r) {
    static const char *const symbols[] = {"<=", "<", ">=", ">", "==", "!="};
    value a = bits(r), holds = truth(true);
    bool any = false;
    for (size_t i = 0; !r->failed && i < sizeof symbols / sizeof *symbols; i++) {
        if (!take(r, symbols[i]))
            continue;
        value b = bits(r);
        holds.integer = holds.integer && compares(symbols[i], a, b);
        a = b;
        any = true;
        i = (size_t)-1; /* a chain: try the symbols again from the first */
    }
    return any ? holds : a;
}

static value negation(struct reader *r) { return take(r, "not") ? truth(!negation(r).integer) : comparison(r); }

static value conjunction(struct reader *r) {
    value a = negation(r);
    while (!r->failed && take(r, "and")) {
        value b = negation(r);
        a = truth(a.integer && b.integer);
    }
    return a;
}

static value disjunction(struct reader *r) {
    value a = conjunction(r);
    while (!r->failed && take(r, "or")) {
        value b = conjunction(r);
        a = truth(a.integer || b.integer);
    }
    return a;
}

static value choice(struct reader *r) {
    value a = disjunction(r);
    if (r->failed || !take(r, "if"))
        return a;
    value condition = disjunction(r);
    want(r, "else");
    value b = choice(r);
    value chosen = condition.integer ? a : b;
    return a.type == FORMULA_REAL || b.type == FORMULA_REAL ? real(as_real(chosen)) : chosen;
}

static value chain_of_scores(struct reader *r) {
    double outside = r->score;
    value a = choice(r);
    while (!r->failed && take(r, "then")) {
        r->score = as_real(a);
        a = choice(r);
    }
    r->score = outside;
    return a;
}

bool evaluate_text(const char *text, const struct formula_fixture *fixture, struct evaluated *out) {
    struct reader r = {text, fixture, fixture->env.score, false};
    *out = chain_of_scores(&r);
    blanks(&r);
    return !r.failed && *r.at == '\0';
}
