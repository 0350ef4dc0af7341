/* ada: plain C++ bodies for the wrappers in templates/target/sm_89.cuh. */

static ATTILE_UNWATCHED unsigned attile_half_of_e4m3(unsigned char bits) {
    unsigned sign = (bits & 0x80u) << 8, magnitude = bits & 0x7fu;
    float value = (magnitude < 8 ? (float)magnitude * 0x1p-9f
                                 : (float)(8 + magnitude % 8) * __uint_as_float((magnitude / 8 + 117) << 23));
    return sign | (magnitude == 0x7f ? 0x7fffu : float_to_half(value));
}
ATTILE_INLINE unsigned halves_of_e4m3(unsigned pair) {
    return attile_half_of_e4m3(pair & 0xff) | attile_half_of_e4m3(pair >> 8 & 0xff) << 16;
}
