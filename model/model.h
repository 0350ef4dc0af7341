/* model: predicts from its knobs alone how long a kernel takes on a GPU, without a GPU and without a compiler.
   docs/model.md has the formulas and how well they agree with measurements.

   A prediction allocates nothing and takes about a microsecond, so a whole space of schedules can be sorted before any
   is compiled. Its purpose is that order; the times are right within a tenth where they were calibrated. */
#ifndef ATTILE_MODEL_H
#define ATTILE_MODEL_H

#include "gen.h"

/* A GPU, as read from a device file. */
struct model_gpu {
    char name[64]; /* the driver's name: "NVIDIA H200" */
    char arch[16]; /* "sm_90a" */
#define RATE(name, unit, about) double name;
#include "rates.def"
};

/* Reads a device file. Reports all errors of the text in one pass. */
bool model_gpu_read(const struct input *input, struct model_gpu *gpu, struct diag *diag);

/* Finds the device file with that name: the driver's name, or the file's ("h200"). Returns false if there is none. */
bool model_gpu_find(const char *name, struct model_gpu *gpu);

/* Copies the short name of known device file `i`. Returns false past the last one. */
bool model_gpu_list(int i, char *name, size_t size);

/* Returns the targets that can run on the GPU: bit target_... set. */
unsigned model_gpu_targets(const struct model_gpu *gpu);

struct model_terms {
#define TERM(name, unit, about) double name;
#include "terms.def"
    const char *bound; /* what takes longest: "tensor pipe", "softmax", "memory", ... */
};

/* Keys that the queries of one slice of a sequence see, for a mask that is an expression. */
struct model_slice {
    float first, end; /* range over all its queries: they see no key before first, and none from end on */
    float seen;       /* keys that one of its queries sees */
};
enum { MODEL_SLICES = 256 };
struct model_mask {
    int slices; /* of equal size; 0 = not known */
    struct model_slice slice[MODEL_SLICES];
};

/* Returns false if the mask is not an expression, or depends on what only a launch knows: mask->slices is then 0. */
bool model_mask_make(struct model_mask *mask, const struct knobs *problem, const struct shape *shape);

/* What else is known about a kernel. All zero = nothing. */
struct model_usage {
    int registers;                 /* per thread, as reported by the compiler */
    int spills;                    /* instructions or bytes: only zero or non-zero matters */
    const struct model_mask *mask; /* of this problem for this shape; null = every key counts as seen */
};

/* Predicts one launch. `usage` may be null. Returns false if the model does not know the algorithm or the shape is
   empty: terms->seconds is then 0. */
bool model_predict(const struct model_gpu *gpu, const struct variant *variant, const struct shape *shape,
                   const struct model_usage *usage, struct model_terms *terms);

/* The same, but computes the mask first, for an occasional prediction. */
bool model_predict_once(const struct model_gpu *gpu, const struct variant *variant, const struct shape *shape,
                        const struct model_usage *usage, struct model_terms *terms);

#endif
