/* report: what was predicted and measured -> one HTML page that needs nothing else: no script, no font, no network. */
#ifndef ATTILE_REPORT_H
#define ATTILE_REPORT_H

#include "model.h"

struct report_point { /* one variant at one shape */
    char name[VARIANT_NAME];
    int value[KNOB_COUNT]; /* of every knob; AUTO where the template does not use it */
    int problem, shape;
    double predicted, measured; /* seconds; 0 = not known; measured: the mean of `measurements` */
    int measurements;
    double flops, bytes; /* as the model's terms: asked for, and moved */
    bool compiled;       /* the five below hold */
    int registers, spill_bytes, shared_bytes, instructions;
    double compile_seconds;
    bool front; /* on the Pareto front */
};

enum { REPORT_SHAPES = SPEC_SHAPES, REPORT_TIMES = 8, REPORT_LABEL = 200 };

struct report {
    char title[REPORT_LABEL], about[4 * REPORT_LABEL]; /* about: where and with what, one sentence or more */
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
    } time[REPORT_TIMES]; /* where the time went */
    int map_x, map_y;     /* knobs of the heat map; -1 = the sizes of a tile, else those with most values */
    bool failed;          /* out of memory once */
};

void report_open(struct report *report, const char *title, const struct model_gpu *gpu, int family);
void report_close(struct report *report);

/* Number of the shape or problem, new or known; -1 when there are too many or memory ran out. */
int report_add_shape(struct report *report, const struct shape *shape);
int report_add_problem(struct report *report, const struct variant *variant);

/* A new point, predicted by the model, or the one there is, or null. Valid until the next report_add, which gives null
   when memory ran out or the shape is none. */
struct report_point *report_add(struct report *report, const struct variant *variant, int shape);
struct report_point *report_find(struct report *report, const struct variant *variant, int shape);

struct report_results {
    int used, failed;                       /* records: of measurements, of kernels that failed */
    int foreign;                            /* of another GPU */
    double compile_seconds, launch_seconds; /* that they report: of compilers, and of launches timed one by one */
    int unknown; /* of another version: a knob or word that this one does not have, or no line of ours */
};

/* Add what a results file (tune/journal.h) says of this GPU and family; `known_only`: of problems and shapes that are
   there already. False with a sentence in *error when it cannot be read. */
bool report_read_results(struct report *report, const struct template_set *set, const char *path, bool known_only,
                         struct report_results *results, struct text *error);

void report_add_time(struct report *report, const char *name, double seconds); /* name is borrowed */

/* The whole page. */
void report_write(const struct report *report, struct text *html);

#endif
