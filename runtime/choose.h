/* choose: the text of a problem -> the variants that solve it, best first, each with the rule that put it there.

   1. The rows of the tuned tables for this device and problem, or for a similar one (choose_measured.c).
   2. The table of preferences in choose_preferred.c: what suits most shapes on this kind of device.

   All of them keep a schedule given in the request. Candidates are passed over if they are infeasible, out of service,
   or cannot take the alignment that the request states. */
#ifndef ATTILE_CHOOSE_H
#define ATTILE_CHOOSE_H

#include "failure.h"
#include "gen.h"

/* Kernels that copy in boxes require addresses and strides that are multiples of this many bytes. */
enum { BOX_ALIGNMENT = 16 };

struct request {
    struct knobs knobs; /* as given, defaults elsewhere; target AUTO if not given */
    struct hints hints;
    bool any_schedule; /* no schedule was given */
};

/* Reads the two texts; schedule may be null. ATT_INVALID_TEXT, or ATT_UNSUPPORTED if the device cannot run the
   target. */
enum att_status choose_read(const struct att_session *session, const char *problem, const char *schedule,
                            struct request *request, struct failure *failure);

/* Names the GPUs that run a target, if the session's GPU is none of them; otherwise null. */
const char *choose_missing(const struct att_session *session, int target);

enum { CHOICE_RULE = 320 };

struct choice {
    struct variant variant;
    char rule[CHOICE_RULE];      /* why this one */
    knob_flags by_rule;          /* knobs set by the rule, not by the caller, the template or the table of knobs */
    char reason[VARIANT_REASON]; /* why there is none, as long as there is none */
    int next;                    /* index among all candidates; start with 0 */
    bool pinned;                 /* a lock file names it, or the caller's own table for exactly this shape */
    bool fits;                   /* it is made for the sizes of launches, which change nothing more in it */
    bool whole;                  /* at this index, the variant without the changes for launch sizes is still to come */
    char fitted[VARIANT_NAME];   /* the last variant changed for launch sizes: it is offered once */
};

/* Finds the next best variant; false at the end. `passed`, unless null, receives a line for each candidate passed
   over. */
bool choose_next(struct att_session *session, const struct request *request, struct choice *choice,
                 struct text *passed);

/* Launches of a kernel that was found without all sizes: those of some sizes use another kernel, the one that att_find
   would have chosen had it known the sizes. A class is a kind of launch that has a kernel of its own: one for few
   queries, one whose heads share Q tiles, one with other tiles (choose_tiles.c), one for gradients
   (choose_gradients.c). */
enum { RULE_CLASSES = 32 };

/* True if launches of the choice may belong to classes. */
bool choose_has_classes(const struct request *request, const struct choice *choice);

/* Returns the class of a launch, -1 = none. `found`: the chosen variant; `room`: there is a workspace, so that it may
   split keys. */
int choose_class(const struct request *request, const struct variant *found, const struct shape *shape, bool room);

/* Replaces the chosen variant in *choice by that of a class. False if there is none. */
bool choose_for_class(struct att_session *session, const struct request *request, int size_class,
                      struct choice *choice);
void choose_print_class(int size_class, struct text *text); /* for people */

/* The sizes in the tables' rows for one problem: the first of them, if a table of the caller's has more. */
enum { MEASURED_SIZES = 64 };
struct measured_sizes {
    int count; /* 0: the tables have no rows for the problem, nor rows that it borrows */
    struct measured_size {
        struct shape shape;
        int same; /* the first sizes for which hints find the same variant; -1 = the found one */
    } size[MEASURED_SIZES];
};

/* Lists them. Takes some milliseconds. */
void choose_measured_sizes(struct att_session *session, const struct request *request, const struct variant *found,
                           struct measured_sizes *sizes);

/* Returns which of the listed sizes have the variant of a launch that belongs to no class: the one that hints of the
   nearest sizes find. -1 = the found one. Neither allocates nor locks. */
int choose_measured_size(const struct variant *found, const struct measured_sizes *sizes, const struct shape *shape,
                         bool room);

/* Makes the choice for these sizes, in place of those that the request hints, without the changes of a class. False if
   there is none. */
bool choose_for_sizes(struct att_session *session, const struct request *request, const struct variant *found,
                      const struct shape *shape, struct choice *choice);
void choose_print_sizes(const struct shape *shape, int family, struct text *text); /* each after a space */

/* Returns the assumed shape: the sizes that the request states or pins, and long sequences where it states none. */
struct shape choose_shape(const struct request *request);

#endif
