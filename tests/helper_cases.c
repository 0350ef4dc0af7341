#include "helper_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cases_updating(void) {
    const char *value = getenv("ATTILE_UPDATE_GOLDEN");
    return value && *value && strcmp(value, "0") != 0;
}

static FILE *open_file(const char *path, const char *mode) {
    char full[4096];
    int size = snprintf(full, sizeof full, "%s/%s", SOURCE_DIR, path);
    return size > 0 && (size_t)size < sizeof full ? fopen(full, mode) : NULL;
}

bool file_read(const char *path, struct text *text) {
    FILE *file = open_file(path, "rb");
    char buffer[4096];
    *text = (struct text){0};
    if (!file)
        return false;
    for (size_t size; (size = fread(buffer, 1, sizeof buffer, file)) > 0;)
        text_append(text, buffer, size);
    fclose(file);
    return !text->failed;
}

bool file_write(const char *path, const struct text *text) {
    FILE *file = open_file(path, "wb");
    if (!file)
        return false;
    bool written = fwrite(text_string(text), 1, text->size, file) == text->size;
    return fclose(file) == 0 && written;
}

/* Returns the start of the next line that begins with `mark`, or null. */
static const char *find_mark(const char *at, const char *mark) {
    while (at && strncmp(at, mark, strlen(mark)) != 0) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at;
}

static const char *next_line(const char *at) {
    const char *newline = strchr(at, '\n');
    return newline ? newline + 1 : at + strlen(at);
}

int cases_check(const char *file, case_run *run, int *run_count) {
    char path[512];
    struct text text, renewed = {0};
    int differing = 0, count = 0;
    snprintf(path, sizeof path, "tests/cases/%s", file);
    if (!file_read(path, &text))
        return -1;
    const char *at = find_mark(text_string(&text), "==== ");
    text_append(&renewed, text_string(&text), at ? (size_t)(at - text.bytes) : text.size);
    while (at) {
        const char *input = next_line(at), *expected_mark = find_mark(input, "---- expected");
        if (!expected_mark)
            break;
        const char *expected = next_line(expected_mark), *next = find_mark(expected, "==== ");
        size_t expected_size = next ? (size_t)(next - expected) : strlen(expected);
        char title[256];
        snprintf(title, sizeof title, "%.*s", (int)strcspn(at + 5, "\n"), at + 5);

        struct text output = {0};
        run(title, input, (size_t)(expected_mark - input), &output);
        text_append(&renewed, at, (size_t)(expected - at));
        text_append(&renewed, text_string(&output), output.size);
        if (output.size != expected_size || memcmp(text_string(&output), expected, expected_size) != 0) {
            differing++;
            if (!cases_updating())
                fprintf(stderr, "%s: %s\n--- expected\n%.*s--- found\n%s", path, title, (int)expected_size, expected,
                        text_string(&output));
        }
        text_free(&output);
        count++;
        at = next;
    }
    if (cases_updating() && differing > 0)
        differing = file_write(path, &renewed) ? 0 : -1;
    text_free(&text);
    text_free(&renewed);
    if (run_count)
        *run_count += count;
    return count > 0 ? differing : -1;
}
