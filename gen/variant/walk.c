#include "walk.h"

#include <stdio.h>

enum { STEPS_LIMIT = 1 << 20 }; /* nested and counted loops could otherwise run for hours */

struct expr_env walk_env(const struct walk *walk) {
    return (struct expr_env){walk->knobs, walk->slot};
}

bool walk_fail(struct walk *walk, struct place place, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(walk->fault.message, sizeof walk->fault.message, format, arguments);
    va_end(arguments);
    walk->fault.place = place;
    return false;
}

/* Counts one more op or iteration. */
static bool step(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    return ++walk->steps <= STEPS_LIMIT ||
           walk_fail(walk, (struct place){&file->input, op->line, 1}, "these loops have too many rounds");
}

static bool run(struct walk *walk, const struct template_file *file, int at, int end);

/* Runs the branch whose condition holds. `at` becomes the index of the block's end. */
static bool run_branches(struct walk *walk, const struct template_file *file, int *at) {
    struct expr_env env = walk_env(walk);
    bool taken = false;
    while (file->op[*at].kind != OP_END) {
        const struct template_op *op = &file->op[*at];
        int64_t holds = !taken;
        if (!taken && op->kind != OP_ELSE && !expr_eval(op->expr[0], &env, &holds, &walk->fault))
            return false;
        if (holds && !run(walk, file, *at + 1, op->next))
            return false;
        taken |= holds != 0;
        *at = op->next;
    }
    return true;
}

static bool run_loop(struct walk *walk, const struct template_file *file, int at) {
    const struct template_op *loop = &file->op[at];
    struct expr_slot *slot = &walk->slot[loop->index];
    struct expr_env env = walk_env(walk);
    const struct expr *list = loop->expr[0], *count = loop->expr[1];
    int64_t rounds = list ? expr_items(list) : 0;
    if (!list && !expr_eval(count, &env, &rounds, &walk->fault))
        return false;
    for (int64_t i = 0; i < rounds && walk->with_text; i++) {
        slot->value = i;
        if (!step(walk, file, loop))
            return false;
        if (list && !expr_eval_item(list, (int)i, &env, &slot->value, &walk->fault))
            return false;
        slot->set = true;
        if (!run(walk, file, at + 1, loop->next))
            return false;
    }
    return true;
}

static bool run_let(struct walk *walk, const struct template_op *op) {
    struct expr_slot *slot = &walk->slot[op->index];
    struct expr_env env = walk_env(walk);
    if (slot->set)
        return walk_fail(walk, expr_place(op->expr[0]), "'%s' has a value already",
                         walk->template->slot_name[op->index]);
    slot->set = expr_eval(op->expr[0], &env, &slot->value, &walk->fault);
    return slot->set;
}

/* Recursion is bounded by TEMPLATE_NESTING times TEMPLATE_INCLUDES, plus the two levels that one line can add: a file
   is spliced once, and none includes itself. */
static bool run(struct walk *walk, const struct template_file *file, int at, int end) {
    for (; at < end; at++) {
        const struct template_op *op = &file->op[at];
        if (!step(walk, file, op))
            return false;
        switch (op->kind) {
        case OP_IF:
            if (!run_branches(walk, file, &at))
                return false;
            continue;
        case OP_FOR:
            if (!run_loop(walk, file, at))
                return false;
            at = op->next;
            continue;
        case OP_INCLUDE:
            if (walk->spliced[op->index])
                continue;
            walk->spliced[op->index] = true;
            if (!walk->visit(walk, file, op) ||
                !run(walk, &walk->template->file[op->index], 0, walk->template->file[op->index].ops))
                return false;
            continue;
        case OP_LET:
            if (!run_let(walk, op))
                return false;
            break;
        case OP_TEXT:
        case OP_VALUE:
            if (!walk->with_text)
                continue;
            break;
        default: break;
        }
        if (!walk->visit(walk, file, op))
            return false;
    }
    return true;
}

bool walk_template(struct walk *walk) {
    const struct template_file *file = &walk->template->file[0];
    walk->spliced[0] = true;
    char reason[FACT_REASON];
    if (!facts_find(walk->knobs, walk->slot, reason))
        return walk_fail(walk, (struct place){&file->input, 1, 1}, "%s", reason);
    return run(walk, file, 0, file->ops);
}
