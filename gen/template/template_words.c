/* template_words: the identifiers in the text of a template, the knobs that they name, and the values of its `tune`
   lists. */
#include "template.h"

#include <string.h>

/* Returns the end of the comment or quote that begins at `at`, or `at` if none does. */
static const char *skip_quoted(const char *at, const char *end) {
    if (end - at >= 2 && at[0] == '/' && at[1] == '/') {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        return newline ? newline : end;
    }
    if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
        const char *close = memmem(at + 2, (size_t)(end - at) - 2, "*/", 2);
        return close ? close + 2 : end;
    }
    if (*at != '"')
        return at;
    const char *start = at++;
    while (at < end && *at != '"' && *at != '\n')
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    return at < end && *at == '"' ? at + 1 : start + 1;
}

void template_words(const char *text, size_t size, word_found *found, void *context) {
    const char *at = text, *end = text + size;
    while (at < end) {
        if (text_is_name(*at)) {
            bool capitals = true;
            const char *start = at;
            for (; at < end && text_is_name(*at); at++)
                capitals &= !(*at >= 'a' && *at <= 'z');
            if (!text_is_digit(*start))
                found(context, start, (size_t)(at - start), capitals);
        } else {
            const char *after = *at == '/' || *at == '"' ? skip_quoted(at, end) : at;
            at = after > at ? after : at + 1;
        }
    }
}

int template_constant(const char *name, size_t size) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        const char *knob = knob_table[id].name;
        size_t i = 0;
        while (i < size && knob[i] &&
               name[i] == (knob[i] == '_' || text_is_digit(knob[i]) ? knob[i] : knob[i] - 'a' + 'A'))
            i++;
        if (i == size && !knob[i] && knob_table[id].kind == KNOB_KIND_INT)
            return id;
    }
    return -1;
}

bool template_tune_value(const struct expr *list, int i, enum knob_id knob, int *value) {
    const struct knob_info *info = &knob_table[knob];
    struct expr_type type = expr_type(list);
    struct knobs none = knobs_default();
    struct expr_env env = {.knobs = &none};
    struct expr_fault fault;
    int64_t number;
    if ((info->words ? EXPR_WORD : EXPR_INT) != type.kind || expr_knobs(list) ||
        !expr_eval_item(list, i, &env, &number, &fault))
        return false;
    if (info->words) /* the words of a list are numbered within it */
        number = knob_word(knob, type.words[number], strlen(type.words[number]));
    *value = (int)number;
    return info->words ? number >= 0 : number >= info->least && number <= info->most;
}
