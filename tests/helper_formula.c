#include "helper_formula.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

unsigned formula_random(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (unsigned)(((unsigned long long)(*seed >> 8) * below) >> 24);
}

void formula_fixture_scope(struct formula_scope *scope) {
    static const char *const params[][2] = {{"window", "int"},
                                            {"wide", "bool"},
                                            {"cap", "float"},
                                            {"doc", "int[batch, len_kv]"},
                                            {"slope", "float[heads]"},
                                            {"seen", "bool[len_q, len_kv]"},
                                            {"bias", "float[heads, len_q, len_kv]"}};
    struct diag diag = {0};
    *scope = (struct formula_scope){0};
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        if (!formula_declare(scope, (struct place){0}, params[i][0], (struct place){0}, params[i][1], &diag))
            fprintf(stderr, "%s", text_string(&diag.text));
    diag_free(&diag);
}

struct formula *formula_fixture_parse(enum formula_kind kind, const char *text, const struct formula_scope *scope,
                                      bool loud) {
    struct input input = {"formula", text, strlen(text)};
    struct diag diag = {0};
    struct formula *formula = formula_parse(kind, (struct place){&input, 1, 1}, text, input.size, scope, &diag);
    if (!formula && loud)
        fprintf(stderr, "%s", text_string(&diag.text));
    diag_free(&diag);
    return formula;
}

static unsigned hash(int param, int dims, const int64_t *index) {
    unsigned h = 2166136261u + (unsigned)param;
    for (int i = 0; i < dims; i++)
        h = (h ^ (unsigned)index[i]) * 16777619u;
    return (h ^ h >> 15) * 2654435761u >> 16;
}

/* Grows with the lowest four bits of the hash, from the least value of the type to the greatest. */
static union formula_value value_of(const struct formula_param *param, unsigned h) {
    int step = (int)(h & 15);
    if (param->type == FORMULA_REAL)
        return (union formula_value){.real = step == 0 ? -INFINITY : step == 15 ? INFINITY : 0.25 * (step - 8)};
    if (param->type == FORMULA_BOOL)
        return (union formula_value){.integer = step & 1};
    return (union formula_value){.integer = step == 0 ? INT32_MIN : step == 15 ? INT32_MAX : step - 3};
}

static bool precedes(const struct formula_param *param, union formula_value a, union formula_value b) {
    return param->type == FORMULA_REAL ? a.real < b.real : a.integer < b.integer;
}

static union formula_value tensor(void *context, int number, enum formula_access access, const int64_t *index) {
    const struct formula_fixture *fixture = context;
    const struct formula_param *param = &fixture->scope->param[number];
    enum { BOX = 4096 };
    int64_t at[FORMULA_DIMS], volume = 1;
    if (access == FORMULA_AT) {
        union formula_value value = value_of(param, hash(number, param->dims, index));
        if (fixture->finite && param->type == FORMULA_REAL)
            value.real = fmin(fmax(value.real, -2), 2);
        return value;
    }
    for (int i = 0; i < param->dims; i++) {
        int64_t extent = index[2 * i + 1] - index[2 * i] + 1;
        volume = extent < 0 || extent > BOX || volume > BOX ? BOX + 1 : volume * extent;
        at[i] = index[2 * i];
    }
    if (volume > BOX) /* too many to look at: the extremes that a hash can give */
        return value_of(param, access == FORMULA_LEAST ? 0 : 15);
    union formula_value best = value_of(param, hash(number, param->dims, at));
    for (int64_t n = 0; n < volume; n++) {
        union formula_value value = value_of(param, hash(number, param->dims, at));
        if (access == FORMULA_LEAST ? precedes(param, value, best) : precedes(param, best, value))
            best = value;
        for (int i = 0; i < param->dims && ++at[i] > index[2 * i + 1]; i++)
            at[i] = index[2 * i];
    }
    return best;
}

void formula_fixture_draw(struct formula_fixture *fixture, const struct formula_scope *scope, unsigned *seed) {
    static const int64_t windows[] = {-2, -1, 0, 1, 2, 3, 5, 8, FORMULA_SCALAR, -FORMULA_SCALAR};
    *fixture = (struct formula_fixture){.scope = scope};
    int64_t *name = fixture->env.name;
    name[FORMULA_BATCH] = 1 + formula_random(seed, 2);
    name[FORMULA_KV_HEADS] = 1 + formula_random(seed, 2);
    name[FORMULA_HEADS] = name[FORMULA_KV_HEADS] * (1 + formula_random(seed, 2));
    name[FORMULA_LEN_Q] = 1 + formula_random(seed, 10);
    name[FORMULA_LEN_KV] = 1 + formula_random(seed, 10);
    name[FORMULA_B] = formula_random(seed, (unsigned)name[FORMULA_BATCH]);
    name[FORMULA_H] = formula_random(seed, (unsigned)name[FORMULA_HEADS]);
    name[FORMULA_HK] = name[FORMULA_H] / (name[FORMULA_HEADS] / name[FORMULA_KV_HEADS]);
    fixture->scalar[0].integer = windows[formula_random(seed, sizeof windows / sizeof *windows)];
    fixture->scalar[1].integer = formula_random(seed, 2);
    unsigned cap = formula_random(seed, 10);
    fixture->scalar[2].real = cap == 8 ? -INFINITY : cap == 9 ? INFINITY : 0.5 + cap;
    fixture->env.scalar = fixture->scalar;
    fixture->env.context = fixture;
    fixture->env.tensor = tensor;
}

/* Compiled by the host's C++ compiler; p has the scalars. As above, a bound is the extreme that a hash can give, unless
   the box is small enough to look at. */
const char formula_fixture_cxx[] =
    "#include <cmath>\n"
    "#define __device__\n"
    "#define __forceinline__ inline\n"
    "struct params { int window; bool wide; float cap; };\n"
    "template <typename Int> Int min(Int a, Int b) { return a < b ? a : b; }\n"
    "template <typename Int> Int max(Int a, Int b) { return a > b ? a : b; }\n"
    "static unsigned hash(int param, const long long *index, int dims) {\n"
    "    unsigned h = 2166136261u + (unsigned)param;\n"
    "    for (int i = 0; i < dims; i++)\n"
    "        h = (h ^ (unsigned)index[i]) * 16777619u;\n"
    "    return (h ^ h >> 15) * 2654435761u >> 16;\n"
    "}\n"
    "template <typename... Index> unsigned element(int param, Index... i) {\n"
    "    long long index[] = {i...};\n"
    "    return hash(param, index, sizeof...(i));\n"
    "}\n"
    "template <typename... Index> unsigned extreme(int param, int most, int mask, Index... i) {\n"
    "    long long box[] = {i...}, at[4], volume = 1;\n"
    "    const int dims = sizeof...(i) / 2;\n"
    "    for (int d = 0; d < dims; d++) {\n"
    "        long long extent = box[2 * d + 1] - box[2 * d] + 1;\n"
    "        volume = extent < 0 || extent > 4096 || volume > 4096 ? 4097 : volume * extent;\n"
    "        at[d] = box[2 * d];\n"
    "    }\n"
    "    if (volume > 4096)\n"
    "        return most ? 15 : 0;\n"
    "    unsigned best = hash(param, at, dims) & mask;\n"
    "    for (long long n = 0; n < volume; n++) {\n"
    "        unsigned h = hash(param, at, dims) & mask;\n"
    "        if (most ? h > best : h < best)\n"
    "            best = h;\n"
    "        for (int d = 0; d < dims && ++at[d] > box[2 * d + 1]; d++)\n"
    "            at[d] = box[2 * d];\n"
    "    }\n"
    "    return best;\n"
    "}\n"
    "#define TENSOR(name, number, type, mask, value)                                                            \\\n"
    "    template <typename... I> type name##_at(const params &, I... i) {                                      \\\n"
    "        unsigned h = element(number, (long long)i...) & mask;                                              \\\n"
    "        return value;                                                                                      \\\n"
    "    }                                                                                                      \\\n"
    "    template <typename... I> type name##_least(const params &, I... i) {                                   \\\n"
    "        unsigned h = extreme(number, 0, mask, (long long)i...) & mask;                                     \\\n"
    "        return value;                                                                                      \\\n"
    "    }                                                                                                      \\\n"
    "    template <typename... I> type name##_most(const params &, I... i) {                                    \\\n"
    "        unsigned h = extreme(number, 1, mask, (long long)i...) & mask;                                     \\\n"
    "        return value;                                                                                      \\\n"
    "    }\n"
    "static int whole(unsigned h) { return h == 0 ? -2147483647 - 1 : h == 15 ? 2147483647 : (int)h - 3; }\n"
    "static float real(unsigned h) { return h == 0 ? -INFINITY : h == 15 ? INFINITY : 0.25f * ((int)h - 8); }\n"
    "TENSOR(doc, 3, int, 15, whole(h))\n"
    "TENSOR(slope, 4, float, 15, real(h))\n"
    "TENSOR(seen, 5, bool, 1, h != 0)\n"
    "TENSOR(bias, 6, float, 15, real(h))\n";

/* --- random formulas ------------------------------------------------------------------------------------------------ */

struct drawer {
    unsigned *seed;
    struct text *text;
    bool score; /* may use s */
    bool exact; /* reals must be exact in fp32 */
};

static unsigned pick(struct drawer *d, unsigned below) { return formula_random(d->seed, below); }
static void say(struct drawer *d, const char *text) { text_print(d->text, "%s", text); }

static void draw_int(struct drawer *d, int depth);
static void draw_bool(struct drawer *d, int depth);
static void draw_real(struct drawer *d, int depth);

typedef void draw(struct drawer *d, int depth);

/* Writes "(a OP b)", sometimes without the brackets: precedence then gives another formula, which is just as good. */
static void draw_infix(struct drawer *d, int depth, draw *part, const char *const *symbols, unsigned count) {
    const char *symbol = symbols[pick(d, count)];
    bool brackets = pick(d, 3) > 0;
    say(d, brackets ? "(" : "");
    part(d, depth - 1);
    text_print(d->text, pick(d, 4) ? " %s " : "  %s\t", symbol);
    part(d, depth - 1);
    say(d, brackets ? ")" : "");
}

static void draw_call(struct drawer *d, int depth, const char *open, draw *part, int count) {
    say(d, open);
    for (int i = 0; i < count; i++) {
        say(d, i ? ", " : "");
        part(d, depth - 1);
    }
    say(d, strchr(open, '[') ? "]" : ")");
}

static void draw_if(struct drawer *d, int depth, draw *part) {
    say(d, "(");
    part(d, depth - 1);
    say(d, " if ");
    bool exact = d->exact;
    d->exact = true;
    draw_bool(d, depth - 1);
    d->exact = exact;
    say(d, " else ");
    part(d, depth - 1);
    say(d, ")");
}

static void draw_int(struct drawer *d, int depth) {
    static const char *const leaves[] = {"q",     "k",      "q", "k", "b", "h", "hk", "len_q", "len_kv",
                                         "heads", "window", "0", "1", "2", "3", "7",  "16",    "1000000"};
    static const char *const infixes[] = {"+", "-", "*", "//", "%", "&", "|", "^", "+", "-"};
    if (depth <= 0) {
        say(d, leaves[pick(d, sizeof leaves / sizeof *leaves)]);
        return;
    }
    switch (pick(d, 12)) {
    case 0: draw_call(d, depth, pick(d, 2) ? "min(" : "max(", draw_int, 2 + (int)pick(d, 2)); return;
    case 1: draw_call(d, depth, "abs(", draw_int, 1); return;
    case 2: draw_call(d, depth, "doc[", draw_int, 2); return;
    case 3: draw_call(d, depth, pick(d, 2) ? "-(" : "~(", draw_int, 1); return;
    case 4: draw_if(d, depth, draw_int); return;
    case 5:
        draw_call(d, depth, "(", draw_int, 1);
        text_print(d->text, pick(d, 2) ? " >> %u" : " << %u", pick(d, 5));
        return;
    case 6:
        say(d, "(1 >> ");
        draw_int(d, depth - 1);
        say(d, ")");
        return;
    case 7: say(d, leaves[pick(d, sizeof leaves / sizeof *leaves)]); return;
    default: draw_infix(d, depth, draw_int, infixes, sizeof infixes / sizeof *infixes);
    }
}

static void draw_bool(struct drawer *d, int depth) {
    static const char *const comparisons[] = {"<", "<=", ">", ">=", "==", "!="};
    static const char *const leaves[] = {"k <= q", "wide", "k < window", "q - k < window",
                                         "causal", "true", "chunked(4)"};
    static const char *const logic[] = {"and", "or", "and"};
    if (depth <= 0) {
        say(d, leaves[pick(d, sizeof leaves / sizeof *leaves)]);
        return;
    }
    switch (pick(d, 10)) {
    case 0:
    case 1:
    case 2: draw_infix(d, depth, draw_bool, logic, 3); return;
    case 3: draw_call(d, depth, "not (", draw_bool, 1); return;
    case 4: draw_call(d, depth, "seen[", draw_int, 2); return;
    case 5: draw_if(d, depth, draw_bool); return;
    case 6: {
        bool exact = d->exact;
        d->exact = true;
        draw_infix(d, depth > 2 ? 2 : depth, draw_real, comparisons, 6);
        d->exact = exact;
        return;
    }
    default: draw_infix(d, depth, draw_int, comparisons, 6);
    }
}

/* Writes an exact real: quarters and integers of moderate size, added and compared. */
static void draw_exact(struct drawer *d, int depth) {
    static const char *const leaves[] = {"slope[h]", "cap", "0.5", "3.25", "s", "bias[h, q, k]"};
    static const char *const infixes[] = {"+", "-"};
    if (depth > 0 && pick(d, 2))
        draw_infix(d, depth, draw_real, infixes, 2);
    else
        say(d, leaves[(pick(d, 6) + (d->score ? 0 : 5)) % (d->score ? 6 : 4)]);
}

static void draw_real(struct drawer *d, int depth) {
    static const char *const infixes[] = {"+", "-", "*", "+", "*"};
    static const char *const calls[] = {"tanh(", "sigmoid(", "exp(-abs(", "log(1 + abs(", "sqrt(abs("};
    if (d->exact || depth <= 0) {
        draw_exact(d, depth);
        return;
    }
    unsigned call = pick(d, 5);
    switch (pick(d, 9)) {
    case 0:
        draw_call(d, depth, calls[call], draw_real, 1);
        say(d, call > 1 ? ")" : "");
        return;
    case 1: draw_call(d, depth, pick(d, 2) ? "min(" : "max(", draw_real, 2); return;
    case 2: draw_if(d, depth, draw_real); return;
    case 3: draw_call(d, depth, pick(d, 2) ? "abs(" : "-(", draw_real, 1); return;
    case 4:
        draw_real(d, depth - 1);
        draw_call(d, depth, " / (1.5 + abs(", draw_real, 1);
        say(d, ")");
        return;
    case 5: draw_call(d, depth, "real(", draw_int, 1); return;
    default: draw_infix(d, depth, draw_real, infixes, 5);
    }
}

/* Writes one to four comparisons like "2 * q - k <= window + 3". */
static void draw_affine(struct drawer *d) {
    static const char *const sides[] = {"q",         "k",          "q - k",      "k - q",      "2 * q - k",
                                        "3 * k - q", "window",     "window - 1", "0",          "2",
                                        "-3",        "len_kv - 4", "q + k",      "-k",         "q - window",
                                        "k * 2 + b", "len_q",      "doc[b, h]",  "window * 4", "2 * doc[b, 0] - k"};
    static const char *const comparisons[] = {"<", "<=", ">", ">=", "<=", "<", "=="};
    unsigned count = 1 + pick(d, 4);
    for (unsigned i = 0; i < count; i++) {
        say(d, i ? " and " : "");
        if (pick(d, 8) == 0) {
            say(d, pick(d, 2) ? "abs(q - k) <= window" : "max(k, k - q) <= min(q + 2, len_kv)");
            continue;
        }
        text_print(d->text, "%s %s %s", sides[pick(d, 20)], comparisons[pick(d, 7)], sides[pick(d, 20)]);
    }
}

void formula_draw(enum formula_flavor flavor, int depth, unsigned *seed, struct text *text) {
    struct drawer d = {seed, text, flavor == FLAVOR_SCORE, false};
    if (flavor == FLAVOR_AFFINE)
        draw_affine(&d);
    else if (flavor == FLAVOR_MASK)
        draw_bool(&d, depth);
    else
        draw_real(&d, depth);
    if (flavor == FLAVOR_SCORE && formula_random(seed, 4) == 0)
        text_print(text, " then %s", formula_random(seed, 2) ? "softcap(cap)" : "s + slope[h] * (k - q)");
}
