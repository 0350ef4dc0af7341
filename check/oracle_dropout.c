#include "oracle_dropout.h"

#include <math.h>

/* Two pairs of words (l, r): r is multiplied, and l is XORed with the upper half of the other pair's product. */
void oracle_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t numbers[4]) {
    static const uint64_t multiplier[2] = {0xD2511F53, 0xCD9E8D57}; /* table 2 of the paper */
    static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};       /* of the golden ratio, and of sqrt(3) - 1 */
    uint32_t l[2] = {counter[1], counter[3]}, r[2] = {counter[0], counter[2]};
    for (uint32_t round = 0; round < 7; round++) {
        uint32_t next_l[2], next_r[2];
        for (int i = 0; i < 2; i++) {
            uint64_t product = multiplier[i] * r[i];
            next_r[1 - i] = (uint32_t)(product >> 32) ^ l[1 - i] ^ (key[1 - i] + round * weyl[1 - i]);
            next_l[i] = (uint32_t)product;
        }
        r[0] = next_r[0], r[1] = next_r[1];
        l[0] = next_l[1], l[1] = next_l[0];
    }
    numbers[0] = r[0], numbers[1] = l[0], numbers[2] = r[1], numbers[3] = l[1];
}

double oracle_dropout_factor(const struct oracle_dropout *dropout, int64_t head, int64_t query, int64_t key) {
    if (!dropout)
        return 1;
    const double numbers = 0x1p16, dropped = fmin(round(dropout->p * numbers), numbers - 1);
    const uint64_t stream = dropout->offset + (uint64_t)head;
    /* one block of numbers covers 2 queries and 4 keys, both 8 apart */
    int64_t group_q = query / 16, group_k = key / 32, in_q = query % 16, in_k = key % 32;
    const uint32_t counter[4] = {(uint32_t)(8 * group_k + in_k % 8), (uint32_t)(8 * group_q + in_q % 8),
                                 (uint32_t)stream, (uint32_t)(stream >> 32)};
    const uint32_t philox_key[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)};
    uint32_t word[4];
    oracle_philox(counter, philox_key, word);
    uint32_t both = word[in_k / 8];
    uint32_t number = in_q >= 8 ? both / 65536 : both % 65536;
    return number < dropped ? 0 : numbers / (numbers - dropped);
}
