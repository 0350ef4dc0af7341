#include "names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ROOM_FIRST = 64 };

struct name {
    struct name *next;          /* in the bucket */
    struct name *older, *newer; /* in order of use */
    struct att_kernel *kernel;
    uint64_t hash;
    size_t size;
    char text[];
};

static uint64_t hash_of(const struct text *text) { return XXH3_64bits(text_string(text), text->size); }

static struct name **bucket_of(const struct names *names, uint64_t hash) {
    return &names->buckets[hash & (names->room - 1)];
}

/* --- the order of use ------------------------------------------------------------------------------------------- */

static void take_out(struct names *names, struct name *name) {
    *(name->older ? &name->older->newer : &names->oldest) = name->newer;
    *(name->newer ? &name->newer->older : &names->newest) = name->older;
}

static void put_newest(struct names *names, struct name *name) {
    name->older = names->newest;
    name->newer = NULL;
    *(names->newest ? &names->newest->newer : &names->oldest) = name;
    names->newest = name;
}

/* --- the table -------------------------------------------------------------------------------------------------- */

static void forget(struct names *names, struct name *name) {
    struct name **link = bucket_of(names, name->hash);
    while (*link != name)
        link = &(*link)->next;
    *link = name->next;
    take_out(names, name);
    names->count--;
    free(name);
}

/* Doubles the number of buckets when there is a text for each. If memory is short, the old buckets remain in use. */
static bool grow(struct names *names) {
    size_t room = names->room ? 2 * names->room : ROOM_FIRST;
    struct name **buckets = calloc(room, sizeof *buckets);
    if (!buckets)
        return names->room > 0;
    free(names->buckets);
    names->buckets = buckets;
    names->room = room;
    for (struct name *name = names->oldest; name; name = name->newer) {
        struct name **bucket = bucket_of(names, name->hash);
        name->next = *bucket;
        *bucket = name;
    }
    return true;
}

static struct name *find_name(const struct names *names, const struct text *text) {
    if (!names->room)
        return NULL;
    uint64_t hash = hash_of(text);
    struct name *name = *bucket_of(names, hash);
    while (name &&
           (name->hash != hash || name->size != text->size || memcmp(name->text, text_string(text), text->size)))
        name = name->next;
    return name;
}

struct att_kernel *names_find(struct names *names, const struct text *text) {
    struct name *name = find_name(names, text);
    if (!name)
        return NULL;
    if (name != names->newest) {
        take_out(names, name);
        put_newest(names, name);
    }
    return name->kernel;
}

bool names_add(struct names *names, const struct text *text, struct att_kernel *kernel) {
    struct name *name = malloc(sizeof *name + text->size);
    if (!name || (names->count >= names->room && !grow(names))) {
        free(name);
        return false;
    }
    *name = (struct name){.kernel = kernel, .hash = hash_of(text), .size = text->size};
    memcpy(name->text, text_string(text), text->size);
    struct name **bucket = bucket_of(names, name->hash);
    name->next = *bucket;
    *bucket = name;
    put_newest(names, name);
    names->count++;
    if (names->limit && names->count > names->limit)
        forget(names, names->oldest);
    return true;
}

bool names_set(struct names *names, const struct text *text, struct att_kernel *kernel) {
    struct name *name = find_name(names, text);
    if (!name)
        return names_add(names, text, kernel);
    name->kernel = kernel;
    return true;
}

void names_forget(struct names *names, const struct att_kernel *kernel) {
    for (struct name *newer, *name = names->oldest; name; name = newer) {
        newer = name->newer;
        if (name->kernel == kernel)
            forget(names, name);
    }
}

void names_free(struct names *names) {
    for (struct name *newer, *name = names->oldest; name; name = newer) {
        newer = name->newer;
        free(name);
    }
    free(names->buckets);
    *names = (struct names){.limit = names->limit};
}
