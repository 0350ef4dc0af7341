#include "plan_text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MOST = 1024, BOX_MOST = 256 };

static const struct {
    enum plan_op op;
    const char *symbol;
} operators[] = {{PLAN_ADD, "+"},    {PLAN_SUBTRACT, "-"}, {PLAN_MULTIPLY, "*"}, {PLAN_DIVIDE, "/"},
                 {PLAN_MODULO, "%"}, {PLAN_MIN, "min"},    {PLAN_MAX, "max"}};
enum { OPERATORS = sizeof operators / sizeof *operators };

static void write_expr(const struct plan_expr *expr, struct text *text) {
    for (int i = 0; i < expr->count && i < PLAN_STEPS; i++) {
        const struct plan_step *step = &expr->step[i];
        if (step->op == PLAN_CONSTANT)
            text_print(text, " %" PRId64, step->value);
        else if (step->op == PLAN_SHAPE)
            text_print(text, " %s", shape_table[step->value].name);
        for (int j = 0; j < OPERATORS; j++)
            if (operators[j].op == step->op)
                text_print(text, " %s", operators[j].symbol);
    }
    text_print(text, "\n");
}

void plan_write(const struct plan *plan, struct text *text) {
    for (int i = 0; i < plan->launches; i++) {
        const struct plan_launch *launch = &plan->launch[i];
        text_print(text, "launch %s %d %d", launch->entry, launch->block, launch->shared);
        write_expr(&launch->grid, text);
        if (launch->cluster)
            text_print(text, "cluster %d\n", launch->cluster);
        if (launch->dependent)
            text_print(text, "dependent\n");
        if (launch->params)
            text_print(text, "params %s\n", plan_params_table[launch->params].name);
        if (launch->fills_tables)
            text_print(text, "fills tables\n");
    }
    for (int i = 0; i < plan->maps; i++)
        text_print(text, "map %s %s %d %d%s\n", plan->map[i].name, plan_tensor_name[plan->map[i].tensor],
                   plan->map[i].rows, plan->map[i].cols, plan->map[i].packed ? " packed" : "");
    for (int i = 0; i < PLAN_SPLIT_EXPRS && plan->splits.expr[i].count; i++) {
        text_print(text, "splits %s", plan_split_name[i]);
        write_expr(&plan->splits.expr[i], text);
    }
    text_print(text, "workspace");
    write_expr(&plan->workspace, text);
}

struct word {
    const char *at;
    size_t size; /* 0 = the line has ended */
};

static struct word next_word(const char **at) {
    while (**at == ' ')
        ++*at;
    struct word word = {*at, strcspn(*at, " \n")};
    *at += word.size;
    return word;
}

static bool read_number(struct word word, int64_t least, int64_t most, int64_t *number) {
    char digits[24], *end;
    if (word.size == 0 || word.size >= sizeof digits || isspace((unsigned char)*word.at))
        return false;
    memcpy(digits, word.at, word.size);
    digits[word.size] = '\0';
    errno = 0;
    *number = strtoll(digits, &end, 10);
    return errno == 0 && *end == '\0' && *number >= least && *number <= most;
}

static bool is_word(struct word word, const char *expected) { return text_equals(word.at, word.size, expected); }

static bool read_step(struct word word, struct plan_step *step) {
    for (int i = 0; i < OPERATORS; i++)
        if (is_word(word, operators[i].symbol)) {
            *step = (struct plan_step){.op = operators[i].op};
            return true;
        }
    int shape = shape_find(word.at, word.size);
    *step = (struct plan_step){.op = shape >= 0 ? PLAN_SHAPE : PLAN_CONSTANT, .value = shape};
    return shape >= 0 || read_number(word, INT64_MIN, INT64_MAX, &step->value);
}

/* Reads to the end of the line. In postfix the depth of the stack shows whether operators have their operands. */
static bool read_expr(const char **at, struct plan_expr *expr) {
    int depth = 0;
    *expr = (struct plan_expr){0};
    for (struct word word; (word = next_word(at)).size;) {
        if (expr->count == PLAN_STEPS || !read_step(word, &expr->step[expr->count]))
            return false;
        bool operand = expr->step[expr->count++].op <= PLAN_SHAPE;
        if (!operand && depth < 2)
            return false;
        depth += operand ? 1 : -1;
    }
    if (depth != 1 || **at != '\n')
        return false;
    ++*at;
    return true;
}

static bool is_identifier(struct word word) {
    for (size_t i = 0; i < word.size; i++)
        if (!isalpha((unsigned char)word.at[i]) && word.at[i] != '_' && (i == 0 || !isdigit((unsigned char)word.at[i])))
            return false;
    return word.size > 0;
}

static bool read_launch(const char **at, struct plan_launch *launch) {
    int64_t block, shared;
    struct word entry = next_word(at);
    if (!is_identifier(entry) || entry.size >= PLAN_ENTRY || !read_number(next_word(at), 1, THREADS_MOST, &block) ||
        !read_number(next_word(at), 0, INT_MAX, &shared))
        return false;
    memcpy(launch->entry, entry.at, entry.size);
    launch->block = (int)block;
    launch->shared = (int)shared;
    return read_expr(at, &launch->grid);
}

static bool read_cluster(const char **at, struct plan_launch *launch) {
    int64_t blocks;
    if (launch->cluster || !read_number(next_word(at), 1, PLAN_CLUSTER, &blocks))
        return false;
    launch->cluster = (int)blocks;
    return true;
}

static bool read_dependent(const char **at, struct plan_launch *launch) {
    (void)at;
    if (launch->dependent)
        return false;
    return launch->dependent = true;
}

static bool read_params(const char **at, struct plan_launch *launch) {
    struct word name = next_word(at);
    int params = PLAN_PARAMS_USUAL + 1;
    while (params < PLAN_PARAMS && !is_word(name, plan_params_table[params].name))
        params++;
    if (launch->params || params == PLAN_PARAMS)
        return false;
    launch->params = (enum plan_params)params;
    return true;
}

static bool read_fills(const char **at, struct plan_launch *launch) {
    if (launch->fills_tables || !is_word(next_word(at), "tables"))
        return false;
    return launch->fills_tables = true;
}

/* Lines about the launch above them. */
static const struct {
    const char *word;
    bool (*read)(const char **at, struct plan_launch *launch);
} about_launch[] = {
    {"cluster", read_cluster}, {"dependent", read_dependent}, {"params", read_params}, {"fills", read_fills}};

/* Reads such a line. False if it is not one; *good if it is valid. */
static bool read_about(struct word word, const char **at, struct plan *plan, bool *good) {
    for (size_t i = 0; i < sizeof about_launch / sizeof *about_launch; i++)
        if (is_word(word, about_launch[i].word)) {
            *good = plan->launches > 0 && about_launch[i].read(at, &plan->launch[plan->launches - 1]) && **at == '\n';
            *at += *good;
            return true;
        }
    return false;
}

static bool read_map(const char **at, struct plan_map *map) {
    int64_t rows, cols;
    struct word name = next_word(at), of = next_word(at);
    int tensor = 0;
    while (tensor < PLAN_TENSORS && !is_word(of, plan_tensor_name[tensor]))
        tensor++;
    if (!is_identifier(name) || name.size >= PLAN_MAP_NAME || tensor == PLAN_TENSORS ||
        !read_number(next_word(at), 1, BOX_MOST, &rows) || !read_number(next_word(at), 1, BOX_MOST, &cols))
        return false;
    struct word packed = next_word(at);
    *map = (struct plan_map){
        .tensor = (enum plan_tensor)tensor, .rows = (int)rows, .cols = (int)cols, .packed = packed.size};
    memcpy(map->name, name.at, name.size);
    return (!packed.size || is_word(packed, "packed")) && *(*at)++ == '\n';
}

bool plan_read(const char *text, struct plan *plan) {
    *plan = (struct plan){0};
    struct word word;
    for (bool good = true; read_about(word = next_word(&text), &text, plan, &good) || is_word(word, "launch");) {
        if (is_word(word, "launch"))
            good = plan->launches < PLAN_LAUNCHES && read_launch(&text, &plan->launch[plan->launches++]);
        if (!good)
            return false;
    }
    for (; is_word(word, "map"); word = next_word(&text))
        if (plan->maps == PLAN_MAPS || !read_map(&text, &plan->map[plan->maps++]))
            return false;
    int splits = 0;
    for (; is_word(word, "splits"); word = next_word(&text), splits++)
        if (splits == PLAN_SPLIT_EXPRS || !is_word(next_word(&text), plan_split_name[splits]) ||
            !read_expr(&text, &plan->splits.expr[splits]))
            return false;
    return (splits <= 1 || splits == PLAN_SPLIT_EXPRS) && plan->launches > 0 && is_word(word, "workspace") &&
           read_expr(&text, &plan->workspace) && *text == '\0';
}
