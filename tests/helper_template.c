#include "helper_template.h"

#include <string.h>

/* Returns the next line "@ name" at or after `at`, or `end`. */
static const char *find_mark(const char *at, const char *end) {
    while (at < end) {
        if (end - at >= 2 && at[0] == '@' && at[1] == ' ')
            return at;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return end;
}

const char *template_text_load(void *context, const char *name, size_t *size) {
    const struct template_text *text = context;
    const char *at = text->text, *end = at + text->size, *mark = find_mark(at, end);
    if (strcmp(name, "attention_flash.cu") == 0) {
        *size = (size_t)(mark - at);
        return at;
    }
    while (mark < end) {
        const char *newline = memchr(mark, '\n', (size_t)(end - mark));
        if (!newline)
            return NULL;
        const char *next = find_mark(newline + 1, end);
        if (strlen(name) == (size_t)(newline - mark) - 2 && memcmp(mark + 2, name, strlen(name)) == 0) {
            *size = (size_t)(next - newline) - 1;
            return newline + 1;
        }
        mark = next;
    }
    return NULL;
}

struct template_set *template_text_open(struct template_text *text, struct diag *diag) {
    return template_set_open(template_text_load, text, diag);
}

struct knobs template_text_knobs(void) {
    struct knobs knobs = knobs_default();
    knobs.family = family_attention_forward;
    knobs.algorithm = algorithm_flash;
    return knobs;
}
