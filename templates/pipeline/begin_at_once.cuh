//$ needs row_tiles block_n split_n chunks folded

// Computes S and, beside it, exponentials. Each branch has its own copy of the products; otherwise the exponentials would come after them.
__device__ __forceinline__ void begin_tile(UnitRows (&units)[ROW_TILES], const Queries &q, const Rows16<BLOCK_N, CHUNKS> &k,
                                           State state) {
    const unsigned thread = thread_of_round();
    if (keeps_max(units, state)) {
        set_rests_of_units(units, false); //$ if folded
        multiply_scores<0, BLOCK_N>(units, q, k, thread);
        weigh<0, SPLIT_N>(units);
    } else {
        multiply_scores<0, BLOCK_N>(units, q, k, thread);
    }
}
