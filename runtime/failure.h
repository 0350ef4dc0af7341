/* failure: how internal functions report errors. A function that can fail takes a struct failure and returns its
   status; the text is written once, where the cause is known, and passed up unchanged. */
#ifndef ATTILE_FAILURE_H
#define ATTILE_FAILURE_H

#include "attile.h"
#include "diag.h"

struct failure {
    enum att_status status;
    struct text text; /* one or more complete sentences or compiler lines */
    bool wordless;    /* keeps the status alone, and so never allocates */
};

/* Replaces the present failure. Returns status. `failure` may be null if only the status is needed. */
enum att_status failure_set(struct failure *failure, enum att_status status, const char *format, ...) TEXT_PRINTF(3, 4);

/* Appends to the text of a failure already set, a log for example. Returns its status. */
enum att_status failure_add(struct failure *failure, const char *format, ...) TEXT_PRINTF(2, 3);

/* Replaces the failure by the errors of the generator, which reports all of them in the same way: running out of memory
   becomes ATT_OUT_OF_MEMORY, anything else `status`. Frees the diag. Returns the status. */
enum att_status failure_take(struct failure *failure, enum att_status status, struct diag *diag);

void failure_clear(struct failure *failure); /* frees the text, status back to ATT_OK */

#endif
