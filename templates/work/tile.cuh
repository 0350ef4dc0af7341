//$ include "params/attention.h"

// A tile of queries consists of units of 64 rows, one for each consumer warpgroup.
struct Tile {
    int query; // first query; negative: there is no further tile
    int head, kv_head, batch;
};

// The query and the head that a row of a unit belongs to.
struct Row {
    int query; // len_q or more: of nobody
    int head;
};
