//$ include "target/sm_80.cuh"

// sm_89: what compute capability 8.9 adds to sm_80. Each is one instruction; the host device has its own bodies under these names
// (runtime/host/device/).
#ifndef ATTILE_HOST

// Converts the two e4m3 numbers in the lower half of `pair` to halves; exact.
__device__ __forceinline__ unsigned halves_of_e4m3(unsigned pair) {
    unsigned halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(pair)));
    return halves;
}

#endif
