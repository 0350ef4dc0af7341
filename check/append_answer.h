/* append_answer: workloads of family append_kv: where new tokens go, and what the cache must hold afterwards. */
#ifndef ATTILE_APPEND_ANSWER_H
#define ATTILE_APPEND_ANSWER_H

#include "gen.h"

#include <stdint.h>

struct workload;

/* Places of the new tokens with slots=1: (batch * len_q), owned; otherwise null. */
struct append_places {
    int64_t *slot;     /* page * page_size + row; negative or beyond the cache: not stored */
    int32_t *position; /* from 0 to len_kv - 1 */
};

/* Sizes of the cache for these knobs, and of the tables of cosines and sines. */
int64_t append_blocks(const struct knobs *problem, const struct shape *shape); /* sequences or pages */
int64_t append_rows(const struct knobs *problem, const struct shape *shape);   /* rows in each of them */
int64_t append_half(const struct knobs *problem);                              /* rotated pairs */

/* Makes slots in random order, some of them outside of the cache. The cache has more slots than there are tokens. False
   when memory runs out. */
bool append_make(struct append_places *places, const struct knobs *problem, const struct shape *shape, uint64_t seed);
void append_free(struct append_places *places);

/* Fills `expected` and `allowed` of all outputs. `allowed` is -1 where nothing may be written. */
bool append_answer(const struct workload *workload);

#endif
