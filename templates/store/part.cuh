//$ needs block_m columns_v

// What a run of K/V tiles gives for the rows of a Q tile that others have runs of, too.
struct Part {
    float o[BLOCK_M][COLUMNS_V]; // O, relative to m and not divided by l
    float2 state[BLOCK_M];       // m and l
};
