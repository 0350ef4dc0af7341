// Where a token is in the cache.
struct Place {
    int block; // sequence or page; -1 = nowhere
    int row;
};
