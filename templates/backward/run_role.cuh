// Computes all items of the block, as far as this role of a warpgroup goes.
template <class Role> __device__ __forceinline__ void run_role(const attention_backward_params &params, SharedKeys &shared) {
    Role role(params, shared);
    while (role.take()) {
        role.run();
        role.finish_item();
    }
}
