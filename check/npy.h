/* npy: reads and writes NumPy's .npy files. It reads format versions 1 to 3, C order, little-endian, with elements
       <f4        fp32
       <f2        fp16
       <u2, V2    bf16, as raw bits (NumPy has no bf16; V2 is what the ml_dtypes package makes)
   For arrays that are not operands of a computation, npy_parse_numbers also reads
       <i4, <i8   integers
       |b1        booleans
   Everything else is refused with a message that says what was found and how to convert it. Files are written as
   version 1 with <f4, <f2 or <u2. Data never has more or fewer bytes than the shape says. */
#ifndef ATTILE_NPY_H
#define ATTILE_NPY_H

#include "text.h"

#include <stdint.h>

/* The first six have the numbers of the words of knob dtype_kv. Files never hold E4M3, E5M2 or INT8. */
enum npy_type { NPY_FP32, NPY_FP16, NPY_BF16, NPY_E4M3, NPY_E5M2, NPY_INT8, NPY_INT32, NPY_INT64, NPY_BOOL };

enum { NPY_DIMS = 8 };

struct npy {
    enum npy_type type;
    int dims;
    int64_t dim[NPY_DIMS];
    int64_t count; /* product of dim; 1 when dims is 0 */
    void *data;    /* count elements, owned; never null after a successful read */
};

size_t npy_element_size(enum npy_type type); /* bytes */

/* Parses a whole file in memory. `name` is for messages. On failure returns false with a sentence in *error, and *npy
   is empty. */
bool npy_parse(const char *name, const void *bytes, size_t size, struct npy *npy, struct text *error);

bool npy_parse_numbers(const char *name, const void *bytes, size_t size, struct npy *npy, struct text *error);

/* Appends the complete file; integers and booleans are not supported. */
void npy_print(const struct npy *npy, struct text *file);

/* "(2, 4, 128, 64)" as NumPy writes it. */
void npy_print_shape(const struct npy *npy, struct text *text);

void npy_free(struct npy *npy); /* accepts an empty one */

#endif
