/* chosen: maps the problems of a catalog to the kernels that att_find would choose for them on a GPU that need not be
   present, according to the tuned tables and the model (docs/tuned.md). */
#ifndef ATTILE_CHOSEN_H
#define ATTILE_CHOSEN_H

#include "catalog.h"
#include "model.h"
#include "shapes.h"

struct chosen {
    struct cli *cli;
    struct model_gpu gpu;
    att_session *session;  /* chooses like a session on that GPU */
    struct spec *own_spec; /* made from knobs, else null */
    struct shapes shapes;
    struct text seen; /* problems, one per line */
};

#define CHOSEN_OPTIONS                                                                                                 \
    {"for", 0, OPTION_TEXT, "GPU",                                                                                     \
     "instead of SPEC's schedules, those that the library chooses on this GPU ('h200', or the driver's name of it) "   \
     "for each problem at --shapes, from the tuned tables, ATTILE_TUNED first"},                                       \
        SHAPES_OPTION

/* Reads --for and --shapes. Close it in any case. */
enum exit_code chosen_open(struct chosen *chosen, struct cli *cli, const struct catalog *catalog);
void chosen_close(struct chosen *chosen);

/* Calls `take` with the kernel chosen for each problem at each shape; a kernel may come more than once. Stops at the
   first exit code that is not CLI_OK, and returns it. */
enum exit_code chosen_each(struct chosen *chosen, struct catalog *catalog,
                           enum exit_code (*take)(void *context, const struct variant *variant), void *context);

#endif
