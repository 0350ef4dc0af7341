/* yaml_reader: YAML text -> a small tree of maps, lists and scalars, each with its place. The only code that uses
   libyaml. It refuses surprising features (anchors, aliases, tags, directives, several documents, keys that are not
   words, repeated keys) and limits what can do harm: size, depth, number of events, length of a scalar.

   Scalars stay text: the schema, never YAML, decides what 010, no or ~ mean. */
#ifndef ATTILE_YAML_READER_H
#define ATTILE_YAML_READER_H

#include "diag.h"

enum { YAML_BYTES = 1 << 20, YAML_DEPTH = 16, YAML_EVENTS = 20000, YAML_SCALAR = 4096, YAML_KEYS = 64 };

/* The kind of text, for messages and limits. */
struct yaml_kind {
    const char *noun;  /* "spec" */
    const char *start; /* how such a text begins: "family: NAME" */
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
    const char *raw; /* of a scalar: where the input holds exactly `text`; null if escapes or folding changed it */
    int raw_col;     /* column of raw */
    size_t size;
    char text[]; /* of a scalar: its value, NUL-terminated, without other NULs */
};

/* Reads one document. Returns null if its structure could not be read. A tree may be returned despite errors in the
   diag: it then serves only to find more errors. The nodes' places borrow `input`. */
struct node *yaml_tree_read(const struct input *input, const struct yaml_kind *kind, struct diag *diag);
void yaml_tree_free(struct node *node); /* accepts null */

const char *node_kind_name(const struct node *node); /* "a list", for messages */

#endif
