/* Philox4x32-7: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#include "dropout.h"

#include <inttypes.h>
#include <math.h>

enum { DROPOUT_BITS = 16, DROPOUT_STEPS = 1 << DROPOUT_BITS };

/* How many of the 2^16 random numbers drop a weight; never all, because the kept weights are divided by the share that
   is left. */
static unsigned threshold_of(float p) {
    double steps = nearbyint((double)p * DROPOUT_STEPS);
    return (unsigned)fmin(steps, DROPOUT_STEPS - 1);
}

static bool is_zero(const struct att_attention_args *args) {
    return args->dropout_p == 0 && args->dropout_seed == 0 && args->dropout_offset == 0 && !args->dropout_state;
}

enum att_status dropout_read(const struct knobs *knobs, const struct att_attention_args *args,
                             struct arguments *arguments, struct failure *failure) {
    if (knobs->dropout <= 0 && !is_zero(args))
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "dropout_p is %g, dropout_seed %" PRIu64 ", dropout_offset %" PRIu64
                           " and dropout_state %s, expected 0 and null; find a kernel with dropout=1 for others",
                           (double)args->dropout_p, args->dropout_seed, args->dropout_offset,
                           args->dropout_state ? "given" : "null");
    if (!(args->dropout_p >= 0 && args->dropout_p < 1)) /* also refuses NaN */
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "dropout_p is %g, expected a probability of at least 0 and less than 1",
                           (double)args->dropout_p);
    if (args->dropout_state)
        arguments->tensor[arguments->tensors++] = (struct tensor){.name = "dropout_state",
                                                                  .data = args->dropout_state,
                                                                  .element = (int)sizeof(uint64_t),
                                                                  .dims = 1,
                                                                  .dim = {{"numbers", NULL, 2, 1}}};
    return ATT_OK;
}

void dropout_fill(const struct att_attention_args *args, struct attention_params *params) {
    unsigned threshold = threshold_of(args->dropout_p);
    _Static_assert(sizeof *args->dropout_state == sizeof *params->dropout_state, "the same numbers");
    params->dropout_state = (const unsigned long long *)args->dropout_state;
    params->dropout_seed = args->dropout_seed;
    params->dropout_offset = args->dropout_offset;
    params->dropout_threshold = threshold << DROPOUT_BITS;
    params->dropout_factor = (float)DROPOUT_STEPS / (float)(DROPOUT_STEPS - threshold);
}

/* One round: multiplies two 32-bit words by constants, and XORs the upper halves with the other two words and the
   key. */
static void philox_round(uint32_t word[4], const uint32_t key[2]) {
    const uint64_t a = UINT64_C(0xD2511F53) * word[0], b = UINT64_C(0xCD9E8D57) * word[2];
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ word[1] ^ key[0], (uint32_t)b,
                              (uint32_t)(a >> 32) ^ word[3] ^ key[1], (uint32_t)a};
    for (int i = 0; i < 4; i++)
        word[i] = next[i];
}

int att_dropout_keep(float p, uint64_t seed, uint64_t offset, int64_t heads, int64_t batch, int64_t head, int64_t query,
                     int64_t key) {
    const uint64_t stream = offset + (uint64_t)batch * (uint64_t)heads + (uint64_t)head;
    uint32_t word[4] = {(uint32_t)(key / 32 * 8 + key % 8), (uint32_t)(query / 16 * 8 + query % 8), (uint32_t)stream,
                        (uint32_t)(stream >> 32)};
    uint32_t round_key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 7; round++) {
        philox_round(word, round_key);
        round_key[0] += 0x9E3779B9;
        round_key[1] += 0xBB67AE85;
    }
    const unsigned number = word[key / 8 % 4] >> (query / 8 % 2 * DROPOUT_BITS) & (DROPOUT_STEPS - 1);
    return number >= threshold_of(p);
}
