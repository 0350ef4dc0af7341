//$ needs dropout

// How often m has been raised lately: each raise adds 4, and each K/V tile since the last raise subtracts 1, down to 0.
struct Raises {
    int count = 0;
    int step = 0; // the K/V tile of the last raise //$ if dropout == 0

    // From this count on, the maximum of every tile is computed. That takes a quarter of the time of raising m afterwards, so it pays
    // once scores outgrow m in more than a quarter of the tiles.
    static constexpr int MANY = 12;
    __device__ __forceinline__ bool are_many() const { return count >= MANY; }
    //$ if dropout == 0
    __device__ __forceinline__ void add(int now) {
        count = max(0, count - (now - step)) + 4;
        step = now;
    }
    //$ end
};
