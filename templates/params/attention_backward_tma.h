//$ include "params/attention_backward.h"
//$ include "params/tensor_map.h"

/* The parameters of a kernel with tensor maps: the maps in the order of its tensor_map directives, then the rest. */
struct attention_backward_tma_params {
    //$ tensor_maps
    struct attention_backward_params backward;
};
