#include "tables.h"
#include "text_file.h"

#include <errno.h>
#include <string.h>

static enum att_status add(struct tables *tables, const char *name, const char *text, size_t size,
                           struct failure *failure) {
    struct diag diag = {0};
    struct tuned *table = tuned_read(name, text, size, &diag);
    if (!table)
        return failure_take(failure, ATT_INVALID_TEXT, &diag);
    diag_free(&diag);
    tables->table[tables->count++] = table;
    return ATT_OK;
}

enum att_status tables_open(struct tables *tables, const char *path, struct failure *failure) {
    struct text text = {0};
    if (!path)
        return ATT_OK;
    if (text_file_read(path, &text))
        add(tables, path, text_string(&text), text.size, failure);
    else
        failure_set(failure, ATT_IO, "the tuned table %s cannot be read: %s", path, strerror(errno));
    text_free(&text);
    return failure->status;
}

static enum att_status add_embedded(struct tables *tables, const char *device, struct failure *failure) {
    struct text name = {0}, shown = {0};
    size_t size;
    tuned_file_name(device, &name);
    text_print(&shown, "tuned/%s", text_string(&name));
    const char *text = name.failed || shown.failed ? NULL : tuned_embedded(text_string(&name), &size);
    if (text)
        add(tables, text_string(&shown), text, size, failure);
    text_free(&name);
    text_free(&shown);
    return failure->status;
}

enum att_status tables_fill(struct tables *tables, const char *device, struct failure *failure) {
    if (tables->filled)
        return ATT_OK;
    tables->filled = true;
    if (add_embedded(tables, device, failure) != ATT_OK)
        return failure->status;
    return add_embedded(tables, "any", failure);
}

void tables_close(struct tables *tables) {
    for (int i = 0; i < tables->count; i++)
        tuned_free((struct tuned *)(uintptr_t)tables->table[i]);
    *tables = (struct tables){0};
}
