/* target: plain C++ bodies for the wrappers in templates/target/. */

/* 16-bit floats as raw bits, rounded to nearest, ties to even; NaN stays NaN. */
ATTILE_INLINE float bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

ATTILE_INLINE unsigned short float_to_bfloat16(float x) {
    unsigned bits = __float_as_uint(x);
    if (x != x)
        return (unsigned short)(bits >> 16 | 0x40);
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

ATTILE_INLINE float half_to_float(unsigned short bits) {
    unsigned sign = (unsigned)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity, NaN */
        return __uint_as_float(sign | 0x7f800000 | magnitude << 13);
    /* Rebiases the exponent by 127 - 15 with a multiplication, which also handles subnormals correctly. */
    float scaled = __uint_as_float(magnitude << 13) * __uint_as_float((127 + 127 - 15) << 23);
    return __uint_as_float(sign | __float_as_uint(scaled));
}

ATTILE_INLINE unsigned short float_to_half(float x) {
    unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7fff;           /* the NaN that the hardware returns */
    if (magnitude >= 0x477ff000) /* 65520, halfway between the largest half and the next step */
        return (unsigned short)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 rounds at the last subnormal bit, 2^-24 */
        float aligned = __uint_as_float(magnitude) + 0.5f;
        return (unsigned short)(sign | (__float_as_uint(aligned) - 0x3f000000));
    }
    return (unsigned short)(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

/* More accurate than the hardware's approximation; like it, never returns subnormals. */
ATTILE_INLINE float exp2_approx(float x) {
    float y = __builtin_exp2f(x);
    return y < 0x1p-126f ? 0.0f : y; /* false for NaN */
}

ATTILE_INLINE float log2_approx(float x) { return __builtin_log2f(x); }
ATTILE_INLINE float reciprocal_approx(float x) { return 1 / x; }

/* The GPU's version shuffles, so all lanes must take part. */
ATTILE_INLINE int warp_index(ATTILE_LINE) {
    return attile_pick(0xffffffffu, (int)(threadIdx.x / ATTILE_WARP), 0, line);
}
ATTILE_INLINE int opaque(int x) { return x; }

/* Byte i of the result is byte n = (selector >> 4 i & 7): of `low` for n below 4, otherwise of `high`. */
ATTILE_INLINE unsigned permute_bytes(unsigned low, unsigned high, unsigned selector) {
    unsigned long long bytes = low | (unsigned long long)high << 32;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}
/* Pairs of halves: kernels use these only where the result is exact. */
ATTILE_INLINE unsigned subtract_halves(unsigned a, unsigned b) {
    return float_to_half(half_to_float(a & 0xffff) - half_to_float(b & 0xffff)) |
           (unsigned)float_to_half(half_to_float(a >> 16) - half_to_float(b >> 16)) << 16;
}
ATTILE_INLINE unsigned multiply_halves(unsigned a, unsigned b) {
    return float_to_half(half_to_float(a & 0xffff) * half_to_float(b & 0xffff)) |
           (unsigned)float_to_half(half_to_float(a >> 16) * half_to_float(b >> 16)) << 16;
}
