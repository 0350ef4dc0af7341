// Where the cache has a token.
struct Place {
    int block; // sequence or page; -1 = nowhere
    int row;
};
