/* catalog: the variants that a verb's SPEC argument and --variant option stand
   for. SPEC is a YAML file, "-", or a problem such as "family=softmax
   dtype=fp16", which is one variant. */
#ifndef ATTILE_CATALOG_H
#define ATTILE_CATALOG_H

#include "cli.h"

struct catalog {
    struct template_set *templates;
    struct spec *spec;    /* null for a problem */
    const char *name;     /* of the spec, for messages and emitted headers */
    struct knobs problem; /* if there is no spec */
    struct knobs given;   /* only the knobs that were given; AUTO elsewhere */
    struct hints hints;   /* its hints about sizes and alignment */
    const char *pattern;  /* --variant as a shell pattern for names, or null */
    struct knobs wanted;  /* --variant as name=value pairs: UNWANTED where any value matches */
    bool started;
    struct variants variants;
    struct text content;            /* of the spec file */
    struct template_folder *folder; /* of --templates, or null */
};

/* The option rows that catalog_open reads. */
#define CATALOG_OPTIONS                                                                                                \
    {"variant", 0, OPTION_TEXT, "FILTER",                                                                              \
     "only variants whose name matches (shell pattern), or with these knobs "                                          \
     "('dtype=fp16 head_dim=64')"},                                                                                    \
    {                                                                                                                  \
        "templates", 0, OPTION_TEXT, "DIR", "templates from a folder instead of the built-in ones"                     \
    }

/* Reads everything and reports every mistake. Close it in any case. */
enum exit_code catalog_open(struct catalog *catalog, struct cli *cli);
void catalog_close(struct catalog *catalog);

/* Returns the next variant that passes --variant, feasible or not; false at the end. Rewind to begin again. */
bool catalog_next(struct catalog *catalog, struct variant *variant);
bool catalog_wants(const struct catalog *catalog, const struct variant *variant); /* true if it passes --variant */
void catalog_rewind(struct catalog *catalog);

/* Counts what passes --variant. When nothing does, or nothing feasible, or when two have the same name, reports an
   error and returns the exit code. */
enum exit_code catalog_count(struct catalog *catalog, const struct cli *cli, int *feasible, int *pruned);

/* Prints problem and schedule as given, without open knobs, which the library chooses. `schedule` stays empty when none
   was given. */
void catalog_print_given(const struct catalog *catalog, struct text *problem, struct text *schedule);

/* Expands a variant and reports errors. Free the source in any case. */
enum exit_code catalog_expand(const struct catalog *catalog, const struct cli *cli, const struct variant *variant,
                              struct source *source);

#endif
