//$ needs output_panels

// The order in which the panels of a K/V tile are loaded, and multiplied for S. First come the panels of V that the warpgroup
// computing S multiplies its P by: it does so before the other one has P, so these panels are free first.
__device__ __forceinline__ int panel_of_step(int step, int warpgroup) {
    return step < 2 * OUTPUT_PANELS ? (step + warpgroup * OUTPUT_PANELS) % (2 * OUTPUT_PANELS) : step;
}
