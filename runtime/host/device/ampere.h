/* ampere: plain C++ bodies for the wrappers in templates/target/sm_80.cuh. */

/* --- asynchronous copies. A copy that does not complete at once fills its destination with NaN and writes the values
   in a wait, at the latest in the wait for its group. So a thread that reads the old values, or the new ones too early,
   gets NaN or a race. */
static ATTILE_UNWATCHED bool attile_copy_start(void *to, const void *from, unsigned size, unsigned bytes) {
    return attile_self()->host->copy_start(attile_self(), attile_self_index(), {to, from, size, bytes, 0});
}
static ATTILE_UNWATCHED bool attile_copy_next(attile_copy *copy, int pending) {
    return attile_self()->host->copy_next(attile_self(), attile_self_index(), pending, copy);
}
static ATTILE_UNWATCHED void attile_copy_commit() {
    attile_self()->host->copy_commit(attile_self(), attile_self_index());
}
static ATTILE_UNWATCHED void attile_copy_refuse(int line) {
    attile_self()->host->refuse(attile_self(), attile_self_index(), line, "copy_async of more bytes than it writes");
}

/* Uses one access of the full size if all bytes are copied, so that the alignment of both sides is checked. */
template <class Piece> ATTILE_INLINE void attile_copy_land(void *to, const void *from, unsigned bytes) {
    Piece piece = {};
    if (bytes == sizeof piece)
        piece = *(const Piece *)from;
    else
        for (unsigned i = 0; i < bytes; i++)
            ((unsigned char *)&piece)[i] = ((const unsigned char *)from)[i];
    *(Piece *)to = piece;
}
ATTILE_INLINE void attile_copy_land(const attile_copy &copy) {
    if (copy.size == 16)
        attile_copy_land<uint4>(copy.to, copy.from, copy.bytes);
    else if (copy.size == 8)
        attile_copy_land<uint2>(copy.to, copy.from, copy.bytes);
    else
        attile_copy_land<unsigned>(copy.to, copy.from, copy.bytes);
}

template <int SIZE> ATTILE_INLINE void copy_async(void *to, const void *from, int bytes, ATTILE_LINE) {
    static_assert(SIZE == 16 || SIZE == 8 || SIZE == 4, "what cp.async copies");
    if (bytes < 0 || bytes > SIZE)
        attile_copy_refuse(line);
    if (!attile_copy_start(to, from, SIZE, (unsigned)bytes))
        attile_copy_land({to, from, SIZE, (unsigned)bytes, 0});
    else if constexpr (SIZE == 16)
        *(uint4 *)to = make_uint4(~0u, ~0u, ~0u, ~0u);
    else if constexpr (SIZE == 8)
        *(uint2 *)to = make_uint2(~0u, ~0u);
    else
        *(unsigned *)to = ~0u;
}
/* On the GPU a 32-bit address in shared memory; here any address. */
using SharedAddress = attile_word;
ATTILE_INLINE SharedAddress address_in_shared(const void *pointer) { return (SharedAddress)pointer; }
ATTILE_INLINE float load_float(SharedAddress from) { return *(const float *)from; }
ATTILE_INLINE void store_word(SharedAddress to, unsigned word) { *(unsigned *)to = word; }
template <int SIZE> ATTILE_INLINE void copy_async_to(SharedAddress to, const void *from, int bytes, ATTILE_LINE) {
    copy_async<SIZE>((void *)to, from, bytes, line);
}
ATTILE_INLINE void copy_async_commit() { attile_copy_commit(); }
template <int PENDING> ATTILE_INLINE void copy_async_wait_groups() {
    for (attile_copy copy; attile_copy_next(&copy, PENDING);)
        attile_copy_land(copy);
}
ATTILE_INLINE void copy_async_wait() {
    for (attile_copy copy; attile_copy_next(&copy, -1);)
        attile_copy_land(copy);
}

/* --- products by a warp --------------------------------------------------------------------------------------------- */

/* Lane 8 j + i passes the address of row i of matrix j; lane 4 g + t receives the t-th pair of row g. */
static ATTILE_UNWATCHED void attile_find_rows(attile_rows *rows, int line) {
    attile_together(ATTILE_ROWS, 0xffffffffu, (attile_word)rows, 0, line);
}
ATTILE_INLINE void load_matrices(unsigned (&pair)[4], const void *shared, ATTILE_LINE) {
    attile_rows rows = {shared, {}, 0};
    attile_find_rows(&rows, line);
    for (int j = 0; j < 4; j++)
        pair[j] = *((const unsigned *)rows.row[j][0] + attile_lane() % 4);
}
ATTILE_INLINE void load_matrices_at(unsigned (&pair)[4], SharedAddress at, ATTILE_LINE) {
    load_matrices(pair, (const void *)at, line);
}
/* Lane 4 g + t receives the t-th pair of column g. */
ATTILE_INLINE void load_matrices_transposed(unsigned (&pair)[4], SharedAddress at, ATTILE_LINE) {
    attile_rows rows = {(const void *)at, {}, 1};
    attile_find_rows(&rows, line);
    for (int j = 0; j < 4; j++)
        pair[j] = *((const unsigned short *)rows.row[j][0] + attile_lane() / 4) |
                  (unsigned)*((const unsigned short *)rows.row[j][1] + attile_lane() / 4) << 16;
}

static ATTILE_UNWATCHED void attile_warp_multiply(float *sum, const unsigned *a, const unsigned *b, int type,
                                                  int line) {
    attile_warp_product product = {sum, a, b, type};
    attile_together(ATTILE_MULTIPLY, 0xffffffffu, (attile_word)&product, 0, line);
}
template <bool OF_BFLOAT16>
ATTILE_INLINE void mma(float &s0, float &s1, float &s2, float &s3, const unsigned (&a)[4], unsigned b0, unsigned b1,
                       ATTILE_LINE) {
    float sum[4] = {s0, s1, s2, s3};
    const unsigned b[2] = {b0, b1};
    attile_warp_multiply(sum, a, b, OF_BFLOAT16 ? ATTILE_BF16 : ATTILE_FP16, line);
    s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
}
/* Rounding may overflow to infinity; NaN stays NaN. */
ATTILE_INLINE unsigned to_tf32(float x) {
    unsigned bits = (unsigned)__float_as_int(x);
    return (bits & 0x7fffffff) >= 0x7f800000 ? bits & (x != x ? ~0u : 0xffffe000) | (x != x ? 0x00400000 : 0)
                                             : (bits + 0x1000) & 0xffffe000;
}
ATTILE_INLINE void mma_tf32(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, ATTILE_LINE) {
    const unsigned b[2] = {b0, b1};
    attile_warp_multiply(sum, a, b, ATTILE_TF32, line);
}
/* Element (i, j) is half j % 2 of lane 4 i + j / 2. */
ATTILE_INLINE unsigned transpose_matrix(unsigned pair, ATTILE_LINE) {
    int row = attile_lane() % 4 * 2, column = attile_lane() / 4, shift = column % 2 * 16;
    unsigned first = attile_pick(0xffffffffu, pair, 4 * row + column / 2, line) >> shift & 0xffff;
    unsigned second = attile_pick(0xffffffffu, pair, 4 * (row + 1) + column / 2, line) >> shift & 0xffff;
    return first | second << 16;
}
template <bool TO_BFLOAT16> ATTILE_INLINE unsigned pack(float first, float second) {
    if constexpr (TO_BFLOAT16)
        return float_to_bfloat16(first) | (unsigned)float_to_bfloat16(second) << 16;
    else
        return float_to_half(first) | (unsigned)float_to_half(second) << 16;
}
