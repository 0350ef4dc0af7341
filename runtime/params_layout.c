#include "params_layout.h"
#include "text.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Returns the end of the space or comment at `at`; `at` itself if there is none. A directive is not a comment. */
static const char *skip_one(const char *at) {
    if (text_is_blank(*at) || *at == '\n')
        return at + 1;
    if (strncmp(at, "/*", 2) == 0) {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : at + strlen(at);
    }
    return strncmp(at, "//", 2) == 0 && at[2] != '$' ? at + strcspn(at, "\n") : at;
}

static void add_code(struct text *code, const char *at) {
    size_t start = code->size;
    while (*at) {
        const char *after = at;
        for (const char *next; (next = skip_one(after)) != after;)
            after = next;
        if (after == at || code->size > start)
            text_append(code, after == at ? at : " ", 1);
        at = after == at ? at + 1 : after;
    }
}

bool params_layout(const struct embedded_file *templates, char word[PARAMS_LAYOUT]) {
    struct text code = {0};
    for (; templates->name; templates++)
        if (strncmp(templates->name, "params/", 7) == 0) {
            text_append(&code, templates->name, strlen(templates->name) + 1);
            add_code(&code, templates->text);
        }
    snprintf(word, PARAMS_LAYOUT, "%016llx", (unsigned long long)XXH3_64bits(code.bytes, code.size));
    bool whole = !code.failed;
    text_free(&code);
    return whole;
}
