//$ needs block_m columns_v

// The result of a run of K/V tiles for the rows of a Q tile that it shares with other runs.
struct Part {
    float o[BLOCK_M][COLUMNS_V]; // O, relative to m and not divided by l
    float2 state[BLOCK_M];       // m and l
};
