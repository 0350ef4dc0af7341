//$ needs output_panels

// The order in which the panels of a K/V tile are loaded, and multiplied for S. First come those of V that the warpgroup which
// computes S multiplies P by: it does so before the other one has P, so they are free first.
__device__ __forceinline__ int panel_of_step(int step, int warpgroup) {
    return step < 2 * OUTPUT_PANELS ? (step + warpgroup * OUTPUT_PANELS) % (2 * OUTPUT_PANELS) : step;
}
