/* plan: how a source is launched: which entries, on how many blocks, with how much workspace, as functions of the
   run-time sizes in shapes.def. Knob values are already folded in, so a plan is self-contained: it travels with the
   binary through the cache and into bundles. */
#ifndef ATTILE_PLAN_H
#define ATTILE_PLAN_H

#include "knobs.h"
#include "text.h"

#include <stdint.h>

enum shape_id {
#define SHAPE(name, families, least, fallback, about) SHAPE_##name,
#include "shapes.def"
    SHAPE_COUNT
};

/* The run-time sizes of one launch. */
struct shape {
#define SHAPE(name, families, least, fallback, about) int64_t name;
#include "shapes.def"
};

struct shape_info {
    const char *name;
    unsigned families; /* bit family_... set: used by that family; SHAPE_OF_DEVICE: the device or plan sets it */
    int64_t least;     /* smallest value allowed */
    int64_t fallback;  /* value if a test shape leaves it out; -1 = must be given */
    const char *about;
};

enum { SHAPE_OF_DEVICE = 1 << 30 };

extern const struct shape_info shape_table[SHAPE_COUNT];

int shape_find(const char *name, size_t size); /* enum shape_id, or -1 */
static inline int64_t shape_get(const struct shape *shape, enum shape_id id) { return ((const int64_t *)shape)[id]; }
static inline void shape_set(struct shape *shape, enum shape_id id, int64_t v) { ((int64_t *)shape)[id] = v; }

/* The value of SHAPE_packed_heads in a formula: it follows from heads and kv_heads. A unit of PACKED_ROWS rows of a
   packed Q tile holds as many queries of each of these heads as fit (templates/work/heads_packed.cuh). */
enum { PACKED_ROWS = 64 };
static inline int64_t shape_packed_heads(const struct shape *shape) {
    int64_t group = shape->kv_heads > 0 ? shape->heads / shape->kv_heads : 1;
    return group >= 1 && group <= PACKED_ROWS ? group : 1;
}

/* The sizes that knobs may pin, as `fixed: {len_q: 4096}` in a spec does: they become constants of the kernel. */
enum { FIXED_SIZES = 4 };
struct fixed_size {
    enum shape_id shape;
    enum knob_id knob; /* 0 = given at launch */
};
extern const struct fixed_size fixed_sizes[FIXED_SIZES];

enum { PLAN_STEPS = 160, PLAN_LAUNCHES = 8, PLAN_ENTRY = 64, PLAN_MAPS = 12, PLAN_MAP_NAME = 24, PLAN_CLUSTER = 8 };

enum plan_op {
    PLAN_CONSTANT,
    PLAN_SHAPE,
    PLAN_ADD,
    PLAN_SUBTRACT,
    PLAN_MULTIPLY,
    PLAN_DIVIDE,
    PLAN_MODULO,
    PLAN_MIN,
    PLAN_MAX
};

/* An integer expression over the run-time sizes in postfix order. */
struct plan_expr {
    int count;
    struct plan_step {
        enum plan_op op;
        int64_t value; /* of PLAN_CONSTANT: the number; of PLAN_SHAPE: enum shape_id */
    } step[PLAN_STEPS];
};

/* The parameter struct that a launch takes, a row of params.def. */
enum plan_params {
    PLAN_PARAMS_USUAL, /* the family's, with the tensor maps before it if there are any */
#define PARAMS(name, families, with_maps) PLAN_PARAMS_##name,
#include "params.def"
    PLAN_PARAMS
};
struct plan_params_info {
    const char *name;
    unsigned families; /* bit family_... set */
    bool with_maps;
};
extern const struct plan_params_info plan_params_table[PLAN_PARAMS];

struct plan_launch {
    char entry[PLAN_ENTRY]; /* name of the __global__ function */
    struct plan_expr grid;  /* blocks, in one dimension; 0 = skip this launch */
    int block;              /* threads in a block */
    int shared;             /* bytes of dynamic shared memory of a block */
    enum plan_params params;
    bool fills_tables; /* makes the tables of the mask (expression/tables_launch.cuh), behind the workspace's bytes */
    int cluster;       /* blocks of a cluster, at most PLAN_CLUSTER; divides the grid; 0 = no clusters */
    bool dependent;    /* programmatic dependent launch: the kernel itself waits for the previous launch */
};

/* The tensors that a map can describe, in the order of a launch's arguments; only attention_backward has d_o. */
enum plan_tensor {
    PLAN_Q,
    PLAN_K,
    PLAN_V,
    PLAN_O,
    PLAN_FORWARD_TENSORS,
    PLAN_D_O = PLAN_FORWARD_TENSORS,
    PLAN_TENSORS
};
extern const char *const plan_tensor_name[PLAN_TENSORS]; /* "q", ... */
static inline int plan_tensors_of(int family) {
    return family == family_attention_backward ? PLAN_TENSORS : PLAN_FORWARD_TENSORS;
}

/* A tensor that the kernel copies in boxes (TMA); the runtime describes it in a tensor map. The maps come before the
   parameters, each under its name. A box holds `rows` rows of `cols` elements of one head, with the 128-byte swizzle;
   elements outside the tensor read as 0 and are not written. A packed box holds the rows of shape_packed_heads heads,
   head after head, with rows / packed_heads queries each. */
struct plan_map {
    char name[PLAN_MAP_NAME];
    enum plan_tensor tensor;
    int rows, cols;
    bool packed;
};

/* The inputs that determine how many parts the keys of a Q tile are split into (splits.c has the rule). */
enum plan_split {
    PLAN_SPLIT_MOST,  /* maximum number of parts; exact number if the others are absent; count 0 = keys are not split */
    PLAN_SPLIT_TILES, /* Q tiles */
    PLAN_SPLIT_ON,    /* blocks that run concurrently, each on a part */
    PLAN_SPLIT_KEYS,  /* maximum number of keys that a Q tile visits */
    PLAN_SPLIT_SEEN,  /* keys that a Q tile visits on average */
    PLAN_SPLIT_EXPRS
};
/* The cost of parts in addition to their keys, in keys of a Q tile (splits.c): starting a block, writing and rereading
   a part, the second launch. */
enum { PLAN_KEYS_START = 128, PLAN_KEYS_PART = 256, PLAN_KEYS_COMBINE = 256 };

extern const char *const plan_split_name[PLAN_SPLIT_EXPRS]; /* "most", ... */
struct plan_splits {
    struct plan_expr expr[PLAN_SPLIT_EXPRS];
};

/* Launches run one after another in this order. */
struct plan {
    int launches;
    struct plan_launch launch[PLAN_LAUNCHES];
    struct plan_expr workspace; /* bytes of device memory the caller provides */
    struct plan_splits splits;
    int maps;
    struct plan_map map[PLAN_MAPS];
};

/* True if this launch takes the tensor maps. */
bool plan_with_maps(const struct plan *plan, int launch);

/* Evaluates an expression; false on overflow, division by zero or a malformed expression. Never allocates. */
bool plan_eval(const struct plan_expr *expr, const struct shape *shape, int64_t *value);

/* Sets shape->key_parts, which grids and workspace read: 1 unless splitting pays off. False as for plan_eval. Takes
   well under a microsecond. */
bool plan_split(const struct plan_splits *splits, struct shape *shape);

/* Prints an infix C expression over the names in shapes.def, with the fewest parentheses;
   "?" if it is malformed. */
void plan_print(const struct plan_expr *expr, struct text *text);

/* Prints " most 64, tiles ..., on ...". */
void plan_print_splits(const struct plan_splits *splits, struct text *text);

#endif
