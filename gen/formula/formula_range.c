/* formula_range: integer operations over ranges. Each operation is monotone in each operand while the other one keeps
   its sign, so its extremes are at the corners of the ranges after splitting at zero. */
#include "formula_tree.h"

static const int64_t widest = (int64_t)1 << TREE_WIDEST;

int64_t tree_floor_divide(int64_t a, int64_t b) {
    if (b == 0)
        return 0;
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t tree_modulo(int64_t a, int64_t b) { return a - b * tree_floor_divide(a, b); }

int64_t tree_shift(int64_t a, int64_t count, bool left) {
    int by = count < 0 ? 0 : count > 63 ? 63 : (int)count;
    if (left)
        return (int64_t)((uint64_t)a << by);
    return a < 0 ? ~(~a >> by) : a >> by;
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* Extends the range by one corner; false if it is too wide. */
static bool take(struct tree_range *range, bool *first, int64_t value) {
    if (value <= -widest || value >= widest)
        return false;
    range->least = *first ? value : least_of(range->least, value);
    range->most = *first ? value : most_of(range->most, value);
    *first = false;
    return true;
}

static bool multiply(struct tree_range a, struct tree_range b, struct tree_range *out) {
    const int64_t x[2] = {a.least, a.most}, y[2] = {b.least, b.most};
    bool first = true;
    for (int i = 0; i < 4; i++) {
        int64_t product;
        if (__builtin_mul_overflow(x[i / 2], y[i % 2], &product) || !take(out, &first, product))
            return false;
    }
    return true;
}

static bool divide(struct tree_range a, struct tree_range b, struct tree_range *out) {
    const int64_t x[2] = {a.least, a.most};
    bool first = true;
    if (b.least <= 0 && b.most >= 0)
        take(out, &first, 0);
    for (int i = 0; i < 2; i++) {
        if (b.most >= 1) {
            take(out, &first, tree_floor_divide(x[i], most_of(b.least, 1)));
            take(out, &first, tree_floor_divide(x[i], b.most));
        }
        if (b.least <= -1) {
            take(out, &first, tree_floor_divide(x[i], least_of(b.most, -1)));
            take(out, &first, tree_floor_divide(x[i], b.least));
        }
    }
    return true;
}

static bool modulo(struct tree_range a, struct tree_range b, struct tree_range *out) {
    if (b.least > 0 && a.least >= 0 && a.most < b.least) { /* never wraps */
        *out = a;
        return true;
    }
    bool first = true;
    take(out, &first, 0);
    if (b.most > 0)
        take(out, &first, a.least >= 0 ? least_of(b.most - 1, a.most) : b.most - 1);
    if (b.least < 0)
        take(out, &first, a.most <= 0 ? most_of(b.least + 1, a.least) : b.least + 1);
    if (b.least <= 0 && b.most >= 0) {
        take(out, &first, a.least);
        take(out, &first, a.most);
    }
    return true;
}

/* Returns the least number of all ones that covers both ranges without their signs. */
static int64_t ones_over(struct tree_range a, struct tree_range b) {
    const int64_t ends[4] = {a.least, a.most, b.least, b.most};
    int64_t ones = 0;
    for (int i = 0; i < 4; i++)
        while (ones < (ends[i] < 0 ? ~ends[i] : ends[i]))
            ones = 2 * ones + 1;
    return ones;
}

static bool bits(enum tree_op op, struct tree_range a, struct tree_range b, struct tree_range *out) {
    if (a.least == a.most && b.least == b.most) {
        out->least = op == OP_AND_BITS ? a.least & b.least : op == OP_OR_BITS ? a.least | b.least : a.least ^ b.least;
        out->most = out->least;
        return true;
    }
    int64_t ones = ones_over(a, b);
    bool positive = a.least >= 0 && b.least >= 0;
    *out = (struct tree_range){positive ? 0 : ~ones, ones};
    if (op == OP_AND_BITS && (a.least >= 0 || b.least >= 0)) {
        out->least = 0;
        out->most = positive ? least_of(a.most, b.most) : a.least >= 0 ? a.most : b.most;
    }
    return true;
}

static bool shift(bool left, struct tree_range a, struct tree_range count, struct tree_range *out) {
    int64_t few = least_of(most_of(count.least, 0), 63), many = least_of(most_of(count.most, 0), 63);
    if (left && many >= TREE_WIDEST)
        return a.least == 0 && a.most == 0 ? (*out = a, true) : false;
    if (left)
        return multiply(a, (struct tree_range){(int64_t)1 << few, (int64_t)1 << many}, out);
    out->least = tree_shift(a.least, a.least < 0 ? few : many, false);
    out->most = tree_shift(a.most, a.most < 0 ? many : few, false);
    return true;
}

bool tree_range_one(enum tree_op op, struct tree_range a, struct tree_range *out) {
    switch (op) {
    case OP_NEGATE: *out = (struct tree_range){-a.most, -a.least}; return true;
    case OP_COMPLEMENT: *out = (struct tree_range){~a.most, ~a.least}; return ~a.least < widest && ~a.most > -widest;
    case OP_NOT: *out = (struct tree_range){!a.most, !a.least}; return true;
    case OP_ABS:
        out->least = most_of(0, most_of(a.least, -a.most));
        out->most = most_of(-a.least, a.most);
        return true;
    default: return false;
    }
}

bool tree_range_two(enum tree_op op, struct tree_range a, struct tree_range b, struct tree_range *out) {
    bool first = true;
    switch (op) {
    case OP_ADD: return take(out, &first, a.least + b.least) && take(out, &first, a.most + b.most);
    case OP_SUBTRACT: return take(out, &first, a.least - b.most) && take(out, &first, a.most - b.least);
    case OP_MULTIPLY: return multiply(a, b, out);
    case OP_FLOOR_DIVIDE: return divide(a, b, out);
    case OP_MODULO: return modulo(a, b, out);
    case OP_AND_BITS:
    case OP_OR_BITS:
    case OP_XOR_BITS: return bits(op, a, b, out);
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT: return shift(op == OP_SHIFT_LEFT, a, b, out);
    case OP_MIN: *out = (struct tree_range){least_of(a.least, b.least), least_of(a.most, b.most)}; return true;
    case OP_MAX: *out = (struct tree_range){most_of(a.least, b.least), most_of(a.most, b.most)}; return true;
    case OP_AND: *out = (struct tree_range){a.least && b.least, a.most && b.most}; return true;
    case OP_OR: *out = (struct tree_range){a.least || b.least, a.most || b.most}; return true;
    case OP_LESS: *out = (struct tree_range){a.most < b.least, a.least < b.most}; return true;
    case OP_LESS_EQUAL: *out = (struct tree_range){a.most <= b.least, a.least <= b.most}; return true;
    case OP_EQUAL:
        *out = (struct tree_range){a.least == b.most && a.most == b.least, a.least <= b.most && b.least <= a.most};
        return true;
    case OP_UNEQUAL:
        *out =
            (struct tree_range){!(a.least <= b.most && b.least <= a.most), !(a.least == b.most && a.most == b.least)};
        return true;
    default: return false;
    }
}
