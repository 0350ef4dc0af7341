/* oracle_dropout: which weights dropout drops, by the formula of docs/dropout.md. */
#ifndef ATTILE_ORACLE_DROPOUT_H
#define ATTILE_ORACLE_DROPOUT_H

#include <stdint.h>

struct oracle_dropout {
    double p; /* in [0, 1) */
    uint64_t seed, offset;
};

/* Computes Philox4x32-7 of a counter and a key, with the word order of the paper: Salmon et al., "Parallel random
   numbers: as easy as 1, 2, 3", SC 2011, section 3.3. */
void oracle_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t numbers[4]);

/* Returns the factor that dropout applies to the weight of a query and a key: 0, or 1 / (1 - p). `head` counts heads
   across all batches. 1 without dropout (null). */
double oracle_dropout_factor(const struct oracle_dropout *dropout, int64_t head, int64_t query, int64_t key);

#endif
