/* yaml_reader: YAML text -> a small tree of maps, lists and scalars, each with its place. The only code that sees
   libyaml. What can surprise (anchors, aliases, tags, directives, several documents, keys that are not words, repeated
   keys) is refused, and so is what can hurt: size, depth, number of events, length of a scalar.

   Scalars stay text: what 010, no or ~ mean is for the schema to say, never for YAML. */
#ifndef ATTILE_YAML_READER_H
#define ATTILE_YAML_READER_H

#include "diag.h"

enum { YAML_BYTES = 1 << 20, YAML_DEPTH = 16, YAML_EVENTS = 20000, YAML_SCALAR = 4096, YAML_KEYS = 64 };

/* What the text is, for messages and limits. */
struct yaml_kind {
    const char *noun;  /* "spec" */
    const char *start; /* how one begins: "family: NAME" */
    size_t bytes;
    int events;
};

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    struct place place;
    struct node *first, *next; /* children; those of a map alternate key, value */
    struct node *last;
    int children;
    const char *raw; /* of a scalar: where the input holds exactly `text`; null when escapes or folding changed it */
    int raw_col;     /* column of raw */
    size_t size;
    char text[]; /* of a scalar: its value, NUL-terminated, without other NULs */
};

/* Read one document. Returns null when its structure could not be read. A tree may come with errors in the diag too:
   it is for finding more of them, not for use. The nodes' places borrow `input`. */
struct node *yaml_tree_read(const struct input *input, const struct yaml_kind *kind, struct diag *diag);
void yaml_tree_free(struct node *node); /* accepts null */

const char *node_kind_name(const struct node *node); /* "a list", for messages */

#endif
