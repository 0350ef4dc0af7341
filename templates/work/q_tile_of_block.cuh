//$ needs mask score sinks block_m threads shared_bytes
//$ include "sequence/head.cuh"
//$ launch attention_flash_tiled grid batch * heads * ((len_q + block_m - 1) / block_m) block threads shared shared_bytes

// A block computes one Q tile of one head.
struct QTile {
    int row0; // its first query
    int head; // over all batches
    Where where; //$ if mask == custom_mask or score == custom_score or sinks > 0
    int q_first, q_last; // positions of its first and last query //$ if mask == custom_mask or score == custom_score
};
