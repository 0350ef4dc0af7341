struct Source { // the rows of a token in Q, K and V
    int sequence, row;
};
struct Token {
    int sequence; // -1 = there is no such token
    int position; // in its sequence
};
