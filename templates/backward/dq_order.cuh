// Where dQ of a step belongs.
struct DqPlace {
    int tile;   // dQ tile of the step's queries; negative after the last step
    int before; // number of key tiles whose dQ is added first
};

// What a warp that keeps the order of additions shares with the consumer that adds.
struct DqOrder {
    DqPlace place;
    Barrier asked, allowed, added;
};
constexpr int ORDER_WARPS = 2; // for one of them, asking and counting would take longer than a step
