/* table_read: reading tables in YAML; shared by tuned_read.c and defaults.c only. */
#ifndef ATTILE_TABLE_READ_H
#define ATTILE_TABLE_READ_H

#include "tuned.h"
#include "yaml_reader.h"

struct defaults;
struct expr_scope;

struct table_reader {
    struct diag *diag;
    int errors_before;
    struct tuned *tuned;            /* of tuned_read */
    struct knobs problem;           /* likewise: the problem of the shapes being read */
    struct defaults *defaults;      /* of defaults_read */
    const struct expr_scope *scope; /* likewise: the names that a condition may use */
};

typedef void table_key_reader(struct table_reader *reader, const struct node *value, void *result);

/* A map has keys of a closed list; `result` is for the readers. */
struct table_key {
    const char *name;
    bool required;
    table_key_reader *read;
};

/* True if there are already DIAG_LIMIT errors. */
bool table_enough(const struct table_reader *reader);

/* True if this value has that kind and is not empty. Otherwise an error says what `what` takes. */
bool table_expect(struct table_reader *reader, const struct node *value, enum node_kind kind, const char *what);

void table_keys(struct table_reader *reader, const struct node *map, const struct table_key *keys, int count,
                const char *what, void *result);
void table_text(struct table_reader *reader, const struct node *value, char **result, const char *what);

/* Reads knobs of `groups`, and the knob `extra` of any group (-1: none), into `knobs`. */
void table_knobs(struct table_reader *reader, const struct node *map, unsigned groups, int extra, const char *what,
                 struct knobs *knobs);

#endif
