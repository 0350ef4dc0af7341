//$ include "expression/formula.cuh"
//$ include "target/any.cuh"

// A key, or a sum with a key, in two parts. The compiler knows the second part. The first part is the same for all keys of a row
// that a thread holds, so converting the sum to float costs one addition, and a tensor element that it indexes
// lies at a constant distance from the element of the first key.
struct SplitSum {
    int first, place;
    __device__ __forceinline__ operator int() const { return first + place; }
    __device__ __forceinline__ explicit operator long long() const { return first + place; }
    __device__ __forceinline__ explicit operator float() const {
        return static_cast<float>(first) + static_cast<float>(place);
    }
};
struct SplitKey : SplitSum {}; // a key itself: first is even, and places come in neighbouring pairs
__device__ __forceinline__ SplitSum operator-(SplitSum a) { return {-a.first, -a.place}; }
__device__ __forceinline__ SplitSum operator+(SplitSum a, SplitSum b) { return {a.first + b.first, a.place + b.place}; }
__device__ __forceinline__ SplitSum operator+(SplitSum a, int b) { return {a.first + b, a.place}; }
__device__ __forceinline__ SplitSum operator+(int a, SplitSum b) { return b + a; }
__device__ __forceinline__ SplitSum operator-(SplitSum a, SplitSum b) { return a + -b; }
__device__ __forceinline__ SplitSum operator-(SplitSum a, int b) { return a + -b; }
__device__ __forceinline__ SplitSum operator-(int a, SplitSum b) { return -b + a; }
__device__ __forceinline__ void set_key(SplitKey &key, int first, int place) { key = {{first, place}}; }
__device__ __forceinline__ void set_key(int &key, int first, int place) { key = first + place; }

// Returns element `place` of a row, read together with its neighbour: two loads of the same pair become one.
__device__ __forceinline__ float of_pair(const float *row, int place) {
    const float2 pair = *reinterpret_cast<const float2 *>(row + place / 2 * 2);
    return place % 2 ? pair.y : pair.x;
}
__device__ __forceinline__ int of_pair(const int *row, int place) {
    const int2 pair = *reinterpret_cast<const int2 *>(row + place / 2 * 2);
    return place % 2 ? pair.y : pair.x;
}
__device__ __forceinline__ unsigned short of_pair(const unsigned short *row, int place) {
    const unsigned pair = *reinterpret_cast<const unsigned *>(row + place / 2 * 2);
    return static_cast<unsigned short>(place % 2 ? pair >> 16 : pair & 0xffff);
}
__device__ __forceinline__ unsigned char of_pair(const unsigned char *row, int place) { return row[place]; }

// True if the tensors that keys index have neighbouring keys next to each other, in aligned pairs.
__device__ __forceinline__ bool keys_in_pairs(const attention_params &p) {
    //$ code pairs
}
//$ code key
