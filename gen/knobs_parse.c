/* knobs_parse: "dtype=bf16 head_dim=96, mask=causal" -> struct knobs. The text of a problem or schedule where there is
   no file: a C string, a command line. */
#include "gen.h"
#include "knob_text.h"

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

/* A name ends at a sign, a value only at a blank. */
static size_t take_token(struct cursor *cursor, bool name) {
    size_t start = cursor->at;
    while (more(cursor) && !is_blank(peek(cursor)) && !(name && is_sign(peek(cursor))))
        cursor->at++;
    return cursor->at - start;
}

static bool may_stand_here(int id, unsigned groups, struct place place, struct diag *diag) {
    static const char *const kinds[] = {"a knob of its own", "a problem knob", "a schedule knob"};
    if (groups & 1u << knob_table[id].group)
        return true;
    diag_error(diag, place, "%s is %s, which cannot be given here", knob_table[id].name, kinds[knob_table[id].group]);
    return false;
}

/* One NAME=VALUE; `given` has bit KNOB_... set for each knob already read. False when there is no such pair here: what
   follows would only give more errors. */
static bool parse_one(struct cursor *cursor, unsigned groups, struct knobs *knobs, unsigned *given, struct diag *diag) {
    const char *name = cursor->input->text + cursor->at;
    struct place name_place = here(cursor);
    size_t name_size = take_token(cursor, true);
    skip_spaces(cursor);
    if (name_size == 0 || !more(cursor) || !is_sign(peek(cursor))) {
        diag_error(diag, name_place, "expected NAME=VALUE, as in head_dim=64");
        return false;
    }
    step(cursor);
    skip_spaces(cursor);
    const char *word = cursor->input->text + cursor->at;
    struct place place = here(cursor);
    size_t size = take_token(cursor, false);

    int value, id = knob_name_read(name, name_size, groups, name_place, diag);
    if (id < 0 || !may_stand_here(id, groups, name_place, diag))
        return true;
    if (*given & 1u << id)
        diag_error(diag, name_place, "%s is given twice", knob_table[id].name);
    *given |= 1u << id;
    if (knob_value_read((enum knob_id)id, word, size, place, diag, &value))
        knob_set(knobs, (enum knob_id)id, value);
    return true;
}

bool knobs_parse(const struct input *input, unsigned groups, struct knobs *knobs, struct diag *diag) {
    struct cursor cursor = {input, 0, 0, 1};
    int errors_before = diag->errors;
    unsigned given = 0;
    struct knobs result = *knobs;
    for (bool good = true; good && diag->errors - errors_before < DIAG_LIMIT;) {
        while (more(&cursor) && is_blank(peek(&cursor)))
            step(&cursor);
        good = more(&cursor) && parse_one(&cursor, groups, &result, &given, diag);
    }
    if (diag->errors != errors_before)
        return false;
    *knobs = result;
    return true;
}
