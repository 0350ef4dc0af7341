#include "knob_text.h"
#include "renamed.h"

#include <inttypes.h>
#include <string.h>

void text_choices(struct text *text, const char *const *words) {
    for (int i = 0; words[i]; i++)
        text_print(text, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

const char *next_word(void *context) {
    const char *const **at = context;
    return **at ? *(*at)++ : NULL;
}

static bool all_digits(const char *s, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return size > 0;
}

/* Returns what is wrong with text that some readers take for a number, or "" if none does. */
static const char *integer_hint(const char *s, size_t size) {
    if (size == 0 || text_equals(s, size, "~") || text_equals(s, size, "null") || text_equals(s, size, "auto"))
        return ": leave it out to get the default";
    if (size > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X' || s[1] == 'o' || s[1] == 'b'))
        return ": write it in decimal";
    if (all_digits(s, size) && s[0] == '0' && size > 1)
        return ": drop the leading zero, which some YAML readers take for octal";
    if (s[0] == '+' && all_digits(s + 1, size - 1))
        return ": drop the sign";
    if (s[0] < '0' || s[0] > '9')
        return "";
    if (memchr(s, 'e', size) || memchr(s, 'E', size))
        return ": write all digits, without an exponent";
    if (memchr(s, '.', size))
        return ": write it without a point";
    return memchr(s, '_', size) || memchr(s, ',', size) ? ": write the digits together" : "";
}

bool integer_read(const char *what, const char *s, size_t size, int64_t least, int64_t most, struct place place,
                  struct diag *diag, int64_t *value) {
    bool decimal = all_digits(s, size) && (size == 1 || s[0] != '0');
    int64_t result = 0;
    for (size_t i = 0; decimal && i < size && result <= most; i++)
        if (__builtin_mul_overflow(result, 10, &result) || __builtin_add_overflow(result, s[i] - '0', &result))
            result = INT64_MAX;
    bool fits = decimal && result >= least && result <= most && !(result == INT64_MAX && size > 19);
    if (fits) {
        *value = result;
        return true;
    }
    struct text range = {0};
    if (most < INT64_MAX)
        text_print(&range, "an integer from %" PRId64 " to %" PRId64, least, most);
    else
        text_print(&range, "an integer of at least %" PRId64, least);
    if (size == 0)
        diag_error(diag, place, "%s must be %s, found nothing", what, text_string(&range));
    else
        diag_error(diag, place, "%s must be %s, found '%s'%s", what, text_string(&range), shown(s, size).text,
                   !decimal            ? integer_hint(s, size)
                   : most == INT64_MAX ? ": that is more than 64 bits hold"
                                       : "");
    text_free(&range);
    return false;
}

static bool word_read(enum knob_id id, const char *s, size_t size, struct place place, struct diag *diag, int *value) {
    const struct knob_info *knob = &knob_table[id];
    int word = knob_word(id, s, size);
    if (word >= 0) {
        *value = word;
        return true;
    }
    if (renamed_word(id, s, size, place, diag))
        return false;
    const char *const *words = knob->words;
    const char *meant = diag_nearest(s, size, next_word, &words);
    struct text choices = {0};
    text_choices(&choices, knob->words);
    if (size == 0 || text_equals(s, size, "~") || text_equals(s, size, "auto"))
        diag_error(diag, place, "%s must be %s; leave it out to get the default", knob->name, text_string(&choices));
    else if (meant)
        diag_error(diag, place, "%s must be %s, found '%s'; did you mean '%s'?", knob->name, text_string(&choices),
                   shown(s, size).text, meant);
    else
        diag_error(diag, place, "%s must be %s, found '%s'", knob->name, text_string(&choices), shown(s, size).text);
    text_free(&choices);
    return false;
}

/* Reads a word other than the last, or an expression, whose value is the last word. */
static bool formula_read(enum knob_id id, const char *s, size_t size, struct place place, struct diag *diag,
                         int *value) {
    const struct knob_info *knob = &knob_table[id];
    int last = 0, word = knob_word(id, s, size);
    while (knob->words[last + 1])
        last++;
    *value = word >= 0 ? word : last;
    if (size == 0)
        diag_error(diag, place, "%s takes a word or an expression; leave it out to get the default", knob->name);
    else if (word == last)
        diag_error(diag, place, "'%s' is what an expression of this knob is called: write the expression itself",
                   knob->words[last]);
    return size > 0 && word != last;
}

bool knob_value_read(enum knob_id id, const char *s, size_t size, struct place place, struct diag *diag, int *value) {
    const struct knob_info *knob = &knob_table[id];
    if (knob->kind == KNOB_KIND_FORMULA)
        return formula_read(id, s, size, place, diag, value);
    if (knob->kind == KNOB_KIND_WORD)
        return word_read(id, s, size, place, diag, value);
    int64_t wide;
    if (renamed_word(id, s, size, place, diag) ||
        !integer_read(knob->name, s, size, knob->least, knob->most, place, diag, &wide))
        return false;
    *value = (int)wide;
    return true;
}

/* For diag_nearest: names of the knobs of some groups. */
struct knob_names {
    unsigned groups;
    int next;
};

static const char *next_knob(void *context) {
    struct knob_names *names = context;
    while (names->next < KNOB_COUNT) {
        const struct knob_info *knob = &knob_table[names->next++];
        if (names->groups & 1u << knob->group)
            return knob->name;
    }
    return NULL;
}

int knob_name_read(const char *s, size_t size, unsigned groups, struct place place, struct diag *diag) {
    int id = knob_find(s, size);
    if (id < 0)
        id = renamed_knob(s, size, place, diag);
    if (id >= 0)
        return id;
    struct knob_names names = {groups, 0};
    const char *choice[KNOB_COUNT + 1];
    for (int i = 0; (choice[i] = next_knob(&names)); i++)
        continue;
    names.next = 0;
    const char *meant = diag_nearest(s, size, next_knob, &names);
    struct text choices = {0};
    text_choices(&choices, choice);
    if (meant)
        diag_error(diag, place, "unknown knob '%s'; did you mean '%s'?", shown(s, size).text, meant);
    else
        diag_error(diag, place, "unknown knob '%s': expected one of %s", shown(s, size).text, text_string(&choices));
    text_free(&choices);
    return -1;
}

void key_refuse(const char *s, size_t size, const char *owner, const char *const *names, struct place place,
                struct diag *diag) {
    const char *const *at = names;
    const char *meant = diag_nearest(s, size, next_word, &at);
    struct text choices = {0};
    text_choices(&choices, names);
    if (meant)
        diag_error(diag, place, "unknown key '%s'; did you mean '%s'?", shown(s, size).text, meant);
    else
        diag_error(diag, place, "unknown key '%s': %s has %s", shown(s, size).text, owner, text_string(&choices));
    text_free(&choices);
}
