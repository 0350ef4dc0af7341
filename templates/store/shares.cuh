//$ needs block_m columns_v
//$ let combine_threads = 256
//$ let combine_shares = (block_m * columns_v / 4 + combine_threads - 1) / combine_threads
//$ let combine_bytes = 24 * combine_threads
//$ note The columns of a Q tile of n parts are dealt out to n - 1 times COMBINE_SHARES blocks of the second launch: in all they have as
//$ note much to load whatever n is, and a block little. shares_of_*.cuh say which Q tile and which share a block has.
