/* formula_keys: which keys a Q tile can see, in closed form. The comparisons of a mask that are affine in q and
   k are inequalities a q + c k + e <= 0, where e depends on neither. Fourier-Motzkin elimination removes q: each lower
   bound of q, combined with each upper bound, including q_first <= q <= q_last, gives an inequality in k alone. Over
   integers this is exact if one of the two has coefficient 1. */
#include "formula_tree.h"

#include <stdlib.h>

enum { TERMS = 8, ATOMS = 12, FACTOR_LIMIT = 1 << 20 };

/* sum of factor * node, + q * Q + k * K + constant */
struct linear {
    int64_t q, k, constant;
    int terms;
    struct {
        int node;
        int64_t factor;
    } term[TERMS];
};

/* The parts of a conjunction. */
struct atoms {
    struct linear atom[ATOMS]; /* each <= 0 */
    int count;
    int condition; /* the part that does not depend on q and k; NO_NODE = none */
    bool all;      /* true if the mask has no other parts */
};

/* Half-open ranges of keys, as nodes. */
struct range {
    int first, end;
    int full_first, full_end;
    bool exact, exact_full;
};

static const unsigned positions = 1u << FORMULA_Q | 1u << FORMULA_K;

static int make(struct formula *f, enum tree_op op, int a, int b) { return tree_two(f, op, a, b); }
static int zero(struct formula *f) { return tree_int(f, 0); }
static bool varies(const struct formula *f, int node) { return tree_names_of(f, node) & positions; }

/* --- a tree as a sum */

/* *sum += factor * node; false if there are too many terms or a factor is too large. */
static bool add_term(struct linear *sum, int node, int64_t factor) {
    for (int i = 0; i < sum->terms; i++)
        if (sum->term[i].node == node) {
            sum->term[i].factor += factor;
            return llabs(sum->term[i].factor) <= FACTOR_LIMIT;
        }
    if (sum->terms == TERMS || llabs(factor) > FACTOR_LIMIT)
        return false;
    sum->term[sum->terms].node = node;
    sum->term[sum->terms++].factor = factor;
    return true;
}

static bool add_linear(struct linear *sum, const struct linear *other, int64_t factor) {
    int64_t constant;
    sum->q += factor * other->q;
    sum->k += factor * other->k;
    if (llabs(sum->q) > FACTOR_LIMIT || llabs(sum->k) > FACTOR_LIMIT ||
        __builtin_mul_overflow(factor, other->constant, &constant) ||
        __builtin_add_overflow(sum->constant, constant, &sum->constant))
        return false;
    for (int i = 0; i < other->terms; i++)
        if (!add_term(sum, other->term[i].node, factor * other->term[i].factor))
            return false;
    return true;
}

static bool linearize(const struct formula *f, int node, int64_t factor, struct linear *sum) {
    const struct tree_node *n = &f->node[node];
    int64_t product;
    if (llabs(factor) > FACTOR_LIMIT)
        return false;
    if (n->op == OP_INT)
        return !__builtin_mul_overflow(factor, n->number, &product) &&
               !__builtin_add_overflow(sum->constant, product, &sum->constant);
    if (n->op == OP_NAME && (1u << n->number & positions))
        return add_linear(sum, &(struct linear){.q = n->number == FORMULA_Q, .k = n->number == FORMULA_K}, factor);
    if (n->op == OP_ADD || n->op == OP_SUBTRACT)
        return linearize(f, n->operand[0], factor, sum) &&
               linearize(f, n->operand[1], n->op == OP_ADD ? factor : -factor, sum);
    if (n->op == OP_NEGATE)
        return linearize(f, n->operand[0], -factor, sum);
    if (n->op == OP_MULTIPLY)
        for (int i = 0; i < 2; i++) {
            const struct tree_node *constant = &f->node[n->operand[i]];
            if (constant->op == OP_INT && llabs(constant->number) <= FACTOR_LIMIT)
                return linearize(f, n->operand[1 - i], factor * constant->number, sum);
        }
    return !varies(f, node) && add_term(sum, node, factor);
}

bool formula_steps_by_query(const struct formula *formula, int64_t *step) {
    struct linear sum = {0};
    bool linear = linearize(formula, formula->root, 1, &sum);
    *step = sum.q;
    return linear;
}

/* --- a conjunction as inequalities */

static void add_atom(struct formula *f, int left, int right, int64_t plus, struct atoms *atoms) {
    struct linear sum = {.constant = plus};
    if (atoms->count < ATOMS && linearize(f, left, 1, &sum) && linearize(f, right, -1, &sum))
        atoms->atom[atoms->count++] = sum;
    else
        atoms->all = false;
}

/* Adds left + plus <= right. |x| <= y becomes two inequalities, as do max(x, y) <= z and x <= min(y, z). */
static void add_order(struct formula *f, int left, int right, int64_t plus, struct atoms *atoms) {
    struct tree_node a = f->node[left], b = f->node[right];
    if (a.op == OP_ABS) {
        int minus = tree_one(f, OP_NEGATE, a.operand[0]);
        add_order(f, a.operand[0], right, plus, atoms);
        if (minus != NO_NODE)
            add_order(f, minus, right, plus, atoms);
    } else if (a.op == OP_MAX) {
        add_order(f, a.operand[0], right, plus, atoms);
        add_order(f, a.operand[1], right, plus, atoms);
    } else if (b.op == OP_MIN) {
        add_order(f, left, b.operand[0], plus, atoms);
        add_order(f, left, b.operand[1], plus, atoms);
    } else {
        add_atom(f, left, right, plus, atoms);
    }
}

static struct range range_of(struct formula *f, int node);

/* Intersects the range with that of another part of the conjunction. */
static void intersect(struct formula *f, struct range *range, struct range other) {
    range->first = make(f, OP_MAX, range->first, other.first);
    range->end = make(f, OP_MIN, range->end, other.end);
    range->full_first = make(f, OP_MAX, range->full_first, other.full_first);
    range->full_end = make(f, OP_MIN, range->full_end, other.full_end);
    range->exact = range->exact_full = false;
}

static void collect(struct formula *f, int node, struct atoms *atoms, struct range *range) {
    struct tree_node n = f->node[node];
    if (n.op == OP_AND) {
        collect(f, n.operand[0], atoms, range);
        collect(f, n.operand[1], atoms, range);
    } else if (!varies(f, node)) {
        atoms->condition = atoms->condition == NO_NODE ? node : make(f, OP_AND, atoms->condition, node);
    } else if (n.op == OP_OR) {
        intersect(f, range, range_of(f, node));
    } else if ((n.op == OP_LESS || n.op == OP_LESS_EQUAL) && f->node[n.operand[0]].type == FORMULA_INT) {
        add_order(f, n.operand[0], n.operand[1], n.op == OP_LESS, atoms);
    } else if (n.op == OP_EQUAL && f->node[n.operand[0]].type == FORMULA_INT) {
        add_order(f, n.operand[0], n.operand[1], 0, atoms);
        add_order(f, n.operand[1], n.operand[0], 0, atoms);
    } else {
        atoms->all = false;
    }
}

/* --- inequalities as ranges */

/* Returns the part of a sum with positive (sign 1) or negative (sign -1) factors, made positive. q and k have already
   been eliminated. */
static int part_of(struct formula *f, const struct linear *sum, int64_t sign) {
    int total = NO_NODE;
    for (int i = 0; i < sum->terms; i++) {
        int64_t factor = sign * sum->term[i].factor;
        if (factor <= 0)
            continue;
        int term = make(f, OP_MULTIPLY, tree_int(f, factor), sum->term[i].node);
        total = total == NO_NODE ? term : make(f, OP_ADD, total, term);
    }
    int64_t constant = sign * sum->constant;
    if (total == NO_NODE)
        return tree_int(f, constant > 0 ? constant : 0);
    return constant > 0 ? make(f, OP_ADD, total, tree_int(f, constant)) : total;
}

static int value_of(struct formula *f, const struct linear *sum) {
    return make(f, OP_SUBTRACT, part_of(f, sum, 1), part_of(f, sum, -1));
}

/* Applies c k + e <= 0: it limits the end of the range if c > 0, the first key if c < 0; otherwise it is a condition
   for the whole range. */
static void apply(struct formula *f, struct linear atom, int *first, int *end) {
    int64_t c = atom.k, by = llabs(c);
    struct linear rest = atom;
    rest.k = 0;
    if (c == 0) {
        int holds = make(f, OP_LESS_EQUAL, part_of(f, &rest, 1), part_of(f, &rest, -1));
        *end = tree_if(f, holds, *end, zero(f));
    } else if (c > 0) { /* k <= floor(-e / c) */
        struct linear minus = {0};
        add_linear(&minus, &rest, -1);
        if (by == 1)
            minus.constant++;
        int last = value_of(f, &minus);
        if (by > 1)
            last = make(f, OP_ADD, make(f, OP_FLOOR_DIVIDE, last, tree_int(f, by)), tree_int(f, 1));
        *end = make(f, OP_MIN, *end, last);
    } else { /* k >= ceil(e / -c) */
        rest.constant += by - 1;
        int least = value_of(f, &rest);
        if (by > 1)
            least = make(f, OP_FLOOR_DIVIDE, least, tree_int(f, by));
        *first = make(f, OP_MAX, *first, least);
    }
}

/* Computes factor_a * a + factor_b * b, which eliminates q. */
static bool combine(const struct linear *a, int64_t factor_a, const struct linear *b, int64_t factor_b,
                    struct linear *out) {
    *out = (struct linear){0};
    return add_linear(out, a, factor_a) && add_linear(out, b, factor_b);
}

static struct linear corner(struct formula *f, bool last) { /* q - q_last <= 0, q_first - q <= 0 */
    int node = tree_name(f, last ? FORMULA_Q_LAST : FORMULA_Q_FIRST);
    struct linear sum = {.q = last ? 1 : -1};
    if (node != NO_NODE)
        add_term(&sum, node, last ? -1 : 1);
    return sum;
}

/* For some query of the tile: eliminates q. */
static void eliminate(struct formula *f, const struct atoms *atoms, struct range *range) {
    struct linear above = corner(f, true), below = corner(f, false), sum;
    for (int i = -1; i < atoms->count; i++) {
        const struct linear *upper = i < 0 ? &above : &atoms->atom[i];
        if (i >= 0 && upper->q == 0)
            apply(f, *upper, &range->first, &range->end);
        for (int j = -1; upper->q > 0 && j < atoms->count; j++) {
            const struct linear *lower = j < 0 ? &below : &atoms->atom[j];
            if (lower->q >= 0 || (i < 0 && j < 0)) /* q_first <= q_last is known */
                continue;
            range->exact &= upper->q == 1 || lower->q == -1;
            if (combine(upper, -lower->q, lower, upper->q, &sum))
                apply(f, sum, &range->first, &range->end);
            else
                range->exact = false;
        }
    }
}

/* For every query of the tile: substitutes the worst query for q. */
static void require_all(struct formula *f, const struct atoms *atoms, struct range *range) {
    for (int i = 0; i < atoms->count; i++) {
        const struct linear *atom = &atoms->atom[i];
        struct linear worst = {.q = -1}, sum; /* worst query - q */
        int node = tree_name(f, atom->q > 0 ? FORMULA_Q_LAST : FORMULA_Q_FIRST);
        if (node != NO_NODE && add_term(&worst, node, 1) && combine(atom, 1, &worst, atom->q, &sum)) {
            apply(f, sum, &range->full_first, &range->full_end);
        } else {
            range->full_end = zero(f);
            range->exact_full = false;
        }
    }
}

static struct range everything(struct formula *f) {
    int none = zero(f), end = tree_name(f, FORMULA_LEN_KV);
    return (struct range){none, end, none, end, true, true};
}

static struct range range_of_conjunction(struct formula *f, int node) {
    struct atoms atoms = {.condition = NO_NODE, .all = true};
    struct range range = everything(f);
    collect(f, node, &atoms, &range);
    eliminate(f, &atoms, &range);
    require_all(f, &atoms, &range);
    if (atoms.condition != NO_NODE) {
        range.end = tree_if(f, atoms.condition, range.end, zero(f));
        range.full_end = tree_if(f, atoms.condition, range.full_end, zero(f));
    }
    if (!atoms.all) {
        range.full_first = range.full_end = zero(f);
        range.exact = range.exact_full = false;
    }
    return range;
}

/* Range of a disjunction: from the first key of either to the last of either, and the longer of the full ranges. */
static struct range range_of_either(struct formula *f, struct range a, struct range b) {
    if (tree_is_int(f, b.first, 0) && b.end == tree_name(f, FORMULA_LEN_KV)) { /* everything goes first */
        struct range swap = a;
        a = b;
        b = swap;
    }
    if (tree_is_int(f, a.first, 0) && a.end == tree_name(f, FORMULA_LEN_KV))
        b.first = a.first, b.end = a.end;
    struct range range = {make(f, OP_MIN, a.first, b.first),
                          make(f, OP_MAX, a.end, b.end),
                          a.full_first,
                          NO_NODE,
                          a.exact && b.exact && a.first == b.first,
                          false};
    if (a.full_first == b.full_first) {
        range.full_end = make(f, OP_MAX, a.full_end, b.full_end);
        return range;
    }
    int longer = make(f, OP_LESS_EQUAL, make(f, OP_SUBTRACT, b.full_end, b.full_first),
                      make(f, OP_SUBTRACT, a.full_end, a.full_first));
    range.full_first = tree_if(f, longer, a.full_first, b.full_first);
    range.full_end = tree_if(f, longer, a.full_end, b.full_end);
    return range;
}

static struct range range_of(struct formula *f, int node) {
    struct tree_node n = f->node[node];
    if (n.op == OP_OR)
        return range_of_either(f, range_of(f, n.operand[0]), range_of(f, n.operand[1]));
    return range_of_conjunction(f, node);
}

/* Limits the ends to 0 .. len_kv. A first key that may overflow 32 bits when a few tiles are added is limited to
   len_kv. */
static struct range limit(struct formula *f, struct range range) {
    int *first[] = {&range.first, &range.full_first};
    for (int i = 0; i < 2; i++)
        if (*first[i] != NO_NODE && f->node[*first[i]].most > FORMULA_FAR)
            *first[i] = make(f, OP_MIN, *first[i], tree_name(f, FORMULA_LEN_KV));
    range.end = make(f, OP_MAX, zero(f), range.end);
    range.full_end = make(f, OP_MAX, zero(f), range.full_end);
    return range;
}

static struct formula *extract(const struct formula *from, int node) {
    struct formula *f = tree_derive(FORMULA_SIZE, from);
    if (!f)
        return NULL;
    f->root = tree_copy(f, from, node);
    if (f->root != NO_NODE)
        return f;
    formula_free(f);
    return NULL;
}

bool formula_keys(const struct formula *mask, struct formula_keys *keys) {
    *keys = (struct formula_keys){0};
    struct formula *f = tree_derive(FORMULA_SIZE, mask);
    if (!f)
        return false;
    struct range range = everything(f);
    int root = tree_copy(f, mask, mask->root);
    if (root != NO_NODE)
        range = limit(f, range_of(f, root));
    if (f->fault != TREE_FINE && f->fault != TREE_NO_MEMORY) { /* too long or too wide: fall back to no information */
        f->fault = TREE_FINE;
        range = everything(f);
        range.full_end = zero(f);
        range.exact = range.exact_full = false;
    }
    if (f->fault == TREE_FINE) {
        keys->first = extract(f, range.first);
        keys->end = extract(f, range.end);
        keys->full_first = extract(f, range.full_first);
        keys->full_end = extract(f, range.full_end);
        keys->exact = range.exact;
        keys->exact_full = range.exact_full;
    }
    formula_free(f);
    if (keys->first && keys->end && keys->full_first && keys->full_end)
        return true;
    formula_keys_free(keys);
    return false;
}

void formula_keys_free(struct formula_keys *keys) {
    formula_free(keys->first);
    formula_free(keys->end);
    formula_free(keys->full_first);
    formula_free(keys->full_end);
    *keys = (struct formula_keys){0};
}
