//$ needs block_n scores_registers

// S on the tensor cores: each wgmma wrapper covers all k steps of its product.
// Names: operand a in shared memory (s) or registers (r); operand b in shared memory (s); the layout of b: its rows are the
// contracted dimension (n), or it is transposed (t). Rows are contiguous in shared memory. Each wrapper is one asm statement for
// all STEPS of 16 of the contracted dimension: a statement names all accumulators, and compilers are slow on such statements.
#ifndef ATTILE_HOST
#define ALL_OF_S "{" \
                 //$ for i below block_n / 8 - 1
                 "%${4 * i}, %${4 * i + 1}, %${4 * i + 2}, %${4 * i + 3}, " \
                 //$ end
                 "%${scores_registers - 4}, %${scores_registers - 3}, %${scores_registers - 2}, %${scores_registers - 1}}, "
#endif
