//$ needs dependent_launches
//$ if dependent_launches == 1
// sm_90: what compute capability 9.0 adds for kernels of all targets from there on. One instruction each; the host device has its own
// bodies under these names (runtime/host/device/).
#ifndef ATTILE_HOST

// --- programmatic dependent launch (griddepcontrol): a launch may start before the one ahead of it has ended

// Until the launch ahead has ended and what it wrote can be seen. Every thread of a dependent launch calls it, before it touches
// global memory: a launch then ends behind all those ahead of it.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// For a launch that needs nothing from the one ahead: it calls this first, and waits at its end. The launch ahead has called
// launch_dependents() behind its own wait, so what it waited for can be seen.
__device__ __forceinline__ void grid_dependency_begun() {}
// The launch behind this one may start, once every block has called it or has ended.
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

#endif
//$ end
