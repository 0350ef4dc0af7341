#include "tables.h"
#include "text_file.h"

#include <stdlib.h>
#include <string.h>

/* The part of the built-in tables that concerns one problem. */
struct table_part {
    struct table_part *next;
    struct knobs problem;
    struct table_list list;
};

static struct tuned *read_table(const char *name, const struct text *text, struct failure *failure) {
    struct diag diag = {0};
    struct tuned *table = tuned_read(name, text_string(text), text->size, &diag);
    if (!table)
        failure_take(failure, ATT_INVALID_TEXT, &diag);
    diag_free(&diag);
    return table;
}

enum att_status tables_open(struct tables *tables, const char *path, struct failure *failure) {
    struct text text = {0};
    *tables = (struct tables){0};
    pthread_mutex_init(&tables->lock, NULL);
    if (!path)
        return ATT_OK;
    const char *why = text_file_read(path, &text, NULL);
    if (why)
        failure_set(failure, ATT_IO, "the tuned table %s cannot be read: %s", path, why);
    else
        tables->own = read_table(path, &text, failure);
    text_free(&text);
    return failure->status;
}

/* read_table made the tables; only here they are not constant. */
static void free_table(const struct tuned *table) { tuned_free((struct tuned *)(uintptr_t)table); }

void tables_close(struct tables *tables) {
    free_table(tables->own);
    for (struct table_part *next, *part = tables->parts; part; part = next) {
        next = part->next;
        for (int i = 0; i < part->list.count; i++)
            free_table(part->list.table[i]);
        free(part);
    }
    pthread_mutex_destroy(&tables->lock);
}

/* --- built-in tables ----------------------------------------------------------------------------------------------- */

static void add_embedded(struct table_part *part, const char *device, struct failure *failure) {
    struct text file = {0}, name = {0}, excerpt = {0};
    size_t size;
    tuned_file_name(device, &file);
    text_print(&name, "tuned/%s", text_string(&file));
    const char *text = file.failed || name.failed ? NULL : tuned_embedded(text_string(&file), &size);
    if (text)
        tuned_excerpt(text, size, &part->problem, &excerpt);
    if (excerpt.failed)
        failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while reading %s", text_string(&name));
    else if (text && (part->list.table[part->list.count] = read_table(text_string(&name), &excerpt, failure)))
        part->list.count++;
    text_free(&file);
    text_free(&name);
    text_free(&excerpt);
}

static const struct table_part *find_part(struct tables *tables, const char *device, const struct knobs *problem,
                                          struct failure *failure) {
    for (const struct table_part *part = tables->parts; part; part = part->next)
        if (memcmp(&part->problem, problem, sizeof *problem) == 0)
            return part;
    struct table_part *part = calloc(1, sizeof *part);
    if (!part) {
        failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for a tuned table");
        return NULL;
    }
    part->problem = *problem;
    add_embedded(part, device, failure);
    add_embedded(part, "any", failure);
    part->next = tables->parts;
    tables->parts = part;
    return part;
}

enum att_status tables_ask(struct tables *tables, const char *device, const struct knobs *problem,
                           struct table_list *list, struct failure *failure) {
    *list = (struct table_list){0};
    if (tables->own && tuned_is_for(tables->own, device))
        list->table[list->count++] = tables->own;
    if (tables->bare)
        return ATT_OK;
    pthread_mutex_lock(&tables->lock);
    const struct table_part *part = find_part(tables, device, problem, failure);
    for (int i = 0; part && i < part->list.count; i++)
        list->table[list->count++] = part->list.table[i];
    pthread_mutex_unlock(&tables->lock);
    return failure->status;
}

/* --- borrowing ----------------------------------------------------------------------------------------------------- */

static void offer_embedded(const char *device, const struct knobs *problem, struct knobs *lender) {
    struct text file = {0};
    size_t size;
    tuned_file_name(device, &file);
    const char *text = file.failed ? NULL : tuned_embedded(text_string(&file), &size);
    if (text)
        tuned_offer_all(problem, text, size, lender);
    text_free(&file);
}

bool tables_lender(const struct tables *tables, const char *device, const struct knobs *problem, struct knobs *lender) {
    const struct tuned *own = tables->own;
    *lender = knobs_filled(AUTO);
    if (own && !own->lock && tuned_is_for(own, device))
        for (int i = 0; i < own->rows; i++)
            tuned_offer(problem, &own->row[i].problem, lender);
    if (!tables->bare) {
        offer_embedded(device, problem, lender);
        offer_embedded("any", problem, lender);
    }
    return lender->family != AUTO;
}
