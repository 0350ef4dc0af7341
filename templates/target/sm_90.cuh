//$ needs dependent_launches
//$ if dependent_launches == 1
// sm_90: what compute capability 9.0 adds for kernels of all targets from 9.0 on. Each is one instruction; the host device has its own
// bodies under these names (runtime/host/device/).
#ifndef ATTILE_HOST

// --- programmatic dependent launch (griddepcontrol): a launch may start before the previous one has ended

// Waits until the previous launch has ended and its writes are visible. Every thread of a dependent launch calls this before it
// accesses global memory, so a launch ends after all previous ones.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// For a launch that needs nothing from the previous one: it calls this first and waits at its end. The previous launch called
// launch_dependents() after its own wait, so the data that it waited for is visible.
__device__ __forceinline__ void grid_dependency_begun() {}
// Lets the next launch start once every block has called this or has ended.
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

#endif
//$ end
