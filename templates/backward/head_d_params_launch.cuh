//$ needs head_reads dependent_launches
//$ launch attention_head_d_params grid batch * heads * head_reads block 256 shared 32 dependent
//$ include "backward/head_sums.cuh"
//$ include "backward/d_params.cuh"
//$ include "target/sm_90.cuh"

// Returns the sequence of an entry, which is one read in one head.
__device__ __forceinline__ int batch_of(const attention_params &p, int entry) { return entry % (p.batch * p.heads) / p.heads; }

// Returns where the gradient of an entry is; null if the head has no pair that reads it.
__device__ __forceinline__ float *head_place(const attention_backward_params &params, int entry) {
    const attention_params &p = sequence_of(params.forward, batch_of(params.forward, entry));
    const int indices = p.batch * p.heads, read = entry / indices;
    const Where at = where_is(p, entry % indices);
    if (p.len_q == 0 || p.len_kv == 0)
        return nullptr;
    //$ code head_places
}

// Adds the sums of all warps for one element. If heads share the element, the first entry for it adds all of them.
extern "C" __global__ void __launch_bounds__(256)
    attention_head_d_params(const __grid_constant__ attention_backward_params params) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const attention_params &all = params.forward;
    const int own = blockIdx.x, entries = gridDim.x;
    float *place = head_place(params, own), *shared = dynamic_shared<float>();
    if (!place)
        return;
    float before = 0;
    for (int entry = threadIdx.x; entry < own; entry += 256)
        before += head_place(params, entry) == place;
    if (block_reduce<float, plus>(before, shared) > 0)
        return;
    float sum = 0;
    for (int entry = own; entry < entries; entry++)
        if (head_place(params, entry) == place) {
            const int parts = head_parts(sequence_of(all, batch_of(all, entry)).len_q);
            for (int part = threadIdx.x; part < parts; part += 256)
                sum += head_sums_of(all, entry)[part];
        }
    sum = block_reduce<float, plus>(sum, shared);
    if (threadIdx.x == 0)
        *place = sum;
}
