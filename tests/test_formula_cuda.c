#include "helper_formula.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The printed C++ gives the same values as the evaluator. The host's compiler compiles random formulas and their bounds
   in one go, and traps where an integer overflows or a shift goes too far. */

enum { FORMULAS = 160, EACH = 8 };

struct sample {
    struct text text;
    struct formula *formula[EACH]; /* itself, and for a mask: some, all, first, end, full_first, full_end */
    int count;
};

static const struct formula_spelling spelling = {.score = "s"};

static void draw_sample(struct sample *sample, unsigned number, const struct formula_scope *scope) {
    struct formula_keys keys;
    bool score = number % 3 == 0;
    for (unsigned seed = number * 1000; !sample->count; seed += 7) { /* until one fits the limits */
        unsigned state = seed;
        text_free(&sample->text);
        formula_draw(score             ? FLAVOR_SCORE
                     : number % 3 == 1 ? FLAVOR_MASK
                                       : FLAVOR_AFFINE,
                     2 + (int)(number % 3), &state, &sample->text);
        sample->formula[0] =
            formula_fixture_parse(score ? FORMULA_SCORE : FORMULA_MASK, text_string(&sample->text), scope, false);
        sample->count = sample->formula[0] != NULL;
    }
    if (score)
        return;
    cr_assert(formula_tile(sample->formula[0], &sample->formula[1], &sample->formula[2]));
    cr_assert(formula_keys(sample->formula[0], &keys));
    sample->formula[3] = keys.first;
    sample->formula[4] = keys.end;
    sample->formula[5] = keys.full_first;
    sample->formula[6] = keys.full_end;
    sample->count = 7;
}

static void print_function(struct text *source, const struct formula *formula, int sample, int which) {
    text_print(source, "extern \"C\" double f_%d_%d(const params &p, const int *n, float s) {\n    int ", sample,
               which);
    static const char *const names[FORMULA_NAMES] = {"b",       "h",      "hk",       "q",     "k",
                                                     "batch",   "heads",  "kv_heads", "len_q", "len_kv",
                                                     "q_first", "q_last", "k_first",  "k_last"};
    for (int i = 0; i < FORMULA_NAMES; i++)
        text_print(source, "%s%s = n[%d]", i ? ", " : "", names[i], i);
    text_print(source, ";\n    return static_cast<double>(");
    formula_print_cuda(formula, &spelling, source);
    text_print(source, ");\n}\n");
}

static void *compile(const struct text *source) {
    char path[64] = "/tmp/attile_formula_XXXXXX", command[512], file[96];
    cr_assert(mkdtemp(path));
    snprintf(file, sizeof file, "%s/f.cpp", path);
    FILE *out = fopen(file, "w");
    cr_assert(out);
    fwrite(source->bytes, 1, source->size, out);
    fclose(out);
    const char *compiler = getenv("CXX");
    snprintf(command, sizeof command,
             "%s -std=c++20 -O0 -w -shared -fPIC -fsanitize=signed-integer-overflow,shift,integer-divide-by-zero "
             "-fsanitize-undefined-trap-on-error %s -o %s/f.so",
             compiler && *compiler ? compiler : "c++", file, path);
    cr_assert_eq(system(command), 0, "%s does not compile", file);
    snprintf(file, sizeof file, "%s/f.so", path);
    void *library = dlopen(file, RTLD_NOW);
    cr_assert(library, "%s", dlerror());
    snprintf(command, sizeof command, "rm -r %s", path);
    cr_assert_eq(system(command), 0);
    return library;
}

struct params {
    int window;
    bool wide;
    float cap;
};
typedef double function(const struct params *p, const int *names, float s);

static double expected(const struct formula *formula, const struct formula_env *env) {
    switch (formula_type(formula)) {
    case FORMULA_BOOL: return formula_mask(formula, env);
    case FORMULA_INT: return (double)formula_integer(formula, env);
    default: return formula_score(formula, env);
    }
}

/* Compares fp32 with double, within a few roundings of moderate numbers. Values above 1e6 are not compared. */
static bool agree(enum formula_type type, double found, double wanted) {
    if (type != FORMULA_REAL)
        return found == wanted;
    if (isnan(wanted) || isnan(found))
        return isnan(wanted) && isnan(found);
    return fabs(found - wanted) <= 1e-3 * (1 + fabs(wanted)) || fabs(wanted) > 1e6;
}

static void check(void *library, const struct sample *sample, int number, const struct formula_scope *scope,
                  unsigned *seed) {
    struct formula_fixture fixture;
    for (int which = 0; which < sample->count; which++) {
        char symbol[32];
        function *call;
        snprintf(symbol, sizeof symbol, "f_%d_%d", number, which);
        *(void **)&call = dlsym(library, symbol);
        cr_assert(call);
        for (int round = 0; round < 40; round++) {
            formula_fixture_draw(&fixture, scope, seed);
            int64_t *name = fixture.env.name;
            int names[FORMULA_NAMES];
            name[FORMULA_K] = formula_random(seed, (unsigned)name[FORMULA_LEN_KV]);
            name[FORMULA_Q] = name[FORMULA_LEN_KV] - 1 - formula_random(seed, (unsigned)name[FORMULA_LEN_Q]);
            name[FORMULA_Q_FIRST] = name[FORMULA_Q];
            name[FORMULA_Q_LAST] = name[FORMULA_Q] + formula_random(seed, 4);
            name[FORMULA_K_FIRST] = name[FORMULA_K];
            name[FORMULA_K_LAST] = name[FORMULA_K] + formula_random(seed, 4);
            fixture.env.score = 0.25 * (double)((int)formula_random(seed, 32) - 16);
            for (int i = 0; i < FORMULA_NAMES; i++)
                names[i] = (int)name[i];
            struct params p = {(int)fixture.scalar[0].integer, fixture.scalar[1].integer != 0,
                               (float)fixture.scalar[2].real};
            double wanted = expected(sample->formula[which], &fixture.env);
            double found = call(&p, names, (float)fixture.env.score);
            if (agree(formula_type(sample->formula[which]), found, wanted))
                continue;
            struct text cuda = {0};
            formula_print_cuda(sample->formula[which], &spelling, &cuda);
            cr_assert(false, "%s, formula %d: C++ has %.9g, the evaluator %.9g\n%s", text_string(&sample->text), which,
                      found, wanted, text_string(&cuda));
        }
    }
}

Test(formula_cuda, printed_formulas_say_what_the_evaluator_says) {
    static struct sample samples[FORMULAS];
    struct formula_scope scope;
    struct text source = {0}, body = {0};
    const struct formula *all[FORMULAS * EACH];
    int count = 0;
    unsigned seed = 99;
    formula_fixture_scope(&scope);
    text_print(&source, "%s", formula_fixture_cxx);
    for (int i = 0; i < FORMULAS; i++) {
        draw_sample(&samples[i], (unsigned)i, &scope);
        for (int which = 0; which < samples[i].count; which++) {
            all[count++] = samples[i].formula[which];
            print_function(&body, samples[i].formula[which], i, which);
        }
    }
    formula_print_helpers(all, count, &source);
    text_append(&source, body.bytes, body.size);
    cr_assert(!source.failed && !body.failed);
    void *library = compile(&source);
    for (int i = 0; i < FORMULAS; i++)
        check(library, &samples[i], i, &scope, &seed);
    dlclose(library);
    for (int i = 0; i < FORMULAS; i++) {
        for (int which = 0; which < samples[i].count; which++)
            formula_free(samples[i].formula[which]);
        text_free(&samples[i].text);
    }
    text_free(&source);
    text_free(&body);
    formula_scope_free(&scope);
}
