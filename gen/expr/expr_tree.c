/* expr_tree: queries on a tree, checked or not. */
#include "expr_tree.h"

struct place tree_place(const struct expr *expr, int offset) {
    struct place place = expr->place;
    for (int i = 0; i < offset; i++) {
        place.col++;
        if (expr->text[i] == '\n') { /* only block scalars of a spec contain newlines */
            place.line++;
            place.col = 1;
        }
    }
    return place;
}

knob_flags expr_knobs(const struct expr *expr) { return expr->knobs; }

struct expr_type expr_type(const struct expr *expr) {
    return expr->node[expr->root].type;
}

int expr_items(const struct expr *expr) {
    int count = 0;
    if (expr->node[expr->root].op == TREE_LIST)
        for (int item = expr->node[expr->root].left; item != NONE; item = expr->node[item].right)
            count++;
    return count;
}
