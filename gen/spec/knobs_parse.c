/* knobs_parse: "dtype=bf16 head_dim=96, mask=causal" -> struct knobs, and for problems struct hints. For the text of a
   problem or schedule that is not in a file: a C string, a command line. An expression is quoted. */
#include "formulas.h"
#include "gen.h"
#include "knob_text.h"

#include <string.h>

enum { ALIGNMENT_MOST = 256 };

struct cursor {
    const struct input *input;
    size_t at, line_start;
    int line;
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ','; }

static bool is_sign(char c) { return c == '=' || c == ':'; }

static bool more(const struct cursor *cursor) { return cursor->at < cursor->input->size; }

static char peek(const struct cursor *cursor) { return cursor->input->text[cursor->at]; }

static struct place here(const struct cursor *cursor) {
    return (struct place){cursor->input, cursor->line, (int)(cursor->at - cursor->line_start) + 1};
}

static void step(struct cursor *cursor) {
    bool newline = peek(cursor) == '\n';
    cursor->at++;
    if (newline) {
        cursor->line++;
        cursor->line_start = cursor->at;
    }
}

static void skip_spaces(struct cursor *cursor) {
    while (more(cursor) && (peek(cursor) == ' ' || peek(cursor) == '\t'))
        step(cursor);
}

static size_t take_name(struct cursor *cursor) {
    size_t start = cursor->at;
    while (more(cursor) && !is_blank(peek(cursor)) && !is_sign(peek(cursor)))
        step(cursor);
    return cursor->at - start;
}

/* Takes a value up to the closing quote, else up to a blank outside of parentheses. Its text is null if the quote is
   not closed. */
static struct formula_text take_value(struct cursor *cursor) {
    char quote = more(cursor) && (peek(cursor) == '"' || peek(cursor) == '\'') ? peek(cursor) : '\0';
    if (quote)
        step(cursor);
    struct formula_text value = {cursor->input->text + cursor->at, 0, here(cursor)};
    for (int depth = 0; more(cursor) && (quote ? peek(cursor) != quote : depth > 0 || !is_blank(peek(cursor)));
         step(cursor)) {
        depth += peek(cursor) == '(' || peek(cursor) == '[' ? 1 : peek(cursor) == ')' || peek(cursor) == ']' ? -1 : 0;
        value.size++;
    }
    if (quote && !more(cursor))
        value.text = NULL;
    else if (quote)
        step(cursor);
    return value;
}

static bool may_stand_here(int id, unsigned groups, struct place place, struct diag *diag) {
    static const char *const kinds[] = {"a knob of its own", "a problem knob", "a schedule knob"};
    if (groups & 1u << knob_table[id].group)
        return true;
    diag_error(diag, place, "%s is %s, which cannot be given here", knob_table[id].name, kinds[knob_table[id].group]);
    return false;
}

/* The result so far, and which parts of it have been given. */
struct result {
    struct knobs knobs;
    struct hints hints;
    bool hinted; /* sizes are allowed here */
    knob_flags given;
    struct formula_texts formulas;
    struct place size_place[SHAPE_COUNT]; /* line 0 = not given */
    struct place alignment_place;
};

static void parse_knob(const char *name, size_t name_size, struct place name_place, struct formula_text word,
                       unsigned groups, struct result *result, struct diag *diag) {
    int value, id = knob_name_read(name, name_size, groups, name_place, diag);
    if (id < 0 || !may_stand_here(id, groups, name_place, diag))
        return;
    if (knob_in(result->given, id))
        diag_error(diag, name_place, "%s is given twice", knob_table[id].name);
    result->given |= KNOB_FLAG(id);
    if (!knob_value_read((enum knob_id)id, word.text, word.size, word.place, diag, &value))
        return;
    knob_set(&result->knobs, (enum knob_id)id, value);
    if (knob_table[id].kind == KNOB_KIND_FORMULA)
        *formula_text_of(&result->formulas, (enum knob_id)id) = word;
}

/* Parses `params`, the parameters of expressions. False if the name is another one. */
static bool parse_params(const char *name, size_t name_size, struct place name_place, struct formula_text word,
                         struct result *result, struct diag *diag) {
    if (!text_equals(name, name_size, "params"))
        return false;
    if (result->formulas.params.text)
        diag_error(diag, name_place, "params is given twice");
    result->formulas.params = word;
    return true;
}

/* Parses a size or `alignment`. False if the name is neither. */
static bool parse_hint(const char *name, size_t name_size, struct place name_place, const char *word, size_t size,
                       struct place place, struct result *result, struct diag *diag) {
    bool is_alignment = text_equals(name, name_size, "alignment");
    int id = is_alignment ? -1 : shape_find(name, name_size);
    int64_t value;
    if (!is_alignment && id < 0)
        return false;
    struct place *seen = is_alignment ? &result->alignment_place : &result->size_place[id];
    if (seen->line)
        diag_error(diag, name_place, "%.*s is given twice", (int)name_size, name);
    *seen = name_place;
    if (!is_alignment) {
        if (integer_read(shape_table[id].name, word, size, shape_table[id].least, INT64_MAX, place, diag, &value))
            shape_set(&result->hints.shape, (enum shape_id)id, value);
    } else if (integer_read("alignment", word, size, 1, ALIGNMENT_MOST, place, diag, &value)) {
        result->hints.alignment = (int)value;
        if (value & (value - 1))
            diag_error(diag, place, "alignment must be a power of two");
    }
    return true;
}

/* Parses one NAME=VALUE. False if there is no such pair here: continuing would only give more errors. */
static bool parse_one(struct cursor *cursor, unsigned groups, struct result *result, struct diag *diag) {
    const char *name = cursor->input->text + cursor->at;
    struct place name_place = here(cursor);
    size_t name_size = take_name(cursor);
    skip_spaces(cursor);
    if (name_size == 0 || !more(cursor) || !is_sign(peek(cursor))) {
        diag_error(diag, name_place, "expected NAME=VALUE, as in head_dim=64");
        return false;
    }
    step(cursor);
    skip_spaces(cursor);
    struct formula_text word = take_value(cursor);
    if (!word.text) {
        diag_error(diag, word.place, "this quote is not closed");
        return false;
    }
    bool problem = groups & 1u << KNOB_GROUP_PROBLEM;
    if (problem && parse_params(name, name_size, name_place, word, result, diag))
        return true;
    if (!result->hinted || !parse_hint(name, name_size, name_place, word.text, word.size, word.place, result, diag))
        parse_knob(name, name_size, name_place, word, groups, result, diag);
    return true;
}

static void check_sizes(const struct result *result, struct diag *diag) {
    int family = result->knobs.family;
    for (int id = 0; family != AUTO && id < SHAPE_COUNT; id++)
        if (result->size_place[id].line && !(shape_table[id].families >> family & 1))
            diag_error(diag, result->size_place[id], "%s is not a size of %s", shape_table[id].name,
                       knob_word_name(KNOB_family, family));
}

static bool parse(const struct input *input, unsigned groups, struct result *result, struct diag *diag) {
    struct cursor cursor = {input, 0, 0, 1};
    int errors_before = diag->errors;
    for (bool good = true; good && diag->errors - errors_before < DIAG_LIMIT;) {
        while (more(&cursor) && is_blank(peek(&cursor)))
            step(&cursor);
        good = more(&cursor) && parse_one(&cursor, groups, result, diag);
    }
    check_sizes(result, diag);
    formulas_read(&result->formulas, &result->knobs, diag);
    return diag->errors == errors_before;
}

bool knobs_parse(const struct input *input, unsigned groups, struct knobs *knobs, struct diag *diag) {
    struct result result = {.knobs = *knobs};
    bool good = parse(input, groups, &result, diag);
    if (good)
        *knobs = result.knobs;
    return good;
}

bool problem_parse(const struct input *input, unsigned groups, struct knobs *knobs, struct hints *hints,
                   struct diag *diag) {
    struct result result = {.knobs = *knobs, .hinted = true};
    for (int id = 0; id < SHAPE_COUNT; id++)
        shape_set(&result.hints.shape, (enum shape_id)id, -1);
    bool good = parse(input, groups, &result, diag);
    if (good) {
        *knobs = result.knobs;
        *hints = result.hints;
    }
    return good;
}
