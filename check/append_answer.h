/* append_answer: workloads of family append_kv: where new tokens go, and what must be in the cache then. */
#ifndef ATTILE_APPEND_ANSWER_H
#define ATTILE_APPEND_ANSWER_H

#include "gen.h"

#include <stdint.h>

struct workload;

/* Of slots=1: (batch * len_q), owned; null otherwise. */
struct append_places {
    int64_t *slot;     /* page * page_size + row; -1 = nowhere */
    int32_t *position; /* from 0 to len_kv - 1 */
};

/* Sizes of the cache of these knobs, and of the tables of cosines and sines. */
int64_t append_blocks(const struct knobs *problem, const struct shape *shape); /* sequences or pages */
int64_t append_rows(const struct knobs *problem, const struct shape *shape);   /* of one of them */
int64_t append_half(const struct knobs *problem);                              /* pairs that are rotated */

/* Slots in random order, some of them -1, more in the cache than tokens. False when memory runs out. */
bool append_make(struct append_places *places, const struct knobs *problem, const struct shape *shape, uint64_t seed);
void append_free(struct append_places *places);

/* Fill `expected` and `allowed` of all outputs. Where nothing is to be written, `allowed` is -1. */
bool append_answer(const struct workload *workload);

#endif
