#include "formula_code.h"
#include "formula_tree.h"

#include <string.h>

/* --- spelling ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *type, *load; /* C++ type of an element; the expression that turns an element, %s, into a value */
    const char *bounds;             /* C++ type of a bound */
    const char *least, *most;       /* bounds of all values */
} storages[] = {
    [FORMULA_STORE_BOOL] = {"bool", "unsigned char", "%s != 0", "int", "0", "1"},
    [FORMULA_STORE_INT] = {"int", "int", "%s", "int", "-2147483647 - 1", "2147483647"},
    [FORMULA_STORE_FP32] = {"fp32", "float", "%s", "float", "-INFINITY", "INFINITY"},
    [FORMULA_STORE_FP16] = {"fp16", "unsigned short", "half_to_float(%s)", "float", "-INFINITY", "INFINITY"},
    [FORMULA_STORE_BF16] = {"bf16", "unsigned short", "bfloat16_to_float(%s)", "float", "-INFINITY", "INFINITY"},
};
static const char *const value_types[] = {[FORMULA_BOOL] = "bool", [FORMULA_INT] = "int", [FORMULA_REAL] = "float"};

static int number_of(const struct formula_set *set, const struct formula_param *param) {
    return (int)(param - set->scope.param);
}

static void print_return(const struct formula_set *set, const struct formula *formula, bool eager, struct text *text) {
    struct formula_spelling spelling = formula_code_spelling(set);
    spelling.eager = eager;
    text_print(text, "    return ");
    formula_print_cuda(formula, &spelling, text);
    text_print(text, ";\n");
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

/* 32 bits are enough: att_launch refuses indices that could leave their tensor, and sizes beyond INT_MAX. */
static void print_index_names(int dims, struct text *text) {
    for (int i = 0; i < dims; i++)
        text_print(text, ", int i%d", i);
}

static void print_element(const struct formula_param *param, int number, struct text *text) {
    struct text element = {0};
    text_print(&element, "static_cast<const %s *>(p.param[%d].data)[", storages[param->storage].type, number);
    for (int d = 0; d < param->dims; d++)
        text_print(&element, "%si%d * p.param[%d].stride[%d]", d ? " + " : "", d, number, d);
    text_print(&element, "]");
    const char *load = storages[param->storage].load, *hole = strstr(load, "%s");
    text_print(text, "__device__ __forceinline__ %s tensor_%s(const attention_params &p", value_types[param->type],
               param->name);
    print_index_names(param->dims, text);
    text_print(text, ") {\n    return %.*s%s%s;\n}\n", (int)(hole - load), load, text_string(&element), hole + 2);
    text->failed |= element.failed;
    text_free(&element);
}

/* Prints the C++ condition that the box is one element wide in the first `dims` dimensions. */
static void print_is_narrow(int dims, struct text *text) {
    for (int d = 0; d < dims; d++)
        text_print(text, d ? " && f%d == l%d" : "f%d == l%d", d, d);
}

/* Prints the function that bounds a tensor over a box of indices f0 .. l0, f1 .. l1, ...: it reads a few elements
   directly and many through the tensor's table; about other boxes nothing is known. */
static void print_bounds(const struct formula_param *param, int number, bool tabled, struct text *text) {
    const char *value = storages[param->storage].bounds;
    int dims = param->dims;
    text_print(text, "__device__ __forceinline__ Bounds<%s> tensor_%s_bounds(const attention_params &p", value,
               param->name);
    for (int d = 0; d < dims; d++)
        text_print(text, ", int f%d, int l%d", d, d);
    text_print(text, ") {\n    if (");
    for (int d = 0; d < dims; d++)
        text_print(text, d ? " * (l%d - f%d + 1)" : "(l%d - f%d + 1ll)", d, d);
    text_print(text, " <= 4) {\n        Bounds<%s> bounds = bounds_of(tensor_%s(p", value, param->name);
    for (int d = 0; d < dims; d++)
        text_print(text, ", f%d", d);
    text_print(text, "));\n");
    for (int d = 0; d < dims; d++)
        text_print(text, "#pragma unroll 1\n        %*sfor (int i%d = f%d; i%d <= l%d; i%d++)\n", 4 * d, "", d, d, d, d,
                   d);
    text_print(text, "        %*sbounds = join_bounds(bounds, bounds_of(tensor_%s(p", 4 * dims, "", param->name);
    for (int d = 0; d < dims; d++)
        text_print(text, ", i%d", d);
    text_print(text, ")));\n        return bounds;\n    }\n");
    if (tabled) {
        if (dims > 1) {
            text_print(text, "    if (");
            print_is_narrow(dims - 1, text);
            text_print(text, ") {\n");
        }
        const char *margin = dims > 1 ? "        " : "    ";
        text_print(text, "%sconst long long runs = (p.param[%d].size[%d] + TABLE_RUN - 1) / TABLE_RUN;\n", margin,
                   number, dims - 1);
        text_print(text, "%sconst Bounds<%s> *row = static_cast<const Bounds<%s> *>(p.param[%d].table)", margin, value,
                   value, number);
        struct text row = {0};
        for (int d = 0; d < dims - 1; d++) { /* (f0 * size[1] + f1) * size[2] + ... */
            struct text longer = {0};
            if (d == 0)
                text_print(&longer, "f0");
            else
                text_print(&longer, "(%s * p.param[%d].size[%d] + f%d)", text_string(&row), number, d, d);
            text_free(&row);
            row = longer;
        }
        if (dims > 1)
            text_print(text, " + %s * runs", text_string(&row));
        text->failed |= row.failed;
        text_free(&row);
        text_print(text,
                   ";\n%sBounds<%s> bounds = row[f%d / TABLE_RUN];\n"
                   "#pragma unroll 1\n%sfor (int run = f%d / TABLE_RUN + 1; run <= l%d / TABLE_RUN; run++)\n"
                   "%s    bounds = join_bounds(bounds, row[run]);\n%sreturn bounds;\n",
                   margin, value, dims - 1, margin, dims - 1, dims - 1, margin, margin);
        if (dims > 1)
            text_print(text, "    }\n");
    }
    if (!tabled || dims > 1)
        text_print(text, "    return {%s, %s};\n", storages[param->storage].least, storages[param->storage].most);
    text_print(text, "}\n");
}

static void print_bound(const struct formula_param *param, enum formula_access access, struct text *text) {
    text_print(text, "__device__ __forceinline__ %s tensor_%s%s(const attention_params &p", value_types[param->type],
               param->name, formula_access_suffix(access));
    for (int d = 0; d < param->dims; d++)
        text_print(text, ", int f%d, int l%d", d, d);
    text_print(text, ") {\n    return tensor_%s_bounds(p", param->name);
    for (int d = 0; d < param->dims; d++)
        text_print(text, ", f%d, l%d", d, d);
    text_print(text, ").%s;\n}\n", access == FORMULA_LEAST ? "least" : "most");
}

static void print_tables(const struct formula_set *set, struct text *text) {
    unsigned tabled = set->tabled;
    for (int i = 0; i < set->scope.count; i++) {
        const struct formula_param *param = &set->scope.param[i];
        if (tabled >> i & 1)
            text_print(text, "    make_table<%s, %s, %d, value_of_%s>(p.param[%d]); // %s\n",
                       storages[param->storage].bounds, storages[param->storage].type, param->dims,
                       storages[param->storage].name, i, param->name);
    }
}

static void print_tensors(const struct formula_set *set, struct text *text) {
    for (int i = 0; i < set->scope.count; i++) {
        if (set->scope.param[i].dims == 0)
            continue;
        text_print(text, "\n// ");
        formula_print_params(&set->scope, 1u << i, text);
        text_print(text, "\n");
        print_element(&set->scope.param[i], i, text);
    }
}

static void print_all_bounds(const struct formula_set *set, struct text *text) {
    unsigned bounded = formula_params(set->mask), tabled = set->tabled;
    for (int i = 0; i < set->scope.count; i++) {
        const struct formula_param *param = &set->scope.param[i];
        if (param->dims == 0 || !(bounded >> i & 1))
            continue;
        text_print(text, "\n// Bounds over a box of indices.\n");
        print_bounds(param, i, tabled >> i & 1, text);
        print_bound(param, FORMULA_LEAST, text);
        print_bound(param, FORMULA_MOST, text);
    }
}

/* --- tiles ------------------------------------------------------------------------------------------------------- */

static void print_keys(const struct formula_set *set, struct text *text) {
    struct formula_spelling spelling = formula_code_spelling(set);
    struct formula_keys keys;
    bool good = formula_keys(set->mask, &keys);
    const struct formula *const bounds[] = {keys.first, keys.end, keys.full_first, keys.full_end};
    text_print(text, "    return {");
    for (int i = 0; good && i < 4; i++) {
        bool wide = formula_is_wide(bounds[i]); /* its value fits an int nevertheless */
        text_print(text, "%s%s", i ? ",\n            " : "", wide ? "static_cast<int>(" : "");
        formula_print_cuda(bounds[i], &spelling, text);
        text_print(text, wide ? ")" : "");
    }
    text_print(text, "};\n");
    text->failed |= !good;
    formula_keys_free(&keys);
}

static void print_exact(const struct formula_set *set, struct text *text) {
    struct formula_keys keys;
    text->failed |= !formula_keys(set->mask, &keys);
    text_print(text, "constexpr bool KEYS_EXACT = %s;\nconstexpr bool FULL_EXACT = %s;\n",
               keys.exact ? "true" : "false", keys.exact_full ? "true" : "false");
    formula_keys_free(&keys);
}

/* All formulas that are printed for the set, to find their helpers. */
struct made {
    struct formula *some, *all;
    struct formula_keys keys;
};

static bool make(const struct formula_set *set, struct made *made) {
    *made = (struct made){0};
    return !set->mask || (formula_tile(set->mask, &made->some, &made->all) && formula_keys(set->mask, &made->keys));
}

static void unmake(struct made *made) {
    formula_free(made->some);
    formula_free(made->all);
    formula_keys_free(&made->keys);
}

static void print_helpers(const struct formula_set *set, struct text *text) {
    struct made made;
    bool good = make(set, &made);
    const struct formula *all[] = {set->mask,     set->score,           made.some,         made.all, made.keys.first,
                                   made.keys.end, made.keys.full_first, made.keys.full_end};
    int count = 0;
    for (size_t i = 0; good && i < sizeof all / sizeof *all; i++)
        if (all[i])
            all[count++] = all[i];
    formula_print_helpers(all, count, text);
    text->failed |= !good;
    unmake(&made);
}

static void print_tile(const struct formula_set *set, bool some, struct text *text) {
    struct formula *tile[2] = {NULL, NULL};
    if (formula_tile(set->mask, &tile[0], &tile[1]))
        print_return(set, tile[some ? 0 : 1], false, text);
    else
        text->failed = true;
    formula_free(tile[0]);
    formula_free(tile[1]);
}

/* True if sums with k index tensors, or if `floats` and such sums become floats: a SplitKey makes both cheap. Not if
   they are operands of a helper that is a template, which cannot take a SplitKey. */
static bool wants_split_key(const struct formula *formula, bool floats) {
    bool wants = false;
    for (int i = 0; formula && i < formula->count; i++) {
        const struct tree_node *n = &formula->node[i];
        bool helper = n->op == OP_FLOOR_DIVIDE || n->op == OP_MODULO || n->op == OP_SHIFT_LEFT ||
                      n->op == OP_SHIFT_RIGHT || n->op == OP_ABS;
        for (int j = 0; j < n->operands; j++) {
            bool of_key = tree_names_of(formula, n->operand[j]) >> FORMULA_K & 1;
            if (of_key && helper && formula->node[n->operand[j]].type == FORMULA_INT)
                return false;
            wants |= of_key && ((n->op == OP_TO_REAL && floats) || n->op == OP_AT);
        }
    }
    return wants;
}
bool formula_splits_mask(const struct formula_set *set) { return wants_split_key(set->mask, false); }

/* True if the score can be folded: it is then evaluated once per tile, for a key that is an int. */
static bool is_folded(const struct formula_set *set) {
    struct formula_fold fold = {0};
    bool folded = set->score && formula_fold_score(set->score, &fold) && fold.factor;
    formula_fold_free(&fold);
    return folded;
}
static bool splits_score(const struct formula_set *set) { return wants_split_key(set->score, true) && !is_folded(set); }

unsigned formula_keyed_tensors(const struct formula *formula) {
    unsigned keyed = 0;
    for (int i = 0; formula && i < formula->count; i++) {
        const struct tree_node *n = &formula->node[i];
        if (n->op == OP_AT && tree_names_of(formula, n->operand[n->operands - 1]) >> FORMULA_K & 1)
            keyed |= 1u << n->number;
    }
    return keyed;
}
static unsigned keyed_tensors(const struct formula_set *set) {
    return (formula_splits_mask(set) ? formula_keyed_tensors(set->mask) : 0) |
           (splits_score(set) ? formula_keyed_tensors(set->score) : 0);
}

/* True if `part` is evaluated for every pair, regardless of conditions. */
static bool always_needs(const struct formula *f, int node, int part) {
    const struct tree_node *n = &f->node[node];
    bool some = n->op == OP_IF || n->op == OP_AND || n->op == OP_OR; /* only the first operand is always evaluated */
    bool needs = node == part;
    for (int i = 0; !needs && i < (some ? 1 : n->operands); i++)
        needs = always_needs(f, n->operand[i], part);
    return needs;
}

/* Returns the parameter whose rows can be copied ahead (formula_has_bias_rows), or null. */
static const struct formula_param *bias_param(const struct formula_set *set) {
    const struct formula *f = set->score;
    const struct tree_node *found = NULL;
    for (int i = 0; splits_score(set) && i < f->count; i++) {
        const struct tree_node *n = &f->node[i];
        bool keyed = false;
        for (int j = 0; n->op == OP_AT && j < n->operands; j++)
            keyed |= (tree_names_of(f, n->operand[j]) >> FORMULA_K & 1) || tree_uses_score(f, n->operand[j]);
        if (!keyed)
            continue;
        const struct tree_node *last = &f->node[n->operand[n->operands - 1]];
        bool row = last->op == OP_NAME && last->number == FORMULA_K && n->operands > 1 && !found &&
                   always_needs(f, f->root, i);
        for (int j = 0; j < n->operands - 1; j++)
            row &= !(tree_names_of(f, n->operand[j]) >> FORMULA_K & 1) && !tree_uses_score(f, n->operand[j]);
        if (!row)
            return NULL;
        found = n;
    }
    const struct formula_param *param = found ? &set->scope.param[found->number] : NULL;
    return param && (param->storage == FORMULA_STORE_BF16 || param->storage == FORMULA_STORE_FP16) ? param : NULL;
}

bool formula_has_bias_rows(const struct formula_set *set) { return bias_param(set) != NULL; }

static void print_types(int dims, struct text *text) {
    for (int i = 0; i < dims; i++)
        text_print(text, ", int");
}

/* Prints the functions that return a loaded element and its address. */
static void print_bias(const struct formula_set *set, struct text *text) {
    const struct formula_param *param = bias_param(set);
    if (!param)
        return;
    const char *load = storages[param->storage].load, *hole = strstr(load, "%s");
    text_print(text, "__device__ __forceinline__ float tensor_%s(const attention_params &", param->name);
    print_types(param->dims - 1, text);
    text_print(text, ", BiasKey k) {\n    return %.*sk.element()%s;\n}\n", (int)(hole - load), load, hole + 2);
    text_print(text, "__device__ __forceinline__ float tensor_%s(const attention_params &p", param->name);
    print_index_names(param->dims - 1, text);
    int i = number_of(set, param);
    text_print(text, ", BiasPlace k) {\n    *k.element = static_cast<const unsigned short *>(p.param[%d].data)", i);
    for (int d = 0; d < param->dims - 1; d++)
        text_print(text, " + i%d * p.param[%d].stride[%d]", d, i, d);
    text_print(text, " + k.first * p.param[%d].stride[%d]", i, param->dims - 1);
    text_print(text, ";\n    return 0;\n}\n");
}

static void print_pieces(const struct formula_set *set, struct text *text) {
    const struct formula_param *param = bias_param(set);
    if (!param)
        return;
    int i = number_of(set, param);
    text_print(
        text,
        "    return p.param[%d].stride[%d] == 1 && reinterpret_cast<unsigned long long>(p.param[%d].data) %% 16 == 0",
        i, param->dims - 1, i);
    for (int d = 0; d < param->dims - 1; d++)
        text_print(text, " &&\n           p.param[%d].stride[%d] %% 8 == 0", i, d);
    text_print(text, ";\n");
}

/* Prints the key types, and the functions that read tensor elements at a key or a sum with a key. */
static void print_key(const struct formula_set *set, struct text *text) {
    if (formula_splits_mask(set))
        text_print(text, "using MaskKey = SplitKey;\n");
    if (set->score && !is_folded(set))
        text_print(text, "using ScoreKey = %s;\n", splits_score(set) ? "SplitKey" : "int");
    for (int i = 0; i < set->scope.count; i++) {
        const struct formula_param *param = &set->scope.param[i];
        const char *load = storages[param->storage].load, *hole = strstr(load, "%s");
        for (int whole = 0; whole < 2 && keyed_tensors(set) >> i & 1; whole++) {
            text_print(text, "__device__ __forceinline__ %s tensor_%s(const attention_params &p",
                       value_types[param->type], param->name);
            print_index_names(param->dims - 1, text);
            text_print(text, ", %s i%d) {\n    const %s *row = static_cast<const %s *>(p.param[%d].data)",
                       whole ? "SplitKey" : "SplitSum", param->dims - 1, storages[param->storage].type,
                       storages[param->storage].type, i);
            for (int d = 0; d < param->dims - 1; d++)
                text_print(text, " + i%d * p.param[%d].stride[%d]", d, i, d);
            text_print(text, " + i%d.first;\n    return %.*s", param->dims - 1, (int)(hole - load), load);
            text_print(text, whole ? "of_pair(row, i%d.place)" : "row[i%d.place]", param->dims - 1);
            text_print(text, "%s;\n}\n", hole + 2);
        }
    }
}

static void print_pairs(const struct formula_set *set, struct text *text) {
    unsigned keyed = keyed_tensors(set);
    const char *join = "    return ";
    for (int i = 0; i < set->scope.count; i++) {
        const struct formula_param *param = &set->scope.param[i];
        if (!(keyed >> i & 1))
            continue;
        text_print(text,
                   "%sp.param[%d].stride[%d] == 1 &&\n           reinterpret_cast<unsigned long "
                   "long>(p.param[%d].data) %% (2 * sizeof(%s)) == 0",
                   join, i, param->dims - 1, i, storages[param->storage].type);
        for (int d = 0; d < param->dims - 1; d++)
            text_print(text, " && p.param[%d].stride[%d] %% 2 == 0", i, d);
        join = " &&\n           ";
    }
    text_print(text, keyed ? ";\n" : "    return true;\n");
}

static void print_some(const struct formula_set *set, struct text *text) { print_tile(set, true, text); }
static void print_all(const struct formula_set *set, struct text *text) { print_tile(set, false, text); }
static void print_mask(const struct formula_set *set, struct text *text) { print_return(set, set->mask, true, text); }
static void print_score(const struct formula_set *set, struct text *text) {
    print_return(set, set->score, false, text);
}

/* It calls no helpers besides those of the score. */
static void print_derivative(const struct formula_set *set, struct text *text) {
    struct formula *derivative = formula_slope(set->score);
    if (derivative)
        print_return(set, derivative, false, text);
    else
        text->failed = true;
    formula_free(derivative);
}

static void print_fold(const struct formula_set *set, size_t part, struct text *text) {
    struct formula_fold fold;
    bool good = formula_fold_score(set->score, &fold);
    const struct formula *of[] = {fold.cap, fold.factor, fold.rest, fold.slope};
    if (of[part])
        print_return(set, of[part], false, text);
    text->failed |= !good;
    formula_fold_free(&fold);
}
static void print_cap(const struct formula_set *set, struct text *text) { print_fold(set, 0, text); }
static void print_factor(const struct formula_set *set, struct text *text) { print_fold(set, 1, text); }
static void print_rest(const struct formula_set *set, struct text *text) { print_fold(set, 2, text); }
static void print_slope(const struct formula_set *set, struct text *text) { print_fold(set, 3, text); }

/* --- the directive ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*print)(const struct formula_set *set, struct text *text);
    bool of_mask, of_score; /* true if it needs a mask, a score */
} codes[FORMULA_CODES] = {
    [CODE_HELPERS] = {"helpers", print_helpers, false, false},
    [CODE_TENSORS] = {"tensors", print_tensors, false, false},
    [CODE_BOUNDS] = {"bounds", print_all_bounds, true, false},
    [CODE_TABLES] = {"tables", print_tables, true, false},
    [CODE_MASK] = {"mask", print_mask, true, false},
    [CODE_QUERY_FIELDS] = {"query_fields", formula_code_query_fields, true, false},
    [CODE_QUERY_VALUES] = {"query_values", formula_code_query_values, true, false},
    [CODE_QUERY_OF_LANE] = {"query_of_lane", formula_code_query_of_lane, true, false},
    [CODE_KEY_FIELDS] = {"key_fields", formula_code_key_fields, true, false},
    [CODE_KEY_VALUES] = {"key_values", formula_code_key_values, true, false},
    [CODE_MASK_OF_READS] = {"mask_of_reads", formula_code_mask_of_reads, true, false},
    [CODE_KEY] = {"key", print_key, false, false},
    [CODE_BIAS] = {"bias", print_bias, false, true},
    [CODE_PAIRS] = {"pairs", print_pairs, false, false},
    [CODE_PIECES] = {"pieces", print_pieces, false, true},
    [CODE_SCORE] = {"score", print_score, false, true},
    [CODE_DERIVATIVE] = {"derivative", print_derivative, false, true},
    [CODE_GRADIENTS] = {"gradients", formula_code_gradients, false, true},
    [CODE_CLEARED] = {"cleared", formula_code_cleared, false, true},
    [CODE_ELEMENTS] = {"elements", formula_code_elements, false, true},
    [CODE_ELEMENT] = {"element", formula_code_element, false, true},
    [CODE_ELEMENT_STEP] = {"element_step", formula_code_element_step, false, true},
    [CODE_HEAD_READS] = {"head_reads", formula_code_head_reads, false, true},
    [CODE_HEAD_PLACES] = {"head_places", formula_code_head_places, false, true},
    [CODE_PAIR_READS] = {"pair_reads", formula_code_pair_reads, false, true},
    [CODE_QUERY_READS] = {"query_reads", formula_code_query_reads, false, true},
    [CODE_CAP] = {"cap", print_cap, false, true},
    [CODE_FACTOR] = {"factor", print_factor, false, true},
    [CODE_REST] = {"rest", print_rest, false, true},
    [CODE_SLOPE] = {"slope", print_slope, false, true},
    [CODE_KEYS] = {"keys", print_keys, true, false},
    [CODE_EXACT] = {"exact", print_exact, true, false},
    [CODE_SOME] = {"some", print_some, true, false},
    [CODE_ALL] = {"all", print_all, true, false},
};

const char *formula_code_name(enum formula_code code) { return codes[code].name; }

void formula_code_print(const struct formula_set *set, enum formula_code code, struct text *text) {
    if ((set->mask || !codes[code].of_mask) && (set->score || !codes[code].of_score))
        codes[code].print(set, text);
}
