/* tensor: numbers as a kernel sees them: elements of 8, 16 or 32 bits, with strides, in one block of memory. Every
   tensor here has five dimensions (part, batch, head, row, column); those that do not apply are 1. */
#ifndef ATTILE_TENSOR_H
#define ATTILE_TENSOR_H

#include "npy.h"

enum { TENSOR_DIMS = 5 };
enum tensor_dim { DIM_PART, DIM_BATCH, DIM_HEAD, DIM_ROW, DIM_COLUMN };

/* Memory layouts of tensors. Kernels must give the same answers for all of them. */
enum tensor_layout {
    LAYOUT_PACKED, /* (part, batch, head, row, column), without gaps */
    LAYOUT_SPREAD  /* (part, batch, row, head, column), with a gap after every run of columns */
};

struct tensor {
    enum npy_type type;
    int64_t dim[TENSOR_DIMS];
    int64_t stride[TENSOR_DIMS]; /* in elements; the last is 1 */
    int64_t count;               /* elements of the tensor */
    size_t bytes;                /* of the block, gaps included */
};

/* Fills strides, count and bytes. False when a dimension is negative or a product overflows. */
bool tensor_plan(struct tensor *tensor, enum npy_type type, const int64_t dim[TENSOR_DIMS], enum tensor_layout layout);

/* Returns the offset in the block, in elements, of element i of the tensor (counted as if packed). */
int64_t tensor_place(const struct tensor *tensor, int64_t i);

/* Convert one element to bits and back. Encoding rounds to nearest even and keeps NaN. Overflow gives infinity; in 8
   bits it gives the largest number, and int8 has 0 for NaN. */
void element_encode(enum npy_type type, float value, void *bits);
float element_decode(enum npy_type type, const void *bits);

/* Draws normally distributed numbers; equal seeds give equal numbers, whatever is drawn in between. */
void tensor_random(uint64_t seed, float *value, int64_t count);

#endif
