//$ needs split_keys
//$ include "params/attention.h"

// A Q tile consists of units of 64 rows, one for each consumer warpgroup.
struct Tile {
    int query; // first query; negative = no further tile
    int head, kv_head, batch;
    int split; // which part of its K/V tiles (walk/parts.cuh) //$ if split_keys > 0
};

// The query and the head that a row of a unit belongs to.
struct Row {
    int query; // len_q or more: padding
    int head;
};
