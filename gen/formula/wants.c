#include "wants.h"

#include <stdio.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------------------------- */

/* For diag_nearest: all names that could have been meant. */
struct candidates {
    const struct formula_scope *scope;
    int next;
    char name[FORMULA_PARAM_NAME + 2];
};

static const char *next_candidate(void *context) {
    static const char *const fixed[] = {"dq", "dk", "dv", "d_sinks"};
    enum { FIXED = sizeof fixed / sizeof *fixed };
    struct candidates *all = context;
    int i = all->next++;
    if (i < FIXED)
        return fixed[i];
    while (i - FIXED < all->scope->count && all->scope->param[i - FIXED].type != FORMULA_REAL)
        i = all->next++;
    if (i - FIXED >= all->scope->count)
        return NULL;
    snprintf(all->name, sizeof all->name, "d_%s", all->scope->param[i - FIXED].name);
    return all->name;
}

static bool refuse_unknown(const char *name, size_t size, struct place place, const struct formula_scope *scope,
                           struct diag *diag) {
    struct candidates all = {.scope = scope};
    const char *meant = diag_nearest(name, size, next_candidate, &all);
    if (meant)
        diag_error(diag, place, "wants: there is no gradient '%s'; did you mean '%s'?", shown(name, size).text, meant);
    else
        diag_error(diag, place,
                   "wants: there is no gradient '%s', expected dq, dk, dv, d_sinks, or d_NAME of a declared parameter",
                   shown(name, size).text);
    return false;
}

static bool refuse_type(const struct formula_scope *scope, int param, struct place place, struct diag *diag) {
    struct text text = {0};
    formula_print_params(scope, 1u << param, &text);
    diag_error(diag, place, "wants: d_%s cannot be had: only floats have gradients, and it is declared as %s",
               scope->param[param].name, text_string(&text));
    text_free(&text);
    return false;
}

/* Returns the parameter that "d_NAME" refers to, or -1. */
static int param_of(const char *name, size_t size, const struct formula_scope *scope) {
    for (int i = 0; i < scope->count; i++)
        if (size > 2 && memcmp(name, "d_", 2) == 0 && text_equals(name + 2, size - 2, scope->param[i].name))
            return i;
    return -1;
}

bool wants_add(struct wants *wants, const char *name, size_t size, struct place place,
               const struct formula_scope *scope, struct diag *diag) {
    bool *flag = text_equals(name, size, "dq")        ? &wants->dq
                 : text_equals(name, size, "dk")      ? &wants->dk
                 : text_equals(name, size, "dv")      ? &wants->dv
                 : text_equals(name, size, "d_sinks") ? &wants->sinks
                                                      : NULL;
    int param = flag ? -1 : param_of(name, size, scope);
    if (!flag && param < 0)
        return refuse_unknown(name, size, place, scope, diag);
    if (!flag && scope->param[param].type != FORMULA_REAL)
        return refuse_type(scope, param, place, diag);
    if (flag ? *flag : wants->params >> param & 1) {
        diag_error(diag, place, "wants: %s is there twice", shown(name, size).text);
        return false;
    }
    if (flag)
        *flag = true;
    else
        wants->params |= 1u << param;
    return true;
}

static bool separates(char c) { return c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r'; }

bool wants_read(struct wants *wants, struct formula_text text, const struct formula_scope *scope, struct diag *diag) {
    struct place place = text.place;
    bool good = true, any = false;
    *wants = (struct wants){0};
    for (size_t i = 0, size; good && i < text.size; i += size) {
        for (size = 0; i + size < text.size && !separates(text.text[i + size]);)
            size++;
        if (size)
            good = any = wants_add(wants, text.text + i, size, place, scope, diag);
        bool newline = !size && text.text[i] == '\n';
        size += !size; /* a separator */
        place.line += newline;
        place.col = newline ? 1 : place.col + (int)size;
    }
    if (good && !any)
        diag_error(diag, text.place,
                   "wants takes names of gradients, as in \"dq, dk, dv\"; leave it out for these three");
    return good && any;
}

/* --- what has a gradient ----------------------------------------------------------------------------------------- */

bool wants_check(const struct wants *wants, const struct formula *score, const struct formula_scope *scope,
                 struct place place, struct diag *diag) {
    for (int i = 0; i < scope->count; i++) {
        struct formula_reads reads = {0};
        if (!(wants->params >> i & 1))
            continue;
        const char *name = scope->param[i].name;
        bool read = score && formula_params(score) >> i & 1;
        bool found = !read || formula_reads_find(score, 1u << i, &reads), has = reads.count > 0;
        formula_reads_free(&reads);
        if (has && found)
            continue;
        if (!read)
            diag_error(diag, place, "wants: d_%s cannot be had: the score does not read '%s'%s", name, name,
                       score ? ", and masks have no gradient" : ", it is the scaled product");
        else if (found)
            diag_error(diag, place, "wants: d_%s cannot be had: the score only compares '%s', and has no slope by it",
                       name, name);
        else
            diag_error(diag, place, "wants: d_%s cannot be had: the derivative of the score has too many parts", name);
        return false;
    }
    return true;
}

/* --- canonical text ---------------------------------------------------------------------------------------------- */

void wants_print(const struct wants *wants, const struct formula_scope *scope, struct text *text) {
    const char *separator = "";
    const struct {
        bool wanted;
        const char *name;
    } fixed[] = {{wants->dq, "dq"}, {wants->dk, "dk"}, {wants->dv, "dv"}, {wants->sinks, "d_sinks"}};
    if (wants->dq && wants->dk && wants->dv && !wants->sinks && !wants->params)
        return;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fixed[i].wanted) {
            text_print(text, "%s%s", separator, fixed[i].name);
            separator = ", ";
        }
    for (int i = 0; i < scope->count; i++)
        if (wants->params >> i & 1) {
            text_print(text, "%sd_%s", separator, scope->param[i].name);
            separator = ", ";
        }
}

bool wants_has(const char *text, const char *name) {
    const char *at = text;
    for (size_t word; (word = strcspn(at, ",")) > 0; at += word + strspn(at + word, ", "))
        if (text_equals(at, word, name))
            return true;
    return !*text;
}
