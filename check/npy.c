/* The format: "\x93NUMPY", major, minor, header length (2 bytes, 4 from version 2 on), a Python dictionary
   { 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } padded with blanks, newline, then the elements. */
#include "npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 6, HEADER_LIMIT = 65536 };

static const struct {
    const char *descr;
    enum npy_type type;
} descriptions[] = {{"<f4", NPY_FP32}, {"<f2", NPY_FP16},  {"<u2", NPY_BF16},  {"|V2", NPY_BF16},
                    {"<V2", NPY_BF16}, {"<i4", NPY_INT32}, {"<i8", NPY_INT64}, {"|b1", NPY_BOOL}};

static const char *const written_as[] = {"<f4", "<f2", "<u2"};

struct reader {
    const char *name, *at, *end;
    bool whole; /* integers and booleans are allowed */
    struct text *error;
};

static bool fail(struct reader *r, const char *format, ...) TEXT_PRINTF(2, 3);
static bool fail(struct reader *r, const char *format, ...) {
    text_print(r->error, "%s: ", r->name);
    va_list arguments;
    va_start(arguments, format);
    text_vprint(r->error, format, arguments);
    va_end(arguments);
    return false;
}

static void blanks(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n'))
        r->at++;
}

static bool take(struct reader *r, const char *word) {
    blanks(r);
    size_t size = strlen(word);
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0)
        return false;
    r->at += size;
    return true;
}

/* After a member: takes a comma, or expects `closing` and leaves it in place. */
static bool take_separator(struct reader *r, char closing) {
    return take(r, ",") || (r->at < r->end && *r->at == closing);
}

/* Takes a quoted string without escapes, at most 15 bytes. */
static bool take_string(struct reader *r, char out[16]) {
    blanks(r);
    char quote = r->at < r->end ? *r->at : 0;
    if (quote != '\'' && quote != '"')
        return false;
    const char *start = r->at + 1, *stop = memchr(start, quote, (size_t)(r->end - start));
    if (!stop || stop - start > 15)
        return false;
    memcpy(out, start, (size_t)(stop - start));
    out[stop - start] = '\0';
    r->at = stop + 1;
    return true;
}

static bool read_descr(struct reader *r, struct npy *npy) {
    char descr[16];
    if (!take_string(r, descr))
        return fail(r, "the header's 'descr' is not a plain type; structured arrays are not tensors");
    for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++)
        if (strcmp(descr, descriptions[i].descr) == 0 && (r->whole || descriptions[i].type <= NPY_BF16)) {
            npy->type = descriptions[i].type;
            return true;
        }
    if (descr[0] == '>')
        return fail(r, "the elements are big-endian ('%s'); convert with a.astype(a.dtype.newbyteorder('<'))", descr);
    return fail(r,
                "the element type is '%s'; expected '<f4' (fp32), '<f2' (fp16)%s or '<u2' (bf16 bits); convert with "
                "a.astype('<f4')",
                descr, r->whole ? ", '<i4', '<i8' (integers), '|b1' (truth values)" : "");
}

static bool read_order(struct reader *r) {
    if (take(r, "False"))
        return true;
    if (take(r, "True"))
        return fail(r, "the array is in Fortran order; convert with numpy.ascontiguousarray(a)");
    return fail(r, "the header's 'fortran_order' is neither True nor False");
}

static bool read_size(struct reader *r, int64_t *size) {
    blanks(r);
    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return fail(r, "the header's 'shape' is not a tuple of sizes");
    for (*size = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *r->at - '0', size))
            return fail(r, "a size in the header's 'shape' does not fit 64 bits");
    return true;
}

static bool read_shape(struct reader *r, struct npy *npy) {
    if (!take(r, "("))
        return fail(r, "the header's 'shape' is not a tuple");
    while (!take(r, ")")) {
        if (npy->dims == NPY_DIMS)
            return fail(r, "the array has more than %d dimensions", NPY_DIMS);
        if (!read_size(r, &npy->dim[npy->dims++]))
            return false;
        if (!take_separator(r, ')'))
            return fail(r, "the header's 'shape' is not a tuple of sizes");
    }
    return true;
}

static bool read_dictionary(struct reader *r, struct npy *npy) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    if (!take(r, "{"))
        return fail(r, "the header is not a Python dictionary");
    while (!take(r, "}")) {
        char key[16];
        if (!take_string(r, key) || !take(r, ":"))
            return fail(r, "the header is not a Python dictionary with plain keys");
        int field = strcmp(key, "descr") == 0           ? DESCR
                    : strcmp(key, "fortran_order") == 0 ? ORDER
                    : strcmp(key, "shape") == 0         ? SHAPE
                                                        : 0;
        if (!field || seen & field)
            return fail(r, "the header has %s key '%s'", field ? "a second" : "an unknown", key);
        seen |= field;
        if (!(field == DESCR ? read_descr(r, npy) : field == ORDER ? read_order(r) : read_shape(r, npy)))
            return false;
        if (!take_separator(r, '}'))
            return fail(r, "the header's dictionary is malformed after '%s'", key);
    }
    blanks(r);
    if (r->at != r->end)
        return fail(r, "there is text after the header's dictionary");
    if (seen != ALL)
        return fail(r, "the header lacks %s",
                    !(seen & DESCR)   ? "'descr'"
                    : !(seen & ORDER) ? "'fortran_order'"
                                      : "'shape'");
    return true;
}

/* Skips magic, version and length, so that the reader holds exactly the header. */
static bool read_preamble(struct reader *r, const char **data) {
    size_t size = (size_t)(r->end - r->at);
    const unsigned char *byte = (const unsigned char *)r->at;
    if (size < MAGIC + 2 || memcmp(r->at, "\x93NUMPY", MAGIC) != 0)
        return fail(r, "this is not a .npy file (it does not start with \\x93NUMPY)");
    if (byte[6] < 1 || byte[6] > 3 || byte[7] != 0)
        return fail(r, "the file has format version %d.%d; versions 1.0, 2.0 and 3.0 are known", byte[6], byte[7]);
    size_t field = byte[6] == 1 ? 2 : 4, length = 0;
    if (size < MAGIC + 2 + field)
        return fail(r, "the file is cut off within its header");
    for (size_t i = 0; i < field; i++)
        length |= (size_t)byte[MAGIC + 2 + i] << (8 * i);
    if (length > HEADER_LIMIT)
        return fail(r, "the header claims %zu bytes; at most %d make sense", length, HEADER_LIMIT);
    if (size - (MAGIC + 2 + field) < length)
        return fail(r, "the file is cut off within its header");
    r->at += MAGIC + 2 + field;
    r->end = *data = r->at + length;
    return true;
}

static bool count_elements(struct reader *r, struct npy *npy, size_t *bytes) {
    bool empty = false, fits = true;
    npy->count = 1;
    for (int i = 0; i < npy->dims; i++) {
        empty = empty || npy->dim[i] == 0;
        fits = fits && !__builtin_mul_overflow(npy->count, npy->dim[i], &npy->count);
    }
    if (empty)
        npy->count = 0;
    if ((!fits && !empty) || __builtin_mul_overflow((size_t)npy->count, npy_element_size(npy->type), bytes))
        return fail(r, "the shape's product overflows");
    return true;
}

static bool read_all(struct reader *r, struct npy *npy) {
    const char *data = NULL, *end = r->end;
    size_t bytes = 0;
    if (!read_preamble(r, &data) || !read_dictionary(r, npy) || !count_elements(r, npy, &bytes))
        return false;
    size_t there = (size_t)(end - data);
    if (there != bytes) {
        fail(r, "the file is %s: shape ", there < bytes ? "truncated" : "too long");
        npy_print_shape(npy, r->error);
        text_print(r->error, " needs %zu bytes of elements, %zu are there", bytes, there);
        return false;
    }
    npy->data = malloc(bytes ? bytes : 1);
    if (!npy->data)
        return fail(r, "not enough memory for %zu bytes", bytes);
    memcpy(npy->data, data, bytes);
    return true;
}

static bool parse(const char *name, const void *bytes, size_t size, bool whole, struct npy *npy, struct text *error) {
    *npy = (struct npy){0};
    struct reader reader = {name, bytes, (const char *)bytes + size, whole, error};
    if (read_all(&reader, npy))
        return true;
    npy_free(npy);
    return false;
}

bool npy_parse(const char *name, const void *bytes, size_t size, struct npy *npy, struct text *error) {
    return parse(name, bytes, size, false, npy, error);
}

bool npy_parse_numbers(const char *name, const void *bytes, size_t size, struct npy *npy, struct text *error) {
    return parse(name, bytes, size, true, npy, error);
}

void npy_print(const struct npy *npy, struct text *file) {
    struct text header = {0};
    text_print(&header, "{'descr': '%s', 'fortran_order': False, 'shape': ", written_as[npy->type]);
    npy_print_shape(npy, &header);
    text_print(&header, ", }");
    size_t preamble = MAGIC + 4;
    while ((preamble + header.size + 1) % 64 != 0 && !header.failed) /* elements start at a multiple of 64 */
        text_append(&header, " ", 1);
    text_append(&header, "\n", 1);
    unsigned char length[4] = {1, 0, (unsigned char)(header.size & 255), (unsigned char)(header.size >> 8)};
    text_append(file, "\x93NUMPY", MAGIC);
    text_append(file, length, sizeof length);
    text_append(file, text_string(&header), header.size);
    text_append(file, npy->data, (size_t)npy->count * npy_element_size(npy->type));
    file->failed = file->failed || header.failed;
    text_free(&header);
}

void npy_print_shape(const struct npy *npy, struct text *text) {
    text_print(text, "(");
    for (int i = 0; i < npy->dims; i++)
        text_print(text, "%s%" PRId64, i ? ", " : "", npy->dim[i]);
    text_print(text, npy->dims == 1 ? ",)" : ")");
}

size_t npy_element_size(enum npy_type type) {
    static const size_t sizes[] = {[NPY_FP32] = 4, [NPY_FP16] = 2,  [NPY_BF16] = 2,  [NPY_E4M3] = 1, [NPY_E5M2] = 1,
                                   [NPY_INT8] = 1, [NPY_INT32] = 4, [NPY_INT64] = 8, [NPY_BOOL] = 1};
    return sizes[type];
}

void npy_free(struct npy *npy) {
    free(npy->data);
    *npy = (struct npy){0};
}
