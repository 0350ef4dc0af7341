//$ include "params/attention.h"

/* The TMA descriptor of a tensor (CUtensorMap): address, sizes, strides, box. Filled by the runtime, opaque to kernels. */
struct tensor_map {
    alignas(64) unsigned long long word[16];
};

/* The parameters of a kernel with tensor maps: the maps in the order of its tensor_map directives, then the rest. */
struct attention_tma_params {
    //$ tensor_maps
    struct attention_params attention;
};
