#include "tile_map.h"

#include <stdlib.h>
#include <string.h>

enum { PAIRS_LOOKED_AT = 1 << 22 };

/* Formulas that classify tiles, made once for all tiles. */
struct classifier {
    struct formula *parsed; /* the mask if it is a word; owned */
    const struct formula *mask;
    struct formula *some, *all;
    struct formula_keys keys;
    struct formula_env *env;
};

/* A word of the mask knob is an expression in the table. */
static bool open_classifier(struct classifier *c, const struct knobs *problem, struct params *params) {
    *c = (struct classifier){.mask = params->formulas.mask, .env = &params->env};
    if (!c->mask) {
        struct diag diag = {0};
        const char *word = knob_word_name(KNOB_mask, problem->mask);
        c->mask = c->parsed =
            formula_parse(FORMULA_MASK, (struct place){0}, word, strlen(word), &params->formulas.scope, &diag);
        diag_free(&diag);
    }
    return c->mask && formula_tile(c->mask, &c->some, &c->all) && formula_keys(c->mask, &c->keys);
}

static void close_classifier(struct classifier *c) {
    formula_free(c->parsed);
    formula_free(c->some);
    formula_free(c->all);
    formula_keys_free(&c->keys);
}

/* Classifies a tile as templates/expression/formula.cuh does. */
static enum formula_class classify(const struct classifier *c, int64_t first, int64_t end, int64_t full_first,
                                   int64_t full_end) {
    const int64_t *name = c->env->name;
    int64_t k_first = name[FORMULA_K_FIRST], k_last = name[FORMULA_K_LAST];
    if (k_last < first || k_first >= end || (!c->keys.exact && !formula_mask(c->some, c->env)))
        return FORMULA_EMPTY;
    if (k_first >= full_first && k_last < full_end)
        return FORMULA_FULL;
    return !c->keys.exact_full && formula_mask(c->all, c->env) ? FORMULA_FULL : FORMULA_PARTIAL;
}

static int64_t count_seen(const struct classifier *c) {
    int64_t *name = c->env->name, seen = 0;
    for (name[FORMULA_Q] = name[FORMULA_Q_FIRST]; name[FORMULA_Q] <= name[FORMULA_Q_LAST]; name[FORMULA_Q]++)
        for (name[FORMULA_K] = name[FORMULA_K_FIRST]; name[FORMULA_K] <= name[FORMULA_K_LAST]; name[FORMULA_K]++)
            seen += formula_mask(c->mask, c->env);
    return seen;
}

static void set_range(int64_t *name, enum formula_name first, int64_t origin, int64_t tile, int64_t block,
                      int64_t length) {
    int64_t begin = tile * block, end = begin + block < length ? begin + block : length;
    name[first] = origin + begin;
    name[first + 1] = origin + end - 1;
}

/* Classifies all tiles of one batch and head; `times` such planes are alike. */
static void classify_plane(struct tile_map *map, const struct classifier *c, int64_t times, bool keep) {
    int64_t *name = c->env->name, len_q = name[FORMULA_LEN_Q], len_kv = name[FORMULA_LEN_KV];
    for (int row = 0; row < map->rows; row++) {
        set_range(name, FORMULA_Q_FIRST, len_kv - len_q, row, map->block_m, len_q);
        int64_t first = formula_integer(c->keys.first, c->env), end = formula_integer(c->keys.end, c->env);
        int64_t full_first = formula_integer(c->keys.full_first, c->env);
        int64_t full_end = formula_integer(c->keys.full_end, c->env);
        for (int column = 0; column < map->columns; column++) {
            set_range(name, FORMULA_K_FIRST, 0, column, map->block_n, len_kv);
            enum formula_class class = classify(c, first, end, full_first, full_end);
            map->count[class] += times;
            if (keep)
                map->class[(size_t)row * (size_t)map->columns + (size_t)column] = (unsigned char)class;
            if (map->seen < 0)
                continue;
            int64_t seen = count_seen(c);
            map->seen += times * seen;
            map->needless += class != FORMULA_EMPTY && seen == 0 ? times : 0;
        }
    }
}

bool tile_map_make(struct tile_map *map, const struct knobs *problem, struct params *params, int block_m, int block_n) {
    struct classifier c;
    int64_t *name = params->env.name, len_q = name[FORMULA_LEN_Q], len_kv = name[FORMULA_LEN_KV];
    *map = (struct tile_map){.block_m = block_m, .block_n = block_n};
    map->rows = (int)((len_q + block_m - 1) / block_m);
    map->columns = (int)((len_kv + block_n - 1) / block_n);
    map->planes = name[FORMULA_BATCH] * name[FORMULA_HEADS];
    map->pairs = map->planes * len_q * len_kv;
    map->class = calloc((size_t)map->rows * (size_t)map->columns + 1, 1);
    bool good = open_classifier(&c, problem, params) && map->class;
    bool differ = good && (formula_names(c.mask) & (1u << FORMULA_B | 1u << FORMULA_H | 1u << FORMULA_HK));
    int64_t looked_at = differ ? map->planes : 1,
            group = name[FORMULA_HEADS] / (name[FORMULA_KV_HEADS] + !name[FORMULA_KV_HEADS]);
    if (looked_at * len_q * len_kv > PAIRS_LOOKED_AT)
        map->seen = map->needless = -1;
    for (int64_t plane = 0; good && map->planes && plane < looked_at; plane++) {
        name[FORMULA_B] = plane / name[FORMULA_HEADS];
        name[FORMULA_H] = plane % name[FORMULA_HEADS];
        name[FORMULA_HK] = name[FORMULA_H] / (group ? group : 1);
        classify_plane(map, &c, map->planes / looked_at, plane == 0);
    }
    close_classifier(&c);
    return good;
}

void tile_map_free(struct tile_map *map) {
    free(map->class);
    *map = (struct tile_map){0};
}
