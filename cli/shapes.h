/* shapes: the --shapes option: several shapes in one text, or those of the spec, or the usual ones of the family. */
#ifndef ATTILE_SHAPES_H
#define ATTILE_SHAPES_H

#include "cli.h"

struct shapes {
    int count;
    struct shape shape[SPEC_SHAPES];
};

#define SHAPES_OPTION                                                                                                  \
    {                                                                                                                  \
        "shapes", 0, OPTION_TEXT, "SIZES",                                                                             \
            "run-time sizes, shapes separated by ';': 'batch=4,heads=16,len_q=4096,len_kv=4096; ...' (default: the "   \
            "spec's, else 16384 tokens in sequences of 1024, 4096 and 16384)"                                          \
    }

/* Reads --shapes; `spec` may have shapes of its own. Reports mistakes. */
enum exit_code shapes_read(struct shapes *shapes, const struct cli *cli, const struct spec *spec);

#endif
