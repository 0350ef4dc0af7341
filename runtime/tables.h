/* tables: the tuned tables that a session uses to choose: the caller's own, then those built into the library.

   The caller's table is read completely when the session opens. The built-in ones are large, so only the part that
   concerns a problem is read, at the first request for that problem. */
#ifndef ATTILE_TABLES_H
#define ATTILE_TABLES_H

#include "failure.h"
#include "tuned.h"

#include <pthread.h>

enum { TABLES = 3 };

struct tables {
    const struct tuned *own; /* null = none */
    bool bare;               /* without the built-in ones, for tests */
    pthread_mutex_t lock;    /* guards what follows */
    struct table_part *parts;
};

/* The tables to consult for one problem, in this order. They live as long as the struct tables. */
struct table_list {
    int count;
    const struct tuned *table[TABLES];
};

/* Reads the caller's own table, unless `path` is null. ATT_IO, or ATT_INVALID_TEXT with places. Call tables_close in
   any case. */
enum att_status tables_open(struct tables *tables, const char *path, struct failure *failure);
void tables_close(struct tables *tables);

/* Lists the tables for this device and problem (in the form of tuned_problem). On failure the list lacks what could not
   be read: memory ran out, or a built-in table is faulty. */
enum att_status tables_ask(struct tables *tables, const char *device, const struct knobs *problem,
                           struct table_list *list, struct failure *failure);

/* Finds the problem in these tables from which a problem without rows can borrow schedules (tuned_offer). False:
   none. */
bool tables_lender(const struct tables *tables, const char *device, const struct knobs *problem, struct knobs *lender);

#endif
