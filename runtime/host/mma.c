/* mma: ldmatrix and mma.sync, which the lanes of a warp execute together. Both start and complete when the last lane
   arrives. */
#include "block.h"

#include <string.h>

enum { CHUNK = 16, MATRICES = 4, MATRIX_ROWS = 8, BANK_CHUNKS = 8, ROWS = 16, COLUMNS = 8, DEPTH = 16, TF32_DEPTH = 8 };

/* --- ldmatrix ------------------------------------------------------------------------------------------------------- */

/* Rows of a matrix are read together: in one pass if they are in different banks, otherwise in as many passes as the
   busiest bank has rows. */
static unsigned conflicts(struct attile_rows *const lane[ATTILE_WARP], int matrix) {
    unsigned rows[BANK_CHUNKS] = {0}, most = 0;
    for (int i = 0; i < MATRIX_ROWS; i++) {
        unsigned bank = (uintptr_t)lane[MATRIX_ROWS * matrix + i]->named / CHUNK % BANK_CHUNKS;
        rows[bank]++;
        most = rows[bank] > most ? rows[bank] : most;
    }
    return most - 1;
}

void warp_find_rows(struct fiber *fiber, const uint64_t value[ATTILE_WARP], int line) {
    struct block *block = fiber->block;
    struct attile_rows *lane[ATTILE_WARP];
    for (unsigned i = 0; i < ATTILE_WARP; i++) {
        lane[i] = (struct attile_rows *)(uintptr_t)value[i];
        uintptr_t at = (uintptr_t)lane[i]->named - (uintptr_t)block->shared;
        if (at % CHUNK || at >= block->shown->shared_size)
            fiber_refuse(
                fiber, line, NULL,
                "ldmatrix: lane %u names byte %zu of %llu bytes of shared memory, expected a multiple of %d within", i,
                (size_t)at, block->shown->shared_size, CHUNK);
        if (lane[i]->transposed != lane[0]->transposed)
            fiber_refuse(fiber, line, NULL, "ldmatrix: lane %u and lane 0 do not agree whether to transpose", i);
    }
    for (int matrix = 0; matrix < MATRICES; matrix++) {
        if (block->launch->mode == ATT_HOST_CHECK)
            block->shown->count[ATTILE_SHARED_CONFLICTS] += conflicts(lane, matrix);
        for (int i = 0; i < ATTILE_WARP; i++)
            for (int e = 0; e < 2; e++) {
                int row = lane[i]->transposed ? i % 4 * 2 + e : i / 4;
                lane[i]->row[matrix][e] = lane[MATRIX_ROWS * matrix + row]->named;
            }
    }
}

/* --- mma ------------------------------------------------------------------------------------------------------------ */

static float from_bfloat16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static float from_half(uint16_t bits) {
    uint32_t size = bits & 0x7fff, wide = size << 13;
    float x;
    if (size >= 0x7c00) /* infinity, NaN */
        wide |= 0x7f800000;
    memcpy(&x, &wide, sizeof x);
    if (size < 0x7c00)
        x *= 0x1p112f; /* rebiases the exponent; also correct for subnormals */
    return bits & 0x8000 ? -x : x;
}

static void split(unsigned pair, int type, float *low, float *high) {
    uint16_t first = (uint16_t)pair, second = (uint16_t)(pair >> 16);
    *low = type == ATTILE_BF16 ? from_bfloat16(first) : from_half(first);
    *high = type == ATTILE_BF16 ? from_bfloat16(second) : from_half(second);
}

/* TF32 elements are floats; the tensor core reads their upper 19 bits. */
static float from_tf32(unsigned bits) {
    float x;
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Lane 4 g + t has columns 2 t, 2 t + 1 of rows g and g + 8 of the sum. Its a[r] is column t + 4 (r / 2) of row g + 8
   (r % 2), and its b[r] is row t + 4 r of column g. */
static void multiply_tf32(const uint64_t value[ATTILE_WARP]) {
    float a[ROWS][TF32_DEPTH], b[COLUMNS][TF32_DEPTH];
    for (int i = 0; i < ATTILE_WARP; i++) {
        const struct attile_warp_product *lane = (const struct attile_warp_product *)(uintptr_t)value[i];
        for (int r = 0; r < 4; r++)
            a[i / 4 + r % 2 * 8][i % 4 + r / 2 * 4] = from_tf32(lane->a[r]);
        for (int r = 0; r < 2; r++)
            b[i / 4][i % 4 + r * 4] = from_tf32(lane->b[r]);
    }
    for (int i = 0; i < ATTILE_WARP; i++) {
        float *sum = ((const struct attile_warp_product *)(uintptr_t)value[i])->sum;
        for (int e = 0; e < 4; e++)
            for (int k = 0; k < TF32_DEPTH; k++)
                sum[e] += a[i / 4 + e / 2 * 8][k] * b[i % 4 * 2 + e % 2][k];
    }
}

/* Lane 4 g + t has columns 2 t, 2 t + 1 of rows g and g + 8 of the sum. Its a[r] has columns 2 t + 8 (r / 2) and the
   next of row g + 8 (r % 2), and its b[r] has rows 2 t + 8 r and the next of column g. */
void warp_multiply(const uint64_t value[ATTILE_WARP]) {
    if (((const struct attile_warp_product *)(uintptr_t)value[0])->type == ATTILE_TF32) {
        multiply_tf32(value);
        return;
    }
    float a[ROWS][DEPTH], b[COLUMNS][DEPTH];
    for (int i = 0; i < ATTILE_WARP; i++) {
        const struct attile_warp_product *lane = (const struct attile_warp_product *)(uintptr_t)value[i];
        int g = i / 4, t = i % 4 * 2;
        for (int r = 0; r < 4; r++)
            split(lane->a[r], lane->type, &a[g + r % 2 * 8][t + r / 2 * 8], &a[g + r % 2 * 8][t + r / 2 * 8 + 1]);
        for (int r = 0; r < 2; r++)
            split(lane->b[r], lane->type, &b[g][t + r * 8], &b[g][t + r * 8 + 1]);
    }
    for (int i = 0; i < ATTILE_WARP; i++) {
        float *sum = ((const struct attile_warp_product *)(uintptr_t)value[i])->sum;
        for (int e = 0; e < 4; e++)
            for (int k = 0; k < DEPTH; k++)
                sum[e] += a[i / 4 + e / 2 * 8][k] * b[i % 4 * 2 + e % 2][k];
    }
}
