/* formula_check: checks that operands fit their operator, and then makes the node. An integer next to a real becomes
   real; there is no other implicit conversion. */
#include "formula_parse.h"

#include <stdio.h>
#include <string.h>

static const struct part nothing = {.node = NO_NODE};

static enum formula_type type_of(const struct parser *p, struct part part) { return p->formula->node[part.node].type; }

const char *check_describe(enum formula_type type) {
    return type == FORMULA_BOOL ? "true or false" : type == FORMULA_INT ? "an integer" : "a real number";
}

struct part check_part(struct parser *p, int node, int at) {
    static const char *const sentences[] = {
        [TREE_FINE] = "out of memory",
        [TREE_NO_MEMORY] = "out of memory",
        [TREE_TOO_LONG] = "this formula is too long: it has more than 512 parts, named masks and scores expanded",
        [TREE_TOO_DEEP] = "this formula nests too deeply",
        [TREE_TOO_WIDE] = "this integer could exceed 62 bits; limit an operand with min(.., ..) and max(.., ..)",
    };
    if (node == NO_NODE)
        return parse_refuse(p, at, "%s", sentences[p->formula->fault]);
    return (struct part){.node = node, .at = at};
}

bool check_type(struct parser *p, struct part part, enum formula_type wanted, const char *who, struct part *out) {
    if (part.node == NO_NODE)
        return false;
    enum formula_type type = type_of(p, part);
    *out = part;
    if (type == wanted)
        return true;
    if (type == FORMULA_INT && wanted == FORMULA_REAL) {
        *out = check_part(p, tree_one(p->formula, OP_TO_REAL, part.node), part.at);
        return out->node != NO_NODE;
    }
    bool is_root = p->formula->kind == FORMULA_SCORE && strcmp(who, "a score") == 0;
    const char *hint = wanted == FORMULA_BOOL                          ? "; compare it with something"
                       : type == FORMULA_BOOL && is_root               ? "; write s if .. else -inf"
                       : type == FORMULA_BOOL                          ? "; write (1 if .. else 0)"
                       : type == FORMULA_REAL && wanted == FORMULA_INT ? "; floor(..) makes it an integer"
                                                                       : "";
    parse_refuse(p, part.at, "%s takes %s, and this is %s%s", who, check_describe(wanted), check_describe(type), hint);
    return false;
}

/* Converts both operands to numbers of one type. */
static bool as_numbers(struct parser *p, struct part *a, struct part *b, const char *who) {
    struct part *parts[2] = {a, b};
    bool real = false;
    for (int i = 0; i < 2; i++) {
        if (parts[i]->node == NO_NODE)
            return false;
        if (type_of(p, *parts[i]) == FORMULA_BOOL) {
            parse_refuse(p, parts[i]->at, "%s takes numbers, and this is true or false; write (1 if .. else 0)", who);
            return false;
        }
        real |= type_of(p, *parts[i]) == FORMULA_REAL;
    }
    enum formula_type type = real ? FORMULA_REAL : FORMULA_INT;
    return check_type(p, *a, type, who, a) && check_type(p, *b, type, who, b);
}

static struct part compare(struct parser *p, enum tree_op op, struct part a, struct part b, int at, const char *who) {
    if (a.node == NO_NODE || b.node == NO_NODE)
        return nothing;
    bool equality = op == OP_EQUAL || op == OP_UNEQUAL;
    if (equality && type_of(p, a) == FORMULA_BOOL && type_of(p, b) == FORMULA_BOOL)
        return check_part(p, tree_two(p->formula, op, a.node, b.node), at);
    if (equality && (type_of(p, a) == FORMULA_BOOL) != (type_of(p, b) == FORMULA_BOOL))
        return parse_refuse(p, at, "cannot compare %s with %s", check_describe(type_of(p, a)),
                            check_describe(type_of(p, b)));
    if (a.fraction || b.fraction)
        return parse_refuse(p, a.fraction ? a.at : b.at,
                            "'/' keeps the fraction, which %s hardly ever means; '//' rounds down", who);
    if (!as_numbers(p, &a, &b, who))
        return nothing;
    return check_part(p, tree_two(p->formula, op, a.node, b.node), at);
}

static struct part bits(struct parser *p, enum tree_op op, struct part a, struct part b, int at, const char *who) {
    if (a.node == NO_NODE || b.node == NO_NODE)
        return nothing;
    if (type_of(p, a) == FORMULA_BOOL && type_of(p, b) == FORMULA_BOOL && (op == OP_AND_BITS || op == OP_OR_BITS))
        return parse_refuse(p, at, "%s works on the bits of integers; did you mean '%s'?", who,
                            op == OP_AND_BITS ? "and" : "or");
    if (!check_type(p, a, FORMULA_INT, who, &a) || !check_type(p, b, FORMULA_INT, who, &b))
        return nothing;
    return check_part(p, tree_two(p->formula, op, a.node, b.node), at);
}

struct part check_two(struct parser *p, enum tree_op op, struct part a, struct part b, int at) {
    char who[16];
    bool fraction = false;
    snprintf(who, sizeof who, "'%s'", tree_ops[op].symbol);
    switch (op) {
    case OP_AND:
    case OP_OR:
        if (!check_type(p, a, FORMULA_BOOL, who, &a) || !check_type(p, b, FORMULA_BOOL, who, &b))
            return nothing;
        break;
    case OP_LESS:
    case OP_LESS_EQUAL:
    case OP_EQUAL:
    case OP_UNEQUAL: return compare(p, op, a, b, at, who);
    case OP_AND_BITS:
    case OP_OR_BITS:
    case OP_XOR_BITS:
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT:
    case OP_FLOOR_DIVIDE:
    case OP_MODULO: return bits(p, op, a, b, at, who);
    case OP_DIVIDE:
        fraction =
            a.node != NO_NODE && b.node != NO_NODE && type_of(p, a) == FORMULA_INT && type_of(p, b) == FORMULA_INT;
        if (!as_numbers(p, &a, &b, who) || !check_type(p, a, FORMULA_REAL, who, &a) ||
            !check_type(p, b, FORMULA_REAL, who, &b))
            return nothing;
        if (p->formula->node[b.node].op == OP_REAL && p->formula->node[b.node].real == 0)
            return parse_refuse(p, at, "division by 0, expected another number; infinity is written inf");
        break;
    default:
        if (!as_numbers(p, &a, &b, who))
            return nothing;
    }
    struct part part = check_part(p, tree_two(p->formula, op, a.node, b.node), at);
    part.at = a.at;
    part.fraction = fraction;
    return part;
}

struct part check_one(struct parser *p, enum tree_op op, struct part a, int at) {
    char who[16];
    snprintf(who, sizeof who, "'%s'", tree_ops[op].symbol);
    if (a.node == NO_NODE)
        return nothing;
    enum formula_type wanted = op == OP_NOT                                                        ? FORMULA_BOOL
                               : op == OP_COMPLEMENT                                               ? FORMULA_INT
                               : (op == OP_NEGATE || op == OP_ABS) && type_of(p, a) == FORMULA_INT ? FORMULA_INT
                                                                                                   : FORMULA_REAL;
    if (!check_type(p, a, wanted, who, &a))
        return nothing;
    return check_part(p, tree_one(p->formula, op, a.node), at);
}

struct part check_if(struct parser *p, struct part condition, struct part a, struct part b, int at) {
    if (a.node == NO_NODE || b.node == NO_NODE || !check_type(p, condition, FORMULA_BOOL, "'if'", &condition))
        return nothing;
    if ((type_of(p, a) == FORMULA_BOOL) != (type_of(p, b) == FORMULA_BOOL))
        return parse_refuse(p, b.at, "this is %s, and before the 'if' stands %s", check_describe(type_of(p, b)),
                            check_describe(type_of(p, a)));
    if (type_of(p, a) != FORMULA_BOOL && !as_numbers(p, &a, &b, "'if'"))
        return nothing;
    return check_part(p, tree_if(p->formula, condition.node, a.node, b.node), at);
}
