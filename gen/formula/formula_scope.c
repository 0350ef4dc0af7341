/* formula_scope: declared parameters: "float[heads, 2 * len_kv]" -> storage and shape. */
#include "formula_parse.h"

#include <string.h>

int formula_param_find(const struct formula_scope *scope, const char *name) {
    for (int i = 0; i < scope->count; i++)
        if (strcmp(scope->param[i].name, name) == 0)
            return i;
    return -1;
}

/* Names become C++ identifiers: lower case avoids macros and constants, and these words are reserved. */
static bool is_cxx_word(const char *name) {
    static const char *const words[] = {
        "alignas",   "alignof",  "asm",      "auto",    "break",    "case",    "catch",     "char",     "class",
        "const",     "continue", "decltype", "default", "delete",   "do",      "double",    "enum",     "explicit",
        "export",    "extern",   "float",    "for",     "friend",   "goto",    "inline",    "long",     "mutable",
        "namespace", "new",      "noexcept", "nullptr", "operator", "private", "protected", "public",   "register",
        "return",    "short",    "signed",   "sizeof",  "static",   "struct",  "switch",    "template", "this",
        "throw",     "try",      "typedef",  "typeid",  "typename", "union",   "unsigned",  "using",    "virtual",
        "void",      "volatile", "while",    "xor",     "bitand",   "bitor",   "compl",     "concept",  "requires"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0)
            return true;
    return false;
}

static bool check_name(const struct formula_scope *scope, struct place place, const char *name, struct diag *diag) {
    size_t size = strlen(name);
    if (size == 0 || size >= FORMULA_PARAM_NAME || name[0] < 'a' || name[0] > 'z' ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != size || strstr(name, "__"))
        diag_error(diag, place, "a parameter's name is up to %d small letters, digits and single '_', a letter first",
                   FORMULA_PARAM_NAME - 1);
    else if (parse_is_word(name, size) || is_cxx_word(name))
        diag_error(diag, place, "'%s' means something already; call the parameter something else", name);
    else if (formula_param_find(scope, name) >= 0)
        diag_error(diag, place, "'%s' is declared twice", name);
    else
        return true;
    return false;
}

static const char *next_storage(void *context) {
    int *next = context;
    return *next < FORMULA_STORAGES ? storage_names[(*next)++] : NULL;
}

static struct place after(struct place place, size_t bytes) {
    place.col += (int)bytes;
    return place;
}

/* Returns the length of one dimension: it ends at a comma or bracket outside of other brackets. */
static size_t dim_size(const char *s) {
    int depth = 0;
    size_t size = 0;
    for (; s[size] && (depth > 0 || (s[size] != ',' && s[size] != ']')); size++)
        depth += (s[size] == '(' || s[size] == '[') - (s[size] == ')' || s[size] == ']');
    return size;
}

static bool read_shape(const struct formula_scope *scope, struct formula_param *param, struct place place,
                       const char *type, size_t at, struct diag *diag) {
    do {
        at++; /* the bracket or comma */
        if (param->dims == FORMULA_DIMS) {
            diag_error(diag, after(place, at), "a tensor has %d dimensions at most", FORMULA_DIMS);
            return false;
        }
        size_t size = dim_size(type + at);
        struct formula *dim = formula_parse(FORMULA_SIZE, after(place, at), type + at, size, scope, diag);
        if (!dim)
            return false;
        param->dim[param->dims++] = dim;
        at += size;
    } while (type[at] == ',');
    if (type[at] != ']' || type[at + 1 + strspn(type + at + 1, " ")]) {
        diag_error(diag, after(place, at + (type[at] == ']')),
                   type[at] == ']' ? "unexpected text after the shape" : "expected ']' or ','");
        return false;
    }
    return true;
}

static void free_param(struct formula_param *param) {
    for (int i = 0; i < param->dims; i++)
        formula_free(param->dim[i]);
    *param = (struct formula_param){0};
}

bool formula_declare(struct formula_scope *scope, struct place name_place, const char *name, struct place type_place,
                     const char *type, struct diag *diag) {
    struct formula_param param = {0};
    size_t size = strcspn(type, "[ ");
    int storage = storage_find(type, size), next = 0;
    if (!check_name(scope, name_place, name, diag))
        return false;
    if (scope->count == FORMULA_PARAMS) {
        diag_error(diag, name_place, "this is parameter %d, and there may be %d at most", FORMULA_PARAMS + 1,
                   FORMULA_PARAMS);
        return false;
    }
    if (storage < 0) {
        const char *near = diag_nearest(type, size, next_storage, &next);
        diag_error(diag, type_place, "unknown type '%.*s'%s%s%s", (int)size, type,
                   near ? "; did you mean '" : "; there are bool, int, float, fp16 and bf16, as in float[heads]",
                   near ? near : "", near ? "'?" : "");
        return false;
    }
    strcpy(param.name, name);
    param.storage = (enum formula_storage)storage;
    param.type = storage_type(param.storage);
    size += strspn(type + size, " ");
    if (type[size] == '[' && !read_shape(scope, &param, type_place, type, size, diag)) {
        free_param(&param);
        return false;
    }
    if (type[size] && type[size] != '[') {
        diag_error(diag, after(type_place, size), "expected a shape, as in %s[heads]", storage_names[storage]);
        return false;
    }
    if (!param.dims && (param.storage == FORMULA_STORE_FP16 || param.storage == FORMULA_STORE_BF16)) {
        diag_error(diag, type_place, "a single number is float; %s is for tensors", storage_names[storage]);
        return false;
    }
    scope->param[scope->count++] = param;
    return true;
}

void formula_scope_free(struct formula_scope *scope) {
    for (int i = 0; i < scope->count; i++)
        free_param(&scope->param[i]);
    scope->count = 0;
}

void formula_print_params(const struct formula_scope *scope, unsigned params, struct text *text) {
    const char *comma = "";
    for (int i = 0; i < scope->count; i++) {
        const struct formula_param *param = &scope->param[i];
        if (!(params >> i & 1))
            continue;
        text_print(text, "%s%s: %s", comma, param->name, storage_names[param->storage]);
        for (int d = 0; d < param->dims; d++) {
            text_print(text, d ? ", " : "[");
            formula_print(param->dim[d], text);
        }
        text_print(text, param->dims ? "]" : "");
        comma = ", ";
    }
}
