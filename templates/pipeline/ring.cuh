// The position in a ring of SIZE stages after `count` steps, and the parity of the barrier phase there.
template <int SIZE> struct Ring {
    int count;
    __device__ __forceinline__ int stage() const { return count % SIZE; }
    __device__ __forceinline__ int parity() const { return count / SIZE & 1; }
    __device__ __forceinline__ Ring operator+(int steps) const { return {count + steps}; }
};
