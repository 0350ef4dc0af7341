//$ needs block_m columns_v
//$ let combine_threads = 256
//$ note A block takes longer to find that it has nothing to combine than to combine a share, so there are few blocks: those of a large Q
//$ note tile in few parts have several shares each.
//$ let all_shares = (block_m * columns_v / 4 + combine_threads - 1) / combine_threads
//$ let combine_shares = min(6, all_shares)
//$ let combine_goes_around = combine_shares < all_shares
//$ let combine_bytes = 24 * combine_threads
//$ note The columns of a Q tile of n parts are distributed over (n - 1) * COMBINE_SHARES blocks of the second launch, so the total load
//$ note does not depend on n, and each block loads little. shares_of_*.cuh say which Q tile and which share a block has.
