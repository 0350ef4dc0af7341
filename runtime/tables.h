/* tables: the tuned tables that a session chooses by: the caller's own, then those built into the library. */
#ifndef ATTILE_TABLES_H
#define ATTILE_TABLES_H

#include "failure.h"
#include "tuned.h"

enum { TABLES = 3 };

/* In the order in which they are asked. Not thread safe while it fills: tables_fill is called under a lock. */
struct tables {
    int count;
    const struct tuned *table[TABLES];
    bool filled;
};

/* Read the caller's own table, unless `path` is null. ATT_IO, or ATT_INVALID_TEXT with places. */
enum att_status tables_open(struct tables *tables, const char *path, struct failure *failure);

/* Add the built-in tables for this device, once; reading them is put off until a choice needs them. */
enum att_status tables_fill(struct tables *tables, const char *device, struct failure *failure);

void tables_close(struct tables *tables);

#endif
