//$ if mask == causal
//$ include "walk/keys_seen_causal.cuh"
//$ elif mask == none
//$ include "walk/keys_seen_none.cuh"
//$ end
