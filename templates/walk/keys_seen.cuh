//$ needs mask
//$ include "walk/keys_seen_causal.cuh" if mask == causal else "walk/keys_seen_none.cuh" if mask == none
