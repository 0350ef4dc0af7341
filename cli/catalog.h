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
    struct knobs problem; /* when there is no spec */
    struct knobs given;   /* what of it was given; AUTO elsewhere */
    struct hints hints;   /* what it says of sizes and alignment */
    const char *pattern;  /* --variant as a shell pattern for names, or null */
    struct knobs wanted;  /* --variant as name=value pairs: UNWANTED where any
                           value will do */
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

/* Read everything and report every mistake. Close it in any case. */
enum exit_code catalog_open(struct catalog *catalog, struct cli *cli);
void catalog_close(struct catalog *catalog);

/* The next variant that passes --variant, feasible or not; false at the end. Rewind to begin again. */
bool catalog_next(struct catalog *catalog, struct variant *variant);
bool catalog_wants(const struct catalog *catalog, const struct variant *variant); /* does it pass --variant? */
void catalog_rewind(struct catalog *catalog);

/* Count what passes --variant. An error when nothing does, or nothing feasible, or when two have one name:
   then the exit code to return. */
enum exit_code catalog_count(struct catalog *catalog, const struct cli *cli, int *feasible, int *pruned);

/* Problem and schedule of a problem as given, without open knobs, which the library chooses.
   `schedule` stays empty when none was given. */
void catalog_print_given(const struct catalog *catalog, struct text *problem, struct text *schedule);

/* Expand a variant, reporting what is wrong. Free the source in any case. */
enum exit_code catalog_expand(const struct catalog *catalog, const struct cli *cli, const struct variant *variant,
                              struct source *source);

#endif
