#include "formula_tree.h"

#include <criterion/criterion.h>

/* Returns what an operation gives for two integers when a formula is evaluated. */
static int64_t value(enum tree_op op, int64_t x, int64_t y) {
    switch (op) {
    case OP_ADD: return x + y;
    case OP_SUBTRACT: return x - y;
    case OP_MULTIPLY: return x * y;
    case OP_FLOOR_DIVIDE: return tree_floor_divide(x, y);
    case OP_MODULO: return tree_modulo(x, y);
    case OP_AND_BITS: return x & y;
    case OP_OR_BITS: return x | y;
    case OP_XOR_BITS: return x ^ y;
    case OP_SHIFT_LEFT: return tree_shift(x, y, true);
    case OP_SHIFT_RIGHT: return tree_shift(x, y, false);
    case OP_MIN: return x < y ? x : y;
    case OP_MAX: return x > y ? x : y;
    case OP_LESS: return x < y;
    case OP_LESS_EQUAL: return x <= y;
    case OP_EQUAL: return x == y;
    case OP_UNEQUAL: return x != y;
    default: cr_assert_fail("operation %d", (int)op); return 0;
    }
}

static void check(enum tree_op op, struct tree_range a, struct tree_range b) {
    struct tree_range range;
    cr_assert(tree_range_two(op, a, b, &range), "operation %d is small enough", (int)op);
    for (int64_t x = a.least; x <= a.most; x++)
        for (int64_t y = b.least; y <= b.most; y++) {
            int64_t found = value(op, x, y);
            cr_assert(found >= range.least && found <= range.most,
                      "operation %d on %d..%d and %d..%d: %d and %d give %d, outside of %d..%d", (int)op, (int)a.least,
                      (int)a.most, (int)b.least, (int)b.most, (int)x, (int)y, (int)found, (int)range.least,
                      (int)range.most);
        }
}

/* A range may be too wide, never too narrow, since tiles are skipped by it. Tests every pair of ranges
   of small numbers. */
Test(formula_range, holds_every_value) {
    static const enum tree_op ops[] = {
        OP_ADD, OP_SUBTRACT, OP_MULTIPLY,   OP_FLOOR_DIVIDE, OP_MODULO, OP_AND_BITS,   OP_OR_BITS, OP_XOR_BITS,
        OP_MIN, OP_MAX,      OP_SHIFT_LEFT, OP_SHIFT_RIGHT,  OP_LESS,   OP_LESS_EQUAL, OP_EQUAL,   OP_UNEQUAL};
    enum { MOST = 6 };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int64_t a = -MOST; a <= MOST; a++)
            for (int64_t b = a; b <= MOST; b++)
                for (int64_t c = -MOST; c <= MOST; c++)
                    for (int64_t d = c; d <= MOST; d++)
                        check(ops[i], (struct tree_range){a, b}, (struct tree_range){c, d});
}

/* If each range is a single number, the result must be exact. */
Test(formula_range, of_single_numbers_is_their_value) {
    static const enum tree_op ops[] = {OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_FLOOR_DIVIDE, OP_AND_BITS,   OP_OR_BITS,
                                       OP_MIN, OP_MAX,      OP_LESS,     OP_EQUAL,        OP_SHIFT_RIGHT};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int64_t x = -9; x <= 9; x++)
            for (int64_t y = 1; y <= 9; y++) {
                struct tree_range range;
                cr_assert(tree_range_two(ops[i], (struct tree_range){x, x}, (struct tree_range){y, y}, &range));
                cr_expect(range.least == value(ops[i], x, y) && range.most == range.least,
                          "operation %d on %d and %d: %d..%d", (int)ops[i], (int)x, (int)y, (int)range.least,
                          (int)range.most);
            }
}
