/* report: predictions and measurements -> one self-contained HTML page: no script, no font, no network. */
#ifndef ATTILE_REPORT_H
#define ATTILE_REPORT_H

#include "model.h"

struct report_point { /* one variant at one shape */
    char name[VARIANT_NAME];
    int value[KNOB_COUNT]; /* value of every knob; AUTO if the template does not use it */
    int problem, shape;
    double predicted, measured; /* seconds; 0 = not known; measured: the mean of `measurements` */
    int measurements;
    double flops, bytes; /* as in the model's terms: required, and moved */
    bool compiled;       /* the next five fields are valid */
    int registers, spill_bytes, shared_bytes, instructions;
    double compile_seconds;
    bool front; /* on the Pareto front */
};

enum { REPORT_SHAPES = SPEC_SHAPES, REPORT_TIMES = 8, REPORT_LABEL = 200 };

struct report {
    char title[REPORT_LABEL], about[4 * REPORT_LABEL]; /* about: where and with what, in one or more sentences */
    struct model_gpu gpu;
    int family, shapes, problems, points, room, problem_room;
    struct shape shape[REPORT_SHAPES];
    struct report_problem {
        struct knobs knobs;
        char name[REPORT_LABEL];
    } * problem;
    struct report_point *point;
    int times;
    struct {
        const char *name;
        double seconds;
    } time[REPORT_TIMES]; /* breakdown of the elapsed time */
    int map_x, map_y;     /* knobs of the heat map; -1 = the tile sizes, else the knobs with most values */
    bool failed;          /* memory ran out at some point */
};

void report_open(struct report *report, const char *title, const struct model_gpu *gpu, int family);
void report_close(struct report *report);

/* Returns the number of the shape or problem, new or known; -1 when there are too many or memory ran out. */
int report_add_shape(struct report *report, const struct shape *shape);
int report_add_problem(struct report *report, const struct variant *variant);

/* report_add: a new point, predicted by the model; null when memory ran out or the shape is invalid. report_find: the
   existing point, or null. Both are valid until the next report_add. */
struct report_point *report_add(struct report *report, const struct variant *variant, int shape);
struct report_point *report_find(struct report *report, const struct variant *variant, int shape);

struct report_results {
    int used, failed;                       /* records of measurements, and of kernels that failed */
    int foreign;                            /* records of another GPU */
    double compile_seconds, launch_seconds; /* as reported: of compilers, and of launches timed one by one */
    int unknown; /* of another version: with a knob or word that this one lacks; or lines that are not ours */
};

/* Adds the contents of a results file (tune/journal.h) for this GPU and family. `known_only`: only for problems and
   shapes that the report already has. False with a sentence in *error when the file cannot be read. */
bool report_read_results(struct report *report, const struct template_set *set, const char *path, bool known_only,
                         struct report_results *results, struct text *error);

void report_add_time(struct report *report, const char *name, double seconds); /* name is borrowed */

/* Writes the whole page. */
void report_write(const struct report *report, struct text *html);

#endif
