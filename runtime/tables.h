/* tables: the tuned tables that a session chooses by: the caller's own, then those built into the library.

   The caller's table is read whole, when the session opens. Of the built-in ones, which are large, only what concerns a
   problem is read, when that problem is first asked for. */
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

/* The tables that are asked about one problem, in this order. They live as long as the struct tables. */
struct table_list {
    int count;
    const struct tuned *table[TABLES];
};

/* Read the caller's own table, unless `path` is null. ATT_IO, or ATT_INVALID_TEXT with places. To be closed in any
   case. */
enum att_status tables_open(struct tables *tables, const char *path, struct failure *failure);
void tables_close(struct tables *tables);

/* What there is for this device and problem (as tuned_problem gives it). A failure leaves out what could not be read:
   memory ran short, or a built-in table is faulty. */
enum att_status tables_ask(struct tables *tables, const char *device, const struct knobs *problem,
                           struct table_list *list, struct failure *failure);

/* The problem of these tables of which schedules can be borrowed for one without rows (tuned_offer). False: none. */
bool tables_lender(const struct tables *tables, const char *device, const struct knobs *problem, struct knobs *lender);

#endif
