//$ needs head_dim_v algorithm block_m mask mask_lookup folded
//$ include "fragment/unit.cuh"

// Columns of O per pass, and whether V is loaded before S is computed: S of the next tile may be in registers, too.
//$ if algorithm == flash_async and block_m <= 128 and mask_lookup == no_lookup
constexpr int PASS = HEAD_DIM_V > 64 ? 64 : 32; //$ if mask != custom_mask and not folded
constexpr int PASS = 32;                        //$ else
constexpr bool VALUES_AHEAD = true;
//$ elif algorithm == flash_async and block_m <= 192
constexpr int PASS = HEAD_DIM_V > 64 ? 32 : 16;
constexpr bool VALUES_AHEAD = HEAD_DIM_V > 64;
//$ elif algorithm == flash_async
constexpr int PASS = 32;
constexpr bool VALUES_AHEAD = true;
//$ else
constexpr int PASS = HEAD_DIM_V > 64 ? 32 : 16;
constexpr bool VALUES_AHEAD = false;
//$ end

constexpr int PASSES = (HEAD_DIM_V + PASS - 1) / PASS;

// The product P V may take columns in any order, so a lane loads WIDTH neighbouring ones of V at a time. Then element
// 4 i + 2 r + c of O (16, PASS) belongs to row lane / 4 + 8 r and to this column.
constexpr int WIDTH = PASS < 64 ? PASS / 8 : 8;
__device__ __forceinline__ int column_of(const Unit &unit, int i, int c) {
    return i / WIDTH * 8 * WIDTH + unit.lane % 4 * 2 * WIDTH + c * WIDTH + i % WIDTH;
}
