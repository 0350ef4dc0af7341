// The position in a ring of so many stages after `count` steps.
template <int SIZE> struct Ring {
    int count;
    __device__ __forceinline__ int stage() const { return count % SIZE; }
    __device__ __forceinline__ int parity() const { return count / SIZE & 1; }
    __device__ __forceinline__ Ring operator+(int steps) const { return {count + steps}; }
};
