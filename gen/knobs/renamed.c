#include "renamed.h"

#include <string.h>

static const struct {
    const char *before;
    enum knob_id now;
} knobs[] = {
#define RENAMED_KNOB(before, now) {before, KNOB_##now},
#include "renamed.def"
};

static const struct {
    enum knob_id knob;
    const char *before, *now;
} words[] = {
#define RENAMED_WORD(knob, before, now) {KNOB_##knob, before, now},
#include "renamed.def"
};

int renamed_find(const char *s, size_t size) {
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        if (text_equals(s, size, knobs[i].before))
            return (int)knobs[i].now;
    return -1;
}

/* Returns the row of `words`, or -1. */
static int find_word(int id, const char *s, size_t size) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((id < 0 || (int)words[i].knob == id) && text_equals(s, size, words[i].before))
            return (int)i;
    return -1;
}

static void say_knob(struct text *text, int id, const char *s, size_t size) {
    text_print(text, "knob '%.*s' is called '%s' now", (int)size, s, knob_table[id].name);
}

static void say_word(struct text *text, int row) {
    text_print(text, "'%s' of knob %s is called '%s' now", words[row].before, knob_table[words[row].knob].name,
               words[row].now);
}

int renamed_knob(const char *s, size_t size, struct place place, struct diag *diag) {
    struct text sentence = {0};
    int id = renamed_find(s, size);
    if (id < 0)
        return -1;
    say_knob(&sentence, id, s, size);
    diag_error(diag, place, "%s", text_string(&sentence));
    text_free(&sentence);
    return id;
}

bool renamed_word(int id, const char *s, size_t size, struct place place, struct diag *diag) {
    struct text sentence = {0};
    int row = find_word(id, s, size);
    if (row < 0)
        return false;
    say_word(&sentence, row);
    diag_error(diag, place, "%s", text_string(&sentence));
    text_free(&sentence);
    return true;
}

bool renamed_in_schedule(const char *schedule, struct text *error) {
    size_t size;
    for (const char *at = schedule; *at; at += size + (at[size] == ' ')) {
        size = strcspn(at, " ");
        size_t name = strcspn(at, " =");
        int id = knob_find(at, name), before = renamed_find(at, name);
        int row = id >= 0 && name < size ? find_word(id, at + name + 1, size - name - 1) : -1;
        if (id < 0 && before >= 0)
            say_knob(error, before, at, name);
        else if (row >= 0)
            say_word(error, row);
        if ((id < 0 && before >= 0) || row >= 0)
            return true;
    }
    return false;
}
