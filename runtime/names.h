/* names: texts -> kernels. A bounded table drops the least recently used text. */
#ifndef ATTILE_NAMES_H
#define ATTILE_NAMES_H

#include "text.h"

struct att_kernel;
struct name;

struct names {
    size_t limit;          /* texts, set by the owner; 0 = no limit */
    size_t count, room;    /* texts; buckets, a power of two or 0 */
    struct name **buckets; /* owned */
    struct name *oldest, *newest;
};

/* Returns the kernel of a text, which becomes the most recently used; null = not known. */
struct att_kernel *names_find(struct names *names, const struct text *text);

/* Adds a text that is not known yet. False: out of memory. */
bool names_add(struct names *names, const struct text *text, struct att_kernel *kernel);

/* Sets the kernel of a text, whether it already has one or not. False: out of memory. */
bool names_set(struct names *names, const struct text *text, struct att_kernel *kernel);

/* Forgets all texts of a kernel. */
void names_forget(struct names *names, const struct att_kernel *kernel);

void names_free(struct names *names);

#endif
