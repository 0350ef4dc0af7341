/* The launch parameters of a kernel of this family. Valid in C and in CUDA C++; spliced into every source and filled by
   the runtime (launch.c). Strides are in elements; the last dimension is always contiguous. */
struct softmax_params {
    const void *x; /* (rows, cols) */
    void *y;       /* (rows, cols) */
    long long x_row_stride, y_row_stride;
    long long rows, cols;
};
