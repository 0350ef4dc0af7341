/* failure: how internal functions say what went wrong. A function that can fail takes a struct failure and returns its
   status; the text is written once, where the cause is known, and carried up unchanged. */
#ifndef ATTILE_FAILURE_H
#define ATTILE_FAILURE_H

#include "attile.h"
#include "diag.h"

struct failure {
    enum att_status status;
    struct text text; /* one or more complete sentences or compiler lines */
};

/* Replace what is there. Returns status. `failure` may be null when only the status is needed. */
enum att_status failure_set(struct failure *failure, enum att_status status, const char *format, ...) TEXT_PRINTF(3, 4);

/* Add to the text of a failure already set, a log say. Returns its status. */
enum att_status failure_add(struct failure *failure, const char *format, ...) TEXT_PRINTF(2, 3);

/* Replace with the errors of the generator, which has one way to report them all: running out of memory becomes
   ATT_OUT_OF_MEMORY, anything else `status`. Frees the diag. Returns the status. */
enum att_status failure_take(struct failure *failure, enum att_status status, struct diag *diag);

void failure_clear(struct failure *failure); /* frees the text, status back to ATT_OK */

#endif
