#include "npy.h"
#include "tensor.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Makes a file of version `version` with this header, followed by `data` zero bytes. */
static size_t make(char *file, int version, const char *header, size_t data) {
    size_t length = strlen(header), field = version == 1 ? 2 : 4;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)version;
    file[7] = 0;
    for (size_t i = 0; i < field; i++)
        file[8 + i] = (char)(length >> (8 * i) & 255);
    memcpy(file + 8 + field, header, length);
    memset(file + 8 + field + length, 0, data);
    return 8 + field + length + data;
}

Test(npy, versions_and_types_are_read) {
    static const struct {
        int version;
        const char *header;
        size_t data;
        enum npy_type type;
        int dims;
        int64_t count;
    } cases[] = {
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     \n", 24, NPY_FP32, 2, 6},
        {2, "{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }\n", 10, NPY_FP16, 1, 5},
        {3, "{\"shape\": (2,2,2), \"descr\": \"<u2\", \"fortran_order\": False}", 16, NPY_BF16, 3, 8},
        {1, "{'descr': '|V2', 'fortran_order': False, 'shape': (1, 2)}", 4, NPY_BF16, 2, 2},
        {1, "{'descr': '<V2', 'fortran_order': False, 'shape': (1, 2)}", 4, NPY_BF16, 2, 2},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, NPY_FP32, 0, 1},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0, 4)}", 0, NPY_FP32, 3, 0},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807, 0)}", 0,
         NPY_FP32, 3, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[512];
        struct npy npy;
        struct text error = {0};
        size_t size = make(file, cases[i].version, cases[i].header, cases[i].data);
        cr_assert(npy_parse("a.npy", file, size, &npy, &error), "%zu: %s", i, text_string(&error));
        cr_assert(npy.type == cases[i].type && npy.dims == cases[i].dims && npy.count == cases[i].count, "case %zu", i);
        cr_assert_eq(error.size, 0);
        npy_free(&npy);
    }
}

Test(npy, bad_files_are_refused_with_the_reason) {
    static const struct {
        int version;
        const char *header;
        size_t data;
        const char *reason;
    } cases[] = {
        {4, "{}", 0, "format version 4.0"},
        {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8, "big-endian"},
        {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", 16, "element type is '<f8'"},
        {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", 16, "Fortran order"},
        {1, "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 2)}", 16, "neither True nor False"},
        {1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8, "structured"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", 15,
         "truncated: shape (2, 2) needs 16 bytes of elements, 15 are there"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", 17, "too long"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0, "overflows"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 1)}", 0, "overflows"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", 0, "truncated"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 0, "64 bits"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 0, "tuple of sizes"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}", 16, "tuple of sizes"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': 4}", 16, "not a tuple"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4, "more than 8"},
        {1, "{'descr': '<f4', 'fortran_order': False}", 0, "lacks 'shape'"},
        {1, "{'descr': '<f4', 'descr': '<f4', 'shape': ()}", 4, "a second key 'descr'"},
        {1, "{'descr': '<f4', 'colour': 'red'}", 4, "unknown key 'colour'"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4, "text after"},
        {1, "{'descr': '<f4' 'fortran_order': False, 'shape': ()}", 4, "malformed after 'descr'"},
        {1, "", 0, "not a Python dictionary"},
        {1, "{'descr", 0, "plain keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[512];
        struct npy npy;
        struct text error = {0};
        size_t size = make(file, cases[i].version, cases[i].header, cases[i].data);
        cr_assert_not(npy_parse("a.npy", file, size, &npy, &error), "case %zu was accepted", i);
        cr_assert(strstr(text_string(&error), cases[i].reason), "case %zu says: %s", i, text_string(&error));
        cr_assert(strncmp(text_string(&error), "a.npy: ", 7) == 0);
        cr_assert_null(npy.data);
        text_free(&error);
    }
}

Test(npy, every_truncation_is_refused) {
    char file[256];
    size_t size = make(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24);
    for (size_t cut = 0; cut < size; cut++) {
        char part[256]; /* a copy of just that size, for the sanitizer */
        struct npy npy;
        struct text error = {0};
        memcpy(part, file, cut);
        cr_assert_not(npy_parse("a.npy", part, cut, &npy, &error), "%zu bytes were accepted", cut);
        cr_assert(error.size > 0);
        text_free(&error);
    }
}

Test(npy, a_huge_header_is_refused) {
    char file[64] = "\x93NUMPY\x02";
    struct npy npy;
    struct text error = {0};
    memset(file + 8, 0xFF, 4);
    cr_assert_not(npy_parse("a.npy", file, sizeof file, &npy, &error));
    cr_assert(strstr(text_string(&error), "claims"));
    text_free(&error);
}

Test(npy, what_is_written_reads_back_and_starts_aligned) {
    uint16_t data[24];
    for (size_t i = 0; i < 24; i++)
        data[i] = (uint16_t)(i * 1000);
    for (int type = NPY_FP16; type <= NPY_BF16; type++)
        for (int dims = 1; dims <= 3; dims++) {
            static const int64_t shapes[][3] = {{24}, {4, 6}, {2, 3, 4}};
            struct npy out = {.type = (enum npy_type)type, .dims = dims, .count = 24, .data = data}, back;
            struct text file = {0}, error = {0};
            memcpy(out.dim, shapes[dims - 1], sizeof shapes[0]);
            npy_print(&out, &file);
            cr_assert_eq(file.size % 64, sizeof data % 64);
            cr_assert(npy_parse("b.npy", file.bytes, file.size, &back, &error), "%s", text_string(&error));
            cr_assert(back.type == out.type && back.dims == dims && memcmp(back.dim, out.dim, sizeof back.dim) == 0);
            cr_assert(memcmp(back.data, data, sizeof data) == 0);
            npy_free(&back);
            text_free(&file);
        }
}

/* --- elements ----------------------------------------------------------------------------------------------------- */

Test(tensor, every_16_bit_value_survives_decoding_and_encoding) {
    for (int type = NPY_FP16; type <= NPY_BF16; type++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t in = (uint16_t)bits, out;
            float value = element_decode((enum npy_type)type, &in);
            element_encode((enum npy_type)type, value, &out);
            if (isnan(value))
                cr_assert(isnan(element_decode((enum npy_type)type, &out)));
            else
                cr_assert_eq(in, out, "type %d bits %04x", type, in);
        }
}

Test(tensor, rounding_is_to_the_nearest_and_ties_go_to_even) {
    for (int type = NPY_FP16; type <= NPY_BF16; type++) {
        uint16_t infinity = type == NPY_FP16 ? 0x7C00 : 0x7F80;
        for (uint16_t low = 0; low + 1 < infinity; low++) { /* between every two neighbours */
            uint16_t high = (uint16_t)(low + 1), got;
            float a = element_decode((enum npy_type)type, &low), b = element_decode((enum npy_type)type, &high);
            float middle = (float)(((double)a + (double)b) / 2);
            element_encode((enum npy_type)type, middle, &got);
            cr_assert_eq(got, low & 1 ? high : low, "type %d, tie above %04x", type, low);
            element_encode((enum npy_type)type, nextafterf(middle, a), &got);
            cr_assert_eq(got, low);
            element_encode((enum npy_type)type, -nextafterf(middle, b), &got);
            cr_assert_eq(got, high | 0x8000);
        }
    }
    uint16_t got;
    element_encode(NPY_FP16, 65519.996f, &got);
    cr_assert_eq(got, 0x7BFF);
    element_encode(NPY_FP16, 65520.0f, &got);
    cr_assert_eq(got, 0x7C00);
    element_encode(NPY_BF16, -3.4028235e38f, &got);
    cr_assert_eq(got, 0xFF80);
}

Test(tensor, places_in_memory_are_distinct_in_every_layout) {
    static const int64_t dim[TENSOR_DIMS] = {2, 3, 2, 4, 5};
    for (int layout = LAYOUT_PACKED; layout <= LAYOUT_SPREAD; layout++) {
        struct tensor tensor;
        char seen[4096] = {0};
        cr_assert(tensor_plan(&tensor, NPY_FP16, dim, (enum tensor_layout)layout));
        cr_assert_eq(tensor.count, 240);
        cr_assert_eq(tensor.stride[DIM_COLUMN], 1);
        for (int64_t i = 0; i < tensor.count; i++) {
            int64_t place = tensor_place(&tensor, i);
            cr_assert(place >= 0 && (size_t)place * 2 < tensor.bytes && !seen[place]++);
        }
    }
}

Test(tensor, sizes_that_overflow_or_are_negative_are_refused) {
    static const int64_t cases[][TENSOR_DIMS] = {
        {1, 1, 1, INT64_MAX / 2, 4}, {INT64_MAX, 1, 1, 1, 2}, {1, 1, 1, -1, 1}, {1, 1, 1, 1, INT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensor tensor;
        cr_assert_not(tensor_plan(&tensor, NPY_FP32, cases[i], LAYOUT_SPREAD), "case %zu", i);
    }
}

Test(tensor, random_numbers_repeat_and_look_normal) {
    enum { COUNT = 20000 };
    static float a[COUNT], b[COUNT], c[COUNT];
    double sum = 0, squares = 0;
    tensor_random(7, a, COUNT);
    tensor_random(7, b, COUNT);
    tensor_random(8, c, COUNT);
    cr_assert(memcmp(a, b, sizeof a) == 0);
    cr_assert(memcmp(a, c, sizeof a) != 0);
    for (int i = 0; i < COUNT; i++) {
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    cr_assert(fabs(sum / COUNT) < 0.03 && fabs(squares / COUNT - 1) < 0.05);
}
