/* hopper: plain C++ bodies for the wrappers in templates/target/sm_90*.cuh. The device does the work. Everything that
   it reports as a fault would hang, fault or give a wrong result on the hardware. */
ATTILE_INLINE int warpgroup_index(ATTILE_LINE) {
    return attile_pick(0xffffffffu, (int)(threadIdx.x / ATTILE_WARPGROUP), 0, line);
}
ATTILE_INLINE bool elect_one(ATTILE_LINE) {
    return attile_lane() == __builtin_ctz((unsigned)attile_together(ATTILE_BALLOT, 0xffffffffu, 1, 0, line));
}

/* Launches run one after the other. */
static ATTILE_UNWATCHED void grid_dependency_wait() {
    attile_self()->host->dependency(attile_self(), attile_self_index(), 1);
}
static ATTILE_UNWATCHED void grid_dependency_begun() {
    attile_self()->host->dependency(attile_self(), attile_self_index(), 0);
}
ATTILE_INLINE void launch_dependents() {}

/* --- registers and barriers ---------------------------------------------------------------------------------------- */

static ATTILE_UNWATCHED void attile_registers(int count, int acquire, int line) {
    attile_self()->host->registers(attile_self(), attile_self_index(), count, acquire, line);
}
template <int COUNT> ATTILE_INLINE void registers_release(ATTILE_LINE) { attile_registers(COUNT, 0, line); }
template <int COUNT> ATTILE_INLINE void registers_acquire(ATTILE_LINE) { attile_registers(COUNT, 1, line); }

static ATTILE_UNWATCHED void attile_named(int id, int threads, int wait, int line) {
    attile_self()->host->named(attile_self(), attile_self_index(), id, threads, wait, line);
}
ATTILE_INLINE void named_barrier_sync(int id, int threads, ATTILE_LINE) { attile_named(id, threads, 1, line); }
ATTILE_INLINE void named_barrier_arrive(int id, int threads, ATTILE_LINE) { attile_named(id, threads, 0, line); }

static ATTILE_UNWATCHED void attile_transact(int operation, void *barrier, int value, int line) {
    attile_self()->host->transaction(attile_self(), attile_self_index(), operation, barrier, value, line);
}
ATTILE_INLINE void barrier_init(void *barrier, int arrivals, ATTILE_LINE) {
    attile_transact(ATTILE_INIT, barrier, arrivals, line);
}
ATTILE_INLINE void barrier_init_fence(ATTILE_LINE) { attile_transact(ATTILE_INIT_FENCE, nullptr, 0, line); }
ATTILE_INLINE void barrier_arrive(void *barrier, ATTILE_LINE) { attile_transact(ATTILE_ARRIVE, barrier, 0, line); }
ATTILE_INLINE void barrier_expect(void *barrier, int bytes, ATTILE_LINE) {
    attile_transact(ATTILE_EXPECT, barrier, bytes, line);
}
ATTILE_INLINE void barrier_wait(void *barrier, int parity, ATTILE_LINE) {
    attile_transact(ATTILE_WAIT, barrier, parity, line);
}

/* --- clusters ------------------------------------------------------------------------------------------------------ */

static ATTILE_UNWATCHED int cluster_rank() { return (int)attile_self()->rank; }
static ATTILE_UNWATCHED void attile_cluster(int wait, int line) {
    attile_self()->host->cluster(attile_self(), attile_self_index(), wait, line);
}
ATTILE_INLINE void cluster_arrive(ATTILE_LINE) { attile_cluster(0, line); }
ATTILE_INLINE void cluster_wait(ATTILE_LINE) { attile_cluster(1, line); }
ATTILE_INLINE void barrier_arrive_at(void *barrier, int rank, ATTILE_LINE) {
    attile_transact(ATTILE_ARRIVE_PEER, barrier, rank, line);
}

/* --- TMA ----------------------------------------------------------------------------------------------------------- */

static ATTILE_UNWATCHED void attile_copy_box(const attile_box *box, int line) {
    attile_self()->host->box(attile_self(), attile_self_index(), box, line);
}
static ATTILE_UNWATCHED void attile_boxes(int operation, int line) {
    attile_self()->host->boxes(attile_self(), attile_self_index(), operation, line);
}
ATTILE_INLINE void tma_prefetch(const void *) {}
ATTILE_INLINE void tma_load(void *shared, const void *map, void *barrier, int column, int row, int head, int batch,
                            ATTILE_LINE) {
    attile_box box = {map, shared, barrier, {column, row, head, batch}, 0};
    attile_copy_box(&box, line);
}
ATTILE_INLINE void tma_load_multicast(void *shared, const void *map, void *barrier, unsigned mask, int column, int row,
                                      int head, int batch, ATTILE_LINE) {
    attile_box box = {map, shared, barrier, {column, row, head, batch}, mask};
    attile_copy_box(&box, line);
}
ATTILE_INLINE void tma_store(const void *map, const void *shared, int column, int row, int head, int batch,
                             ATTILE_LINE) {
    attile_box box = {map, (void *)shared, nullptr, {column, row, head, batch}, 0};
    attile_copy_box(&box, line);
}
static ATTILE_UNWATCHED void attile_move_floats(const attile_floats *floats, int line) {
    attile_self()->host->floats(attile_self(), attile_self_index(), floats, line);
}
ATTILE_INLINE void tma_load_floats(float *shared, const float *from, int bytes, void *barrier, ATTILE_LINE) {
    attile_floats floats = {(float *)from, shared, bytes, barrier, 0};
    attile_move_floats(&floats, line);
}
ATTILE_INLINE void tma_add(float *to, const void *shared, int bytes, ATTILE_LINE) {
    attile_floats floats = {to, (void *)shared, bytes, nullptr, 1};
    attile_move_floats(&floats, line);
}
ATTILE_INLINE void tma_store_floats(float *to, const void *shared, int bytes, ATTILE_LINE) {
    attile_floats floats = {to, (void *)shared, bytes, nullptr, 0};
    attile_move_floats(&floats, line);
}
static ATTILE_UNWATCHED void attile_send(const attile_sent *sent, int line) {
    attile_self()->host->send(attile_self(), attile_self_index(), sent, line);
}
ATTILE_INLINE void copy_to_block(void *to, const void *from, int bytes, void *barrier, int rank, ATTILE_LINE) {
    attile_sent sent = {to, barrier, from, bytes, rank};
    attile_send(&sent, line);
}
ATTILE_INLINE void tma_store_commit(ATTILE_LINE) { attile_boxes(ATTILE_COMMIT, line); }
ATTILE_INLINE void tma_store_wait_read(ATTILE_LINE) { attile_boxes(ATTILE_FINISH, line); }
/* A store reads shared memory and writes global memory at once. */
ATTILE_INLINE void tma_store_wait(ATTILE_LINE) { attile_boxes(ATTILE_FINISH, line); }
ATTILE_INLINE void fence_async(ATTILE_LINE) { attile_boxes(ATTILE_FENCE, line); }

/* Copies made by threads complete at once. */
ATTILE_INLINE void copy_piece(void *shared, const void *from) {
    for (int i = 0; i < 4; i++)
        ((unsigned *)shared)[i] = ((const unsigned *)from)[i];
}
ATTILE_INLINE void barrier_arrive_copied(void *barrier, ATTILE_LINE) { barrier_arrive(barrier, line); }
ATTILE_INLINE void copy_pieces_wait() {}

/* stmatrix: lane 8 j + i passes the address of row i of matrix j; lane 4 i + q has its q-th pair. */
ATTILE_INLINE void store_matrices(void *shared, unsigned a, unsigned b, unsigned c, unsigned d, ATTILE_LINE) {
    const unsigned pair[4] = {a, b, c, d};
    for (int j = 0; j < 4; j++) {
        attile_word row = attile_pick(0xffffffffu, (attile_word)shared, 8 * j + attile_lane() / 4, line);
        *((unsigned *)row + attile_lane() % 4) = pair[j];
    }
}
/* The same, transposed: the pair of lane 4 i + q goes to column i of rows 2 q and 2 q + 1. */
ATTILE_INLINE void store_matrices_transposed(void *shared, unsigned a, unsigned b, unsigned c, unsigned d,
                                             ATTILE_LINE) {
    const unsigned pair[4] = {a, b, c, d};
    for (int j = 0; j < 4; j++)
        for (int e = 0; e < 2; e++) {
            attile_word row = attile_pick(0xffffffffu, (attile_word)shared, 8 * j + attile_lane() % 4 * 2 + e, line);
            *((unsigned short *)row + attile_lane() / 4) = (unsigned short)(pair[j] >> 16 * e);
        }
}

/* --- the tensor cores ---------------------------------------------------------------------------------------------- */

static ATTILE_UNWATCHED void attile_multiply(const attile_product *product, int line) {
    attile_self()->host->product(attile_self(), attile_self_index(), product, line);
}
static ATTILE_UNWATCHED void attile_products(int operation, int pending, int line) {
    attile_self()->host->products(attile_self(), attile_self_index(), operation, pending, line);
}
ATTILE_INLINE void wgmma_fence(ATTILE_LINE) { attile_products(ATTILE_FENCE, 0, line); }
ATTILE_INLINE void wgmma_commit(ATTILE_LINE) { attile_products(ATTILE_COMMIT, 0, line); }
template <int PENDING> ATTILE_INLINE void wgmma_wait(ATTILE_LINE) { attile_products(ATTILE_FINISH, PENDING, line); }
template <int COUNT> ATTILE_INLINE void wgmma_settle(float (&)[COUNT]) {}

ATTILE_INLINE attile_word matrix_descriptor(const void *shared, int panel_bytes) {
    attile_word start = (attile_word)((const unsigned char *)shared - attile_shared());
    return (start & 0x3ffff) >> 4 | (attile_word)((panel_bytes & 0x3ffff) >> 4) << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}
/* One k-step of 16; the layouts are those of the wrappers in templates/target/sm_90a_products.cuh. */
template <int N, bool KEEP, bool A_TRANSPOSED, bool B_TRANSPOSED, bool OF_BFLOAT16>
ATTILE_INLINE void wgmma_ss(float (&sum)[N / 2], attile_word a, attile_word b, ATTILE_LINE) {
    attile_product product = {sum, nullptr, a, b, N, KEEP, OF_BFLOAT16, B_TRANSPOSED, A_TRANSPOSED};
    attile_multiply(&product, line);
}
template <int N, bool KEEP, bool B_TRANSPOSED, bool OF_BFLOAT16>
ATTILE_INLINE void wgmma_rs(float (&sum)[N / 2], const unsigned (&a)[4], attile_word b, ATTILE_LINE) {
    attile_product product = {sum, a, 0, b, N, KEEP, OF_BFLOAT16, B_TRANSPOSED, 0};
    attile_multiply(&product, line);
}
/* Adds to four numbers in global memory, with separate atomics. */
ATTILE_INLINE void add_to_memory(float *to, float a, float b, float c, float d) {
    atomicAdd(to, a), atomicAdd(to + 1, b), atomicAdd(to + 2, c), atomicAdd(to + 3, d);
}
/* The atomics, and the wait for them, that order other accesses. */
static ATTILE_UNWATCHED void attile_order(void *object, int acquire) { attile_self()->host->order(object, acquire); }
ATTILE_INLINE int atomic_add_acq_rel(int *to, int value) {
    attile_order(to, 0);
    int before = atomicAdd(to, value);
    attile_order(to, 1);
    return before;
}
ATTILE_INLINE void add_release(int *to, int value) {
    attile_order(to, 0);
    atomicAdd(to, value);
}
static ATTILE_UNWATCHED void attile_await(const int *counter, int count, int line) {
    attile_watch(counter, sizeof *counter, 0, sizeof *counter, (const char *)__builtin_return_address(0) - 1);
    attile_self()->host->await(attile_self(), attile_self_index(), counter, count, line);
    attile_order((void *)counter, 1);
}
ATTILE_INLINE void await_count(const int *counter, int count, ATTILE_LINE) { attile_await(counter, count, line); }
/* a in shared memory (s) or registers (r), times b in shared memory, as stored (n) or transposed (t), in k-steps of 16.
   Along a row the steps are 32 bytes apart, 4 in a panel of 128-byte rows. */
static constexpr attile_word attile_columns(int step, int rows) {
    return (attile_word)(step / 4 * rows * 128 + step % 4 * 32) >> 4;
}
static constexpr attile_word attile_rows(int step) { return (attile_word)step * 16 * 128 >> 4; }
template <int N, int STEPS, bool OF_BFLOAT16>
ATTILE_INLINE void wgmma_ss_nt(float (&sum)[N / 2], attile_word a, attile_word b, ATTILE_LINE) {
    for (int i = 0; i < STEPS; i++) {
        attile_product product = {
            sum, nullptr, a + attile_columns(i, 64), b + attile_columns(i, N), N, i > 0, OF_BFLOAT16, 1, 0};
        attile_multiply(&product, line);
    }
}
template <int N, bool KEEP, bool OF_BFLOAT16>
ATTILE_INLINE void wgmma_panel_ss_nt(float (&sum)[N / 2], attile_word a, attile_word b, ATTILE_LINE) {
    for (int i = 0; i < 4; i++) {
        attile_product product = {
            sum, nullptr, a + attile_columns(i, 64), b + attile_columns(i, N), N, KEEP || i > 0, OF_BFLOAT16, 1, 0};
        attile_multiply(&product, line);
    }
}
template <int N, int STEPS, bool OF_BFLOAT16>
ATTILE_INLINE void wgmma_rs_nt(float (&sum)[N / 2], const unsigned (&a)[STEPS][4], attile_word b, ATTILE_LINE) {
    for (int i = 0; i < STEPS; i++) {
        attile_product product = {sum, a[i], 0, b + attile_columns(i, N), N, i > 0, OF_BFLOAT16, 1, 0};
        attile_multiply(&product, line);
    }
}
template <int N, int STEPS, bool OF_BFLOAT16>
ATTILE_INLINE void wgmma_ss_nn(float (&sum)[N / 2], attile_word a, attile_word b, ATTILE_LINE) {
    for (int i = 0; i < STEPS; i++) {
        attile_product product = {sum, nullptr, a + attile_columns(i, 64), b + attile_rows(i), N, 1, OF_BFLOAT16, 0, 0};
        attile_multiply(&product, line);
    }
}
template <int N, int STEPS, bool OF_BFLOAT16>
ATTILE_INLINE void wgmma_rs_nn(float (&sum)[N / 2], const unsigned (&a)[STEPS][4], attile_word b, ATTILE_LINE) {
    for (int i = 0; i < STEPS; i++) {
        attile_product product = {sum, a[i], 0, b + attile_rows(i), N, 1, OF_BFLOAT16, 0, 0};
        attile_multiply(&product, line);
    }
}
