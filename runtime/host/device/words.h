/* words: the CUDA built-ins that kernels may use (templates/README.md), implemented for this CPU. */
#define __global__ __attribute__((noinline))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define INFINITY __builtin_inff()

struct attile_index {
    unsigned x;
};
static ATTILE_UNWATCHED attile_index attile_thread_index() { return {attile_self_index()}; }
static ATTILE_UNWATCHED attile_index attile_block_index() { return {attile_self()->index}; }
static ATTILE_UNWATCHED attile_index attile_block_size() { return {attile_self()->threads}; }
static ATTILE_UNWATCHED attile_index attile_grid_size() { return {attile_self()->grid}; }
#define threadIdx attile_thread_index()
#define blockIdx  attile_block_index()
#define blockDim  attile_block_size()
#define gridDim   attile_grid_size()

static ATTILE_UNWATCHED unsigned char *attile_shared() { return attile_self()->shared; }
template <class T> ATTILE_INLINE T *dynamic_shared() { return (T *)attile_shared(); }

#define ATTILE_VECTOR2(name, type)                                                                                     \
    struct alignas(2 * sizeof(type)) name##2 {                                                                         \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    ATTILE_INLINE name##2 make_##name##2(type x, type y) { return {x, y}; }
#define ATTILE_VECTOR4(name, type)                                                                                     \
    struct alignas(4 * sizeof(type)) name##4 {                                                                         \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    ATTILE_INLINE name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
ATTILE_VECTOR2(float, float)
ATTILE_VECTOR4(float, float)
ATTILE_VECTOR2(int, int)
ATTILE_VECTOR4(int, int)
ATTILE_VECTOR2(uint, unsigned)
ATTILE_VECTOR4(uint, unsigned)

/* --- numbers ------------------------------------------------------------------------------------------------------- */

ATTILE_INLINE float __fsub_rn(float a, float b) { return a - b; } /* compiled with -ffp-contract=off */
ATTILE_INLINE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ATTILE_INLINE float fmaxf(float a, float b) { return a > b || b != b ? a : b; } /* one NaN: the other argument */
ATTILE_INLINE float fminf(float a, float b) { return a < b || b != b ? a : b; }
ATTILE_INLINE float expf(float x) { return __builtin_expf(x); }
ATTILE_INLINE float exp2f(float x) { return __builtin_exp2f(x); }
ATTILE_INLINE float logf(float x) { return __builtin_logf(x); }
ATTILE_INLINE float log2f(float x) { return __builtin_log2f(x); }
ATTILE_INLINE float sqrtf(float x) { return __builtin_sqrtf(x); }
/* Within half a unit in the last place. */
ATTILE_INLINE void sincospif(float x, float *sine, float *cosine) {
    double rest = static_cast<double>(x) - 2 * __builtin_floor(static_cast<double>(x) / 2);
    *sine = static_cast<float>(__builtin_sin(3.14159265358979323846 * rest));
    *cosine = static_cast<float>(__builtin_cos(3.14159265358979323846 * rest));
}
ATTILE_INLINE float tanhf(float x) { return __builtin_tanhf(x); }
ATTILE_INLINE float floorf(float x) { return __builtin_floorf(x); }
ATTILE_INLINE float fabsf(float x) { return __builtin_fabsf(x); }
ATTILE_INLINE bool isnan(float x) { return x != x; }
ATTILE_INLINE bool isinf(float x) { return __builtin_fabsf(x) == INFINITY; }
ATTILE_INLINE float min(float a, float b) { return fminf(a, b); }
ATTILE_INLINE float max(float a, float b) { return fmaxf(a, b); }

ATTILE_INLINE int __ffs(int bits) { return __builtin_ffs(bits); }
ATTILE_INLINE int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
ATTILE_INLINE int __popc(unsigned bits) { return __builtin_popcount(bits); }

template <class To, class From> ATTILE_INLINE To attile_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
ATTILE_INLINE int __float_as_int(float x) { return attile_bits<int>(x); }
ATTILE_INLINE unsigned __float_as_uint(float x) { return attile_bits<unsigned>(x); }
ATTILE_INLINE float __int_as_float(int x) { return attile_bits<float>(x); }
ATTILE_INLINE float __uint_as_float(unsigned x) { return attile_bits<float>(x); }

/* Both arguments have one type; int with unsigned is unsigned, as in CUDA. */
#define ATTILE_MINMAX(type)                                                                                            \
    ATTILE_INLINE type min(type a, type b) { return b < a ? b : a; }                                                   \
    ATTILE_INLINE type max(type a, type b) { return a < b ? b : a; }
ATTILE_MINMAX(int)
ATTILE_MINMAX(unsigned)
ATTILE_MINMAX(long)
ATTILE_MINMAX(unsigned long)
ATTILE_MINMAX(long long)
ATTILE_MINMAX(unsigned long long)
ATTILE_INLINE unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
ATTILE_INLINE unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
ATTILE_INLINE unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
ATTILE_INLINE unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
