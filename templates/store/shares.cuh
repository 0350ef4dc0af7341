//$ needs block_m columns_v
//$ let combine_threads = 256
//$ note It takes a block longer to find that it has nothing to combine than to combine a share, so they are few: those of a large Q tile in
//$ note few parts have several shares each.
//$ let all_shares = (block_m * columns_v / 4 + combine_threads - 1) / combine_threads
//$ let combine_shares = min(6, all_shares)
//$ let combine_goes_around = combine_shares < all_shares
//$ let combine_bytes = 24 * combine_threads
//$ note The columns of a Q tile of n parts are dealt out to n - 1 times COMBINE_SHARES blocks of the second launch: in all they have as
//$ note much to load whatever n is, and a block little. shares_of_*.cuh say which Q tile and which share a block has.
