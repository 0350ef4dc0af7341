//$ needs dtype_kv
//$ include "target/any.cuh"
//$ include "sequence/bfloat16.cuh" if dtype_kv == bf16

// The element type of the cache, as bits.

//$ if dtype_kv == fp32
using Cached = float;
__device__ __forceinline__ Cached to_cached(float x) { return x; }
//$ elif dtype_kv == fp16
using Cached = unsigned short; // IEEE half
__device__ __forceinline__ Cached to_cached(float x) { return float_to_half(x); }
//$ elif dtype_kv == bf16
using Cached = unsigned short; // bfloat16
__device__ __forceinline__ Cached to_cached(float x) { return to_bfloat16(x); }
//$ elif dtype_kv == int8
using Cached = unsigned char; // two's complement
constexpr float CACHED_MOST = 127.0f;

// Returns the nearest integer, ties to even, clamped to -127 .. 127; 0 for NaN. A float of the sum's size has the integer in its
// lowest bits.
__device__ __forceinline__ Cached to_cached(float x) {
    float limited = isnan(x) ? 0.0f : fminf(fmaxf(x, -CACHED_MOST), CACHED_MOST);
    return static_cast<Cached>(__float_as_int(limited + 12582912.0f));
}
//$ else
using Cached = unsigned char;
//$ if dtype_kv == e4m3
constexpr float CACHED_MOST = 448.0f;
constexpr int CACHED_MANTISSA = 3, CACHED_BIAS = 7;
//$ else
constexpr float CACHED_MOST = 57344.0f;
constexpr int CACHED_MANTISSA = 2, CACHED_BIAS = 15;
//$ end

// Returns the bits of the nearest number, ties to even. Values beyond the largest number, infinity included, become the largest.
// Below the smallest normal number, the addition of a float whose last place is that of a subnormal number does the rounding.
__device__ __forceinline__ Cached to_cached(float x) {
    unsigned bits = static_cast<unsigned>(__float_as_int(x)), sign = bits >> 24 & 0x80u;
    if (isnan(x))
        return static_cast<Cached>(sign | 0x7fu);
    constexpr int DROPPED = 23 - CACHED_MANTISSA;
    constexpr int STEP_EXPONENT = 127 + 1 - CACHED_BIAS - CACHED_MANTISSA + 23;
    float size = fminf(fabsf(x), CACHED_MOST), step = __int_as_float(STEP_EXPONENT << 23);
    unsigned whole = static_cast<unsigned>(__float_as_int(size));
    unsigned subnormal = static_cast<unsigned>(__float_as_int(size + step) - __float_as_int(step));
    unsigned normal = (whole + (1u << (DROPPED - 1)) - 1 + (whole >> DROPPED & 1u)) >> DROPPED;
    bool small = whole < static_cast<unsigned>(127 + 1 - CACHED_BIAS) << 23;
    return static_cast<Cached>(sign | (small ? subnormal : normal - ((127u - CACHED_BIAS) << CACHED_MANTISSA)));
}
//$ end
