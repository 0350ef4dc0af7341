//$ needs half rope

// Rotary position embedding: elements pair_element(i, 0) and pair_element(i, 1) of a row are rotated by position times frequency i.
// Pairs from HALF on are not rotated and consist of neighbours.
__device__ __forceinline__ int pair_element(int pair, int which) {
    //$ if rope == halves
    if (pair < HALF)
        return pair + which * HALF;
    //$ end
    return 2 * pair + which;
}

//$ if rope != none
__device__ __forceinline__ void turn(float &a, float &b, float cosine, float sine) {
    const float turned = fmaf(a, cosine, -b * sine);
    b = fmaf(b, cosine, a * sine);
    a = turned;
}
//$ end
