/* field: which kernels enter the race: of every schedule that a problem may have, the default one, those that the model
   expects to be fastest, and a sample of the rest, lest the model be wrong. The sample is the same every time. */
#ifndef ATTILE_FIELD_H
#define ATTILE_FIELD_H

#include "catalog.h"
#include "model.h"
#include "tuner.h"

enum { FIELD_REASONS = 8 };

struct field_variant {
    struct variant variant;
    int problem;               /* number in field->problem */
    uint64_t draw;             /* decides the sample: a hash of the name */
    double seconds;            /* scratch: predicted at one shape */
    char digest[TUNER_DIGEST]; /* "" = not yet asked for */
};

struct field {
    const struct template_set *set; /* borrowed */
    bool known_gpu;                 /* is there a model of it? */
    struct model_gpu gpu;
    int variants, room;
    struct field_variant *variant; /* feasible ones */
    int problems;
    struct knobs *problem; /* as tuned_problem has them */
    int pruned;
    int unwanted; /* feasible, but not asked for */
    struct {      /* why, the first few constraints */
        char text[VARIANT_REASON];
        int count;
    } reason[FIELD_REASONS];
};

/* Run through the space of a spec on the device of a record. `catalog` says which variants are wanted. False when memory
   runs out. Close it in any case. */
bool field_open(struct field *field, const struct spec *spec, const struct catalog *catalog,
                const struct record *setting);
void field_close(struct field *field);

/* "family=attention_forward dtype=bf16 ...": problem `i` as records have it. */
void field_print_problem(const struct field *field, int i, struct text *text);

/* Add `count` candidates for problem `i` at a shape to the tuner's last cell. False when memory runs out. */
bool field_pick(struct field *field, int i, const struct shape *shape, int count, struct tuner *tuner);

#endif
