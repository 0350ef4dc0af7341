//$ needs dq_columns

// Tells the adding warp where the part in shared memory belongs.
__device__ __forceinline__ void publish_part_of_dq(SharedKeys &shared, int index, DqPart part) {
    if (threadIdx.x % 128 == 0)
        shared.dq_part[index] = part;
    fence_async();
    __syncwarp();
    if (elect_one())
        barrier_arrive(&shared.dq_full[index]);
}
// Stores the part to shared memory once the previous part has been read; `count` parts have been sent so far.
__device__ __forceinline__ void send_part_of_dq(const float (&dq)[DQ_COLUMNS / 2], SharedKeys &shared, int index, int count, DqPart part) {
    const int thread = opaque(static_cast<int>(threadIdx.x) % 128);
    barrier_wait(&shared.dq_empty[index], count & 1 ^ 1);
#pragma unroll
    for (int i = 0; i < DQ_COLUMNS / 8; i++)
        *reinterpret_cast<float4 *>(shared.dq[index][i][thread]) = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    publish_part_of_dq(shared, index, part);
}
// Tells the adding warp to stop once it has read the last of `count` parts.
__device__ __forceinline__ void end_parts_of_dq(SharedKeys &shared, int index, int count) {
    barrier_wait(&shared.dq_empty[index], count & 1 ^ 1);
    publish_part_of_dq(shared, index, {-1});
}
