#include "tensor.h"

#include <math.h>
#include <string.h>

enum { GAP = 8 }; /* in elements; preserves the alignment of the columns, up to 16 bytes */

bool tensor_plan(struct tensor *tensor, enum npy_type type, const int64_t dim[TENSOR_DIMS], enum tensor_layout layout) {
    static const enum tensor_dim inner_to_outer[][TENSOR_DIMS] = {
        [LAYOUT_PACKED] = {DIM_COLUMN, DIM_ROW, DIM_HEAD, DIM_BATCH, DIM_PART},
        [LAYOUT_SPREAD] = {DIM_COLUMN, DIM_HEAD, DIM_ROW, DIM_BATCH, DIM_PART},
    };
    int64_t step = 1, count = 1;
    bool fits = true;
    *tensor = (struct tensor){.type = type};
    for (int i = 0; i < TENSOR_DIMS; i++) {
        enum tensor_dim d = inner_to_outer[layout][i];
        if (dim[d] < 0)
            return false;
        tensor->dim[d] = dim[d];
        tensor->stride[d] = step;
        fits = fits && !__builtin_mul_overflow(step, dim[d] > 0 ? dim[d] : 1, &step);
        fits = fits && (i > 0 || layout == LAYOUT_PACKED || !__builtin_add_overflow(step, GAP, &step));
        fits = fits && !__builtin_mul_overflow(count, dim[d], &count);
    }
    tensor->count = count;
    return fits && !__builtin_mul_overflow((size_t)(count ? step : 0), npy_element_size(type), &tensor->bytes);
}

int64_t tensor_place(const struct tensor *tensor, int64_t i) {
    int64_t place = 0;
    for (int d = TENSOR_DIMS - 1; d >= 0; d--) {
        place += i % tensor->dim[d] * tensor->stride[d];
        i /= tensor->dim[d];
    }
    return place;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float value_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_fp16(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000)
        return (uint16_t)(sign | 0x7E00);
    if (size >= 0x477FF000) /* 65520 and more */
        return (uint16_t)(sign | 0x7C00);
    if (size < 0x38800000) /* below 2^-14 the bits count units of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(value_of(size) * 0x1p24f));
    uint32_t rounded = size + 0xFFF + (size >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

static float from_fp16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3FF;
    if (exponent == 31)
        return value_of(sign | 0x7F800000 | fraction << 13);
    if (exponent == 0)
        return value_of(sign | bits_of((float)fraction * 0x1p-24f));
    return value_of(sign | (exponent + 112) << 23 | fraction << 13);
}

static uint16_t to_bf16(float value) {
    uint32_t bits = bits_of(value);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* 8-bit floats: a sign, an exponent, and `mantissa` bits of mantissa. */
static const struct small {
    int mantissa, bias;
    float most;
} small_table[] = {[NPY_E4M3] = {3, 7, 448}, [NPY_E5M2] = {2, 15, 57344}};

static uint8_t to_small(const struct small *type, float value) {
    uint8_t sign = signbit(value) ? 0x80 : 0;
    float size = fminf(fabsf(value), type->most);
    int exponent;
    if (isnan(value))
        return sign | 0x7F;
    if (size == 0)
        return sign; /* zero has no exponent */
    frexpf(size, &exponent);
    exponent = exponent - 1 > 1 - type->bias ? exponent - 1 : 1 - type->bias; /* the least is also that of subnormals */
    int units = (int)rint(ldexp((double)size, type->mantissa - exponent));
    return (uint8_t)(sign | (((exponent + type->bias - 1) << type->mantissa) + units));
}

static float from_small(const struct small *type, uint8_t bits) {
    int size = bits & 0x7F, exponent = size >> type->mantissa, fraction = size & ((1 << type->mantissa) - 1);
    bool nan = type->mantissa == 3 ? size == 0x7F : size > 0x7C, infinite = type->mantissa == 2 && size == 0x7C;
    float value = exponent == 0
                      ? (float)ldexp(fraction, 1 - type->bias - type->mantissa)
                      : (float)ldexp(fraction + (1 << type->mantissa), exponent - type->bias - type->mantissa);
    value = nan ? NAN : infinite ? INFINITY : value;
    return bits & 0x80 ? -value : value;
}

static int8_t to_int8(float value) { return (int8_t)(isnan(value) ? 0 : lrintf(fmaxf(fminf(value, 127), -127))); }

void element_encode(enum npy_type type, float value, void *bits) {
    if (type == NPY_E4M3 || type == NPY_E5M2) {
        *(uint8_t *)bits = to_small(&small_table[type], value);
        return;
    }
    if (type == NPY_INT8) {
        *(int8_t *)bits = to_int8(value);
        return;
    }
    if (type == NPY_FP32) {
        memcpy(bits, &value, sizeof value);
        return;
    }
    uint16_t half = type == NPY_FP16 ? to_fp16(value) : to_bf16(value);
    memcpy(bits, &half, sizeof half);
}

float element_decode(enum npy_type type, const void *bits) {
    float value;
    uint16_t half;
    if (type == NPY_E4M3 || type == NPY_E5M2)
        return from_small(&small_table[type], *(const uint8_t *)bits);
    if (type == NPY_INT8)
        return *(const int8_t *)bits;
    if (type == NPY_FP32) {
        memcpy(&value, bits, sizeof value);
        return value;
    }
    memcpy(&half, bits, sizeof half);
    return type == NPY_FP16 ? from_fp16(half) : value_of((uint32_t)half << 16);
}

/* Returns a number in (0, 1) for a counter (the finaliser of SplitMix64, a bijection with good avalanche). */
static double uniform(uint64_t seed, uint64_t counter) {
    uint64_t x = seed * 0xD1342543DE82EF95u + counter * 0x9E3779B97F4A7C15u + 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

void tensor_random(uint64_t seed, float *value, int64_t count) {
    for (int64_t i = 0; i < count; i++) /* Box and Muller */
        value[i] = (float)(sqrt(-2 * log(uniform(seed, 2 * (uint64_t)i))) *
                           cos(2 * 3.14159265358979323846 * uniform(seed, 2 * (uint64_t)i + 1)));
}
