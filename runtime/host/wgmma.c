/* wgmma: wgmma.mma_async, products of 64 rows by a warpgroup. See units.h. The first product on an accumulator takes
   the registers from the threads, which read NaN from then on; the wait for the last product returns them. In between
   the unit multiplies at its own pace, one product after the other. */
#include "race.h"
#include "units.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 16, CHUNK_ELEMENTS = 8, ROW = 128, ROW_ELEMENTS = 64, SWIZZLE_128 = 1, COLUMNS_STEP = 8 };

static struct warpgroup *warpgroup_of(const struct fiber *fiber) {
    return &fiber->block->units->warpgroup[fiber->index / ATTILE_WARPGROUP];
}

/* --- layouts ------------------------------------------------------------------------------------------------------- */

/* Index of element i of a thread's part of an accumulator. */
static size_t sum_at(unsigned thread, int i, int columns) {
    int row = (int)(thread / 32 * 16 + thread % 32 / 4) + 8 * (i / 2 % 2);
    int column = 8 * (i / 4) + 2 * (int)(thread % 4) + i % 2;
    return (size_t)(row * columns + column);
}

/* A matrix in shared memory: rows of 128 bytes, groups of 8 rows `stride` bytes apart, panels of 64 columns `panel`
   bytes apart. */
struct descriptor {
    size_t start, panel, stride;
    unsigned swizzle, base;
};

static struct descriptor decode(unsigned long long bits) {
    return (struct descriptor){.start = (size_t)(bits & 0x3fff) << 4,
                               .panel = (size_t)(bits >> 16 & 0x3fff) << 4,
                               .stride = (size_t)(bits >> 32 & 0x3fff) << 4,
                               .base = bits >> 49 & 7,
                               .swizzle = bits >> 62 & 3};
}

static size_t chunk_at(const struct descriptor *matrix, size_t row, size_t chunk) {
    return matrix->start + row / 8 * matrix->stride + row % 8 * ROW + chunk / 8 * matrix->panel + chunk % 8 * CHUNK;
}

static float from_bfloat16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static float from_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, size = bits & 0x7fff, wide = size << 13;
    float x;
    if (size >= 0x7c00) { /* infinity, NaN */
        wide |= 0x7f800000;
        memcpy(&x, &wide, sizeof x);
    } else {
        memcpy(&x, &wide, sizeof x);
        x *= 0x1p112f; /* rebiases the exponent; also correct for subnormals */
    }
    memcpy(&wide, &x, sizeof x);
    wide |= sign;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static float widen(uint16_t bits, bool bfloat16) { return bfloat16 ? from_bfloat16(bits) : from_half(bits); }

/* --- multiplying --------------------------------------------------------------------------------------------------- */

/* Reads eight elements; the swizzle permutes chunks within eight rows of 128 bytes. */
static void read_chunk(struct block *block, const struct product *product, size_t linear,
                       float elements[CHUNK_ELEMENTS]) {
    uint16_t bits[CHUNK_ELEMENTS];
    const unsigned char *chunk = block->shared + (linear ^ (linear / ROW % 8) * CHUNK);
    order_access(block, chunk, CHUNK, false, product->pc);
    memcpy(bits, chunk, CHUNK);
    for (int i = 0; i < CHUNK_ELEMENTS; i++)
        elements[i] = widen(bits[i], product->common.bfloat16);
}

/* Reads a from shared memory, stored as (64, 16) or as (16, 64). */
static void read_a(struct block *block, const struct product *product, float (*a)[UNITS_DEPTH]) {
    struct descriptor matrix = decode(product->common.a_descriptor);
    float chunk_of_rows[CHUNK_ELEMENTS];
    if (product->common.a_transposed) {
        for (size_t k = 0; k < UNITS_DEPTH; k++)
            for (size_t row = 0; row < UNITS_ROWS; row += CHUNK_ELEMENTS) {
                read_chunk(block, product, chunk_at(&matrix, k, row / CHUNK_ELEMENTS), chunk_of_rows);
                for (size_t i = 0; i < CHUNK_ELEMENTS; i++)
                    a[row + i][k] = chunk_of_rows[i];
            }
        return;
    }
    for (size_t row = 0; row < UNITS_ROWS; row++)
        for (size_t chunk = 0; chunk < 2; chunk++)
            read_chunk(block, product, chunk_at(&matrix, row, chunk), &a[row][chunk * CHUNK_ELEMENTS]);
}

/* Reads a from registers: each has a pair of columns. */
static void read_a_registers(const struct product *product, float (*a)[UNITS_DEPTH]) {
    for (unsigned thread = 0; thread < ATTILE_WARPGROUP; thread++)
        for (unsigned r = 0; r < 4; r++) {
            unsigned pair = product->a[thread][r];
            float *at = &a[thread / 32 * 16 + thread % 32 / 4 + 8 * (r % 2)][thread % 4 * 2 + 8 * (r / 2)];
            at[0] = widen((uint16_t)pair, product->common.bfloat16);
            at[1] = widen((uint16_t)(pair >> 16), product->common.bfloat16);
        }
}

/* Reads b (16, columns), stored as it is or as (columns, 16). */
static void read_b(struct block *block, const struct product *product, float (*b)[UNITS_COLUMNS]) {
    struct descriptor matrix = decode(product->common.b_descriptor);
    size_t columns = (size_t)product->common.columns;
    float chunk[CHUNK_ELEMENTS];
    if (!product->common.b_transposed) {
        for (size_t k = 0; k < UNITS_DEPTH; k++)
            for (size_t column = 0; column < columns; column += CHUNK_ELEMENTS)
                read_chunk(block, product, chunk_at(&matrix, k, column / CHUNK_ELEMENTS), &b[k][column]);
        return;
    }
    for (size_t column = 0; column < columns; column++)
        for (size_t k = 0; k < UNITS_DEPTH; k += CHUNK_ELEMENTS) {
            read_chunk(block, product, chunk_at(&matrix, column, k / CHUNK_ELEMENTS), chunk);
            for (size_t i = 0; i < CHUNK_ELEMENTS; i++)
                b[k + i][column] = chunk[i];
        }
}

static void multiply(float *restrict sum, float (*restrict a)[UNITS_DEPTH], float (*restrict b)[UNITS_COLUMNS],
                     int columns, bool keep) {
    for (int row = 0; row < UNITS_ROWS; row++, sum += columns) {
        if (!keep)
            memset(sum, 0, (size_t)columns * sizeof *sum);
        for (int k = 0; k < UNITS_DEPTH; k += 4) {
            float a0 = a[row][k], a1 = a[row][k + 1], a2 = a[row][k + 2], a3 = a[row][k + 3];
            for (int column = 0; column < columns; column++)
                sum[column] +=
                    a0 * b[k][column] + a1 * b[k + 1][column] + a2 * b[k + 2][column] + a3 * b[k + 3][column];
        }
    }
}

static unsigned long long operand_bytes(const struct product *product) {
    int rows = product->common.columns + (product->common.a ? 0 : UNITS_ROWS);
    return (unsigned long long)rows * UNITS_DEPTH * sizeof(uint16_t);
}

void product_run(struct block *block, struct warpgroup *warpgroup) {
    static _Thread_local float a[UNITS_ROWS][UNITS_DEPTH], b[UNITS_DEPTH][UNITS_COLUMNS];
    unsigned which = (unsigned)(warpgroup - block->units->warpgroup), number = warpgroup->done;
    struct product *product = &warpgroup->product[number % UNITS_PRODUCTS];
    void **identity = &warpgroup->identity[block->runs % RACE_SETS];
    void *self = order_be_unit(block, identity, "the tensor cores", ORDER_ISSUED + which);
    if (product->common.a)
        read_a_registers(product, a);
    else
        read_a(block, product, a);
    read_b(block, product, b);
    if (block->launch->mode == ATT_HOST_CHECK)
        block->shown->count[ATTILE_SHARED_READ] += operand_bytes(product);
    race_ignore_begin();
    multiply(product->accumulator->sum, a, b, product->common.columns, product->common.keep);
    race_ignore_end();
    order_done(block, ORDER_DONE + which * ORDER_PRODUCTS + number % ORDER_PRODUCTS, 0);
    order_be(self);
    product->asked = 0;
    warpgroup->done++;
    queue_wake(&warpgroup->waiting);
}

/* --- asking -------------------------------------------------------------------------------------------------------- */

static void check_matrix(struct fiber *fiber, const char *name, unsigned long long bits, size_t rows, size_t chunks,
                         int line) {
    struct descriptor matrix = decode(bits);
    unsigned long long size = fiber->block->shown->shared_size;
    if (matrix.swizzle != SWIZZLE_128 || matrix.base)
        fiber_refuse(fiber, line, NULL,
                     "wgmma: descriptor of %s: swizzle %u, base offset %u; expected 1 (128 bytes), 0", name,
                     matrix.swizzle, matrix.base);
    size_t last = chunk_at(&matrix, rows - 1, chunks - 1) / ROW * ROW + ROW; /* the swizzle stays within its row */
    if (last > size)
        fiber_refuse(fiber, line, NULL, "wgmma: %s reaches to byte %zu of %llu bytes of shared memory", name, last,
                     size);
}

static void check_product(struct fiber *fiber, const struct attile_product *product, int line) {
    size_t columns = (size_t)product->columns;
    if (product->columns < COLUMNS_STEP || product->columns > UNITS_COLUMNS || product->columns % COLUMNS_STEP)
        fiber_refuse(fiber, line, NULL, "wgmma with %d columns, expected a multiple of 8 up to 256", product->columns);
    if (!product->a && product->a_transposed)
        check_matrix(fiber, "a", product->a_descriptor, UNITS_DEPTH, UNITS_ROWS / CHUNK_ELEMENTS, line);
    else if (!product->a)
        check_matrix(fiber, "a", product->a_descriptor, UNITS_ROWS, 2, line);
    if (product->b_transposed)
        check_matrix(fiber, "b", product->b_descriptor, columns, 2, line);
    else
        check_matrix(fiber, "b", product->b_descriptor, UNITS_DEPTH, columns / CHUNK_ELEMENTS, line);
}

static bool same(const struct attile_product *a, const struct attile_product *b) {
    return a->columns == b->columns && !a->keep == !b->keep && a->bfloat16 == b->bfloat16 && !a->a == !b->a &&
           a->b_transposed == b->b_transposed && a->a_transposed == b->a_transposed &&
           a->a_descriptor == b->a_descriptor && a->b_descriptor == b->b_descriptor;
}

/* Returns the accumulator that owns this thread's registers, or a free one. */
static struct accumulator *find_accumulator(struct fiber *fiber, const float *part, int line) {
    struct warpgroup *warpgroup = warpgroup_of(fiber);
    struct accumulator **unused = NULL;
    for (int i = 0; i < UNITS_ACCUMULATORS; i++) {
        struct accumulator **at = &warpgroup->accumulator[i];
        if (*at && (*at)->part[fiber->index % ATTILE_WARPGROUP] == part)
            return *at;
        bool reserved = false; /* for a product that some threads have not issued yet */
        for (int p = 0; *at && p < UNITS_PRODUCTS; p++)
            reserved |= warpgroup->product[p].asked && warpgroup->product[p].accumulator == *at;
        if (!*at || (!(*at)->parts && !reserved))
            unused = at;
    }
    if (unused && !*unused)
        *unused = calloc(1, sizeof **unused);
    if (!unused || !*unused)
        fiber_refuse(fiber, line, NULL, "wgmma: %s",
                     unused ? "no memory for accumulators" : "too many accumulators in use at a time");
    return *unused;
}

/* Takes this thread's registers, unless an earlier product owns them. */
static void take_part(struct fiber *fiber, const struct product *product, float *part, int line) {
    struct accumulator *accumulator = product->accumulator;
    unsigned thread = fiber->index % ATTILE_WARPGROUP;
    if ((accumulator->part[thread] && accumulator->part[thread] != part) ||
        (accumulator->parts && accumulator->columns != product->common.columns))
        fiber_refuse(fiber, line, NULL, "wgmma: an accumulator is used by threads or products that do not agree");
    accumulator->columns = product->common.columns;
    if (!accumulator->part[thread]) {
        for (int i = 0; i < product->common.columns / 2; i++)
            accumulator->sum[sum_at(thread, i, product->common.columns)] = part[i];
        memset(part, 0xff, (size_t)product->common.columns / 2 * sizeof *part);
        accumulator->part[thread] = part;
        accumulator->parts++;
    }
    accumulator->last[thread] = units_thread_of(fiber)->products;
}

void units_product(struct attile_block *shown, unsigned index, const struct attile_product *asked, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct block *block = fiber->block;
    struct warpgroup *warpgroup = warpgroup_of(fiber);
    struct units_thread *thread = units_thread_of(fiber);
    unsigned which = index / ATTILE_WARPGROUP;
    order_use_couriers(block);
    if (shown->threads / ATTILE_WARPGROUP <= which)
        fiber_refuse(fiber, line, NULL, "wgmma by a warpgroup of less than 128 threads");
    if (!thread->fenced)
        fiber_refuse(fiber, line, NULL, "wgmma without a wgmma_fence since its registers were last touched");
    if (thread->products - warpgroup->done >= UNITS_PRODUCTS)
        fiber_refuse(fiber, line, NULL, "more than %d products of a warpgroup under way", UNITS_PRODUCTS);
    struct product *product = &warpgroup->product[thread->products % UNITS_PRODUCTS];
    if (!product->asked) {
        check_product(fiber, asked, line);
        product->common = *asked;
        product->line = line;
        product->pc = __builtin_return_address(0);
        product->accumulator = find_accumulator(fiber, asked->sum, line);
    }
    if (!same(&product->common, asked))
        fiber_refuse(fiber, line, NULL, "wgmma: another thread of the warpgroup issues a different product, at line %d",
                     product->line);
    thread->products++;
    take_part(fiber, product, asked->sum, line);
    product->a[index % ATTILE_WARPGROUP] = asked->a;
    order_ask(fiber, ORDER_ISSUED + which);
    if (++product->asked < ATTILE_WARPGROUP)
        return;
    warpgroup->asked++;
    if (block->units->timing == UNITS_EARLY)
        product_run(block, warpgroup);
}

static void missing_products(const struct block *block, const struct fiber *fiber, struct text *text) {
    const struct warpgroup *warpgroup = &block->units->warpgroup[fiber->index / ATTILE_WARPGROUP];
    text_print(text, ": product %u, issued by %u of %d threads", fiber->wait.object,
               warpgroup->product[(fiber->wait.object - 1) % UNITS_PRODUCTS].asked, ATTILE_WARPGROUP);
}

/* Returns the registers whose last product is among the first `done`. */
static void give_parts(struct fiber *fiber, unsigned done) {
    struct warpgroup *warpgroup = warpgroup_of(fiber);
    unsigned thread = fiber->index % ATTILE_WARPGROUP;
    for (int i = 0; i < UNITS_ACCUMULATORS; i++) {
        struct accumulator *accumulator = warpgroup->accumulator[i];
        if (!accumulator || !accumulator->part[thread] || accumulator->last[thread] > done)
            continue;
        for (int j = 0; j < accumulator->columns / 2; j++)
            accumulator->part[thread][j] = accumulator->sum[sum_at(thread, j, accumulator->columns)];
        accumulator->part[thread] = NULL;
        accumulator->parts--;
    }
}

static void finish(struct fiber *fiber, unsigned pending, int line) {
    struct warpgroup *warpgroup = warpgroup_of(fiber);
    struct units_thread *thread = units_thread_of(fiber);
    thread->fenced = false;
    if (thread->groups <= pending)
        return;
    unsigned done = thread->group_end[(thread->groups - pending - 1) % UNITS_GROUPS];
    while (warpgroup->done < done)
        fiber_wait(fiber, &warpgroup->waiting, (struct wait){"wgmma_wait()", line, done, missing_products});
    if (done)
        order_acquire(fiber, fiber->block,
                      ORDER_DONE + fiber->index / ATTILE_WARPGROUP * ORDER_PRODUCTS + (done - 1) % ORDER_PRODUCTS, 0);
    give_parts(fiber, done);
}

void units_products(struct attile_block *shown, unsigned index, int operation, int pending, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct units_thread *thread = units_thread_of(fiber);
    if (operation == ATTILE_FENCE)
        thread->fenced = true;
    else if (operation == ATTILE_COMMIT)
        thread->group_end[thread->groups++ % UNITS_GROUPS] = thread->products;
    else
        finish(fiber, (unsigned)pending, line);
}
