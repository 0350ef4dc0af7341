/* choose: a problem in words -> the variants that answer it, best first, each with the rule that put it there.

   1. What the rows of the tuned tables say of this device and problem, or of a similar one (choose_measured.c).
   2. The table of preferences in choose_preferred.c: what suits most shapes on this kind of device.

   A schedule in the request is kept in all of them. Whatever is infeasible, out of service, or cannot take the
   alignment that the request states is passed over. */
#ifndef ATTILE_CHOOSE_H
#define ATTILE_CHOOSE_H

#include "failure.h"
#include "gen.h"

/* Kernels that copy in boxes take addresses and strides of so many bytes. */
enum { BOX_ALIGNMENT = 16 };

struct request {
    struct knobs knobs; /* as given, defaults elsewhere; target AUTO when not given */
    struct hints hints;
    bool any_schedule; /* none was given */
};

/* Read the two texts; schedule may be null. ATT_INVALID_TEXT, or ATT_UNSUPPORTED when the device cannot run the target. */
enum att_status choose_read(const struct att_session *session, const char *problem, const char *schedule,
                            struct request *request, struct failure *failure);

/* Which GPUs run a target, in words, where the session's is none of them; else null. */
const char *choose_missing(const struct att_session *session, int target);

enum { CHOICE_RULE = 320 };

struct choice {
    struct variant variant;
    char rule[CHOICE_RULE];      /* why this one */
    knob_flags by_rule;          /* the rule set them, not the caller, the template or the table of knobs */
    char reason[VARIANT_REASON]; /* why there is none, while there was none */
    int next;                    /* place among all candidates; start with 0 */
    bool pinned;                 /* a lock file names it, or the caller's own table for this very shape */
    bool fits;                   /* it is made for the sizes of launches, which change nothing more of it */
    bool whole;                  /* of this place there is still the variant that the sizes of launches do not change */
    char fitted[VARIANT_NAME];   /* the last one that they changed: it comes once */
};

/* The next best variant; false at the end. `passed`, unless null, gets a line for each candidate passed over. */
bool choose_next(struct att_session *session, const struct request *request, struct choice *choice,
                 struct text *passed);

/* Launches of a kernel that was found without all sizes: those of some sizes take another kernel, which att_find would have chosen
   had it known them. A class is a kind of launch that has a kernel of its own: one for few queries, one whose heads share Q tiles, one with other
   tiles (choose_tiles.c). */
enum { SIZE_CLASSES = 24 };

/* May launches of the choice belong to classes? */
bool choose_has_classes(const struct request *request, const struct choice *choice);

/* The class of a launch, -1 = none. `found`: the chosen variant; `room`: there is a workspace, so that it may split keys. */
int choose_class(const struct request *request, const struct variant *found, const struct shape *shape, bool room);

/* The variant of a class, into *choice, which holds the chosen one. False: there is none. */
bool choose_for_class(struct att_session *session, const struct request *request, int size_class,
                      struct choice *choice);
void choose_print_class(int size_class, struct text *text); /* for people */

/* The shape that is assumed: what the request says or pins, and long sequences where it says nothing. */
struct shape choose_shape(const struct request *request);

#endif
