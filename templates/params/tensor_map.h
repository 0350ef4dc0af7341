/* The TMA descriptor of a tensor (CUtensorMap): address, sizes, strides, box. Filled by the runtime, opaque to kernels. */
struct tensor_map {
    alignas(64) unsigned long long word[16];
};
