/* model: how long a kernel will take on a GPU, from its knobs alone: no GPU, no compiler. docs/model.md has the formulas
   and how well they agree with measurements.

   A prediction allocates nothing and takes about a microsecond, so a whole space of schedules can be sorted before
   any is compiled. What it is for is that order; the times are right within a tenth where they were calibrated. */
#ifndef ATTILE_MODEL_H
#define ATTILE_MODEL_H

#include "gen.h"

/* A GPU, as read from a device file. */
struct model_gpu {
    char name[64]; /* as the driver has it: "NVIDIA H200" */
    char arch[16]; /* "sm_90a" */
#define RATE(name, unit, about) double name;
#include "rates.def"
};

/* Read a device file; all errors of the text in one pass. */
bool model_gpu_read(const struct input *input, struct model_gpu *gpu, struct diag *diag);

/* The device file of that name: the driver's name, or the file's ("h200"). False when there is none. */
bool model_gpu_find(const char *name, struct model_gpu *gpu);

/* Copy the short name of known device file `i`; false past the last. */
bool model_gpu_list(int i, char *name, size_t size);

/* Targets that can run there: bit target_... set. */
unsigned model_gpu_targets(const struct model_gpu *gpu);

struct model_terms {
#define TERM(name, unit, about) double name;
#include "terms.def"
    const char *bound; /* what takes longest: "tensor pipe", "softmax", "memory", ... */
};

/* Keys that the queries of one slice of a sequence see, of a mask that is an expression. */
struct model_slice {
    float first, end; /* of all its queries: none before, none from here on */
    float seen;       /* of one of its queries */
};
enum { MODEL_SLICES = 256 };
struct model_mask {
    int slices; /* equal ones; 0 = not known */
    struct model_slice slice[MODEL_SLICES];
};

/* False when the mask is no expression, or needs what only a launch knows: then mask->slices is 0. */
bool model_mask_make(struct model_mask *mask, const struct knobs *problem, const struct shape *shape);

/* What else is known. All zero = nothing. */
struct model_usage {
    int registers;                 /* of a thread, as the compiler said */
    int spills;                    /* instructions or bytes: none or some is what counts */
    const struct model_mask *mask; /* of this problem at this shape; null = every key counts as seen */
};

/* Predict one launch. `usage` may be null. False when the model does not know the algorithm, or the shape is empty:
   then terms->seconds is 0. */
bool model_predict(const struct model_gpu *gpu, const struct variant *variant, const struct shape *shape,
                   const struct model_usage *usage, struct model_terms *terms);

/* The same with the mask worked out first, for one prediction now and then. */
bool model_predict_once(const struct model_gpu *gpu, const struct variant *variant, const struct shape *shape,
                        const struct model_usage *usage, struct model_terms *terms);

#endif
