/* formula_table: named masks and scores, formulas.def, and their expansion: the entry's parameters stand for the
   arguments' nodes, and its text is parsed like the user's, with the same checks. Errors point at the name. */
#include "formula_parse.h"

#include <string.h>

const struct formula_entry formula_table[] = {
#define MASK(name, params, text, about)  {FORMULA_MASK, #name, params, text, about},
#define SCORE(name, params, text, about) {FORMULA_SCORE, #name, params, text, about},
#include "formulas.def"
};
const int formula_table_count = sizeof formula_table / sizeof *formula_table;

/* Finds an entry of the wanted kind; a score may also use a mask. */
int table_find(enum formula_kind kind, const char *name, size_t size) {
    int found = -1;
    for (int i = 0; i < formula_table_count && kind != FORMULA_SIZE; i++) {
        const struct formula_entry *entry = &formula_table[i];
        if (strlen(entry->name) != size || memcmp(entry->name, name, size) != 0)
            continue;
        if (entry->kind == kind)
            return i;
        if (kind == FORMULA_SCORE)
            found = i;
    }
    return found;
}

/* One "name: type" of a signature; next_param steps to the next one, false at the end. */
struct signature {
    const char *name;
    size_t name_size;
    const char *type;
    size_t type_size; /* the element type only */
    int dims;
};

static bool next_param(const char **at, struct signature *out) {
    const char *s = *at;
    if (!*s)
        return false;
    int depth = 0;
    *out = (struct signature){.name = s, .name_size = strcspn(s, ":")};
    s += out->name_size + 2;
    out->type = s;
    out->type_size = strcspn(s, "[,");
    for (; *s && (*s != ',' || depth); s++) {
        if (*s == '[')
            out->dims = 1;
        else if (*s == ',' && depth == 1)
            out->dims++;
        depth += (*s == '[' || *s == '(') - (*s == ']' || *s == ')');
    }
    *at = *s ? s + 2 : s;
    return true;
}

/* Finds the tensor that is passed as an argument by its bare name. */
static int find_tensor(const struct parser *p) {
    const char *name = p->text + p->at;
    size_t size = (size_t)p->token;
    for (int i = p->bindings - 1; i >= p->first_binding; i--)
        if (p->binding[i].param >= 0 && p->binding[i].size == size && memcmp(p->binding[i].name, name, size) == 0)
            return p->binding[i].param;
    const struct formula_scope *scope = p->formula->scope;
    for (int i = 0; p->call < 0 && scope && i < scope->count; i++)
        if (scope->param[i].dims && text_equals(name, size, scope->param[i].name))
            return i;
    return -1;
}

static bool bind_tensor(struct parser *p, const struct formula_entry *entry, const struct signature *wanted,
                        struct binding *out) {
    enum formula_type type = storage_type((enum formula_storage)storage_find(wanted->type, wanted->type_size));
    const char *shape = wanted->type + wanted->type_size;
    int shape_size = (int)(strchr(shape, ']') - shape) + 1;
    out->param = find_tensor(p);
    if (out->param < 0) {
        parse_refuse(p, p->at, "%s takes a tensor here: declare one under `params`, as %.*s%.*s, and write its name",
                     entry->name, (int)wanted->type_size, wanted->type, shape_size, shape);
        return false;
    }
    const struct formula_param *found = &p->formula->scope->param[out->param];
    if (found->dims != wanted->dims || found->type != type) {
        parse_refuse(p, p->at, "%s takes %.*s%.*s here, and %s is a tensor of %s with %d dimension%s", entry->name,
                     (int)wanted->type_size, wanted->type, shape_size, shape, found->name,
                     storage_names[found->storage], found->dims, found->dims == 1 ? "" : "s");
        return false;
    }
    parse_advance(p);
    return true;
}

static bool bind_value(struct parser *p, const struct formula_entry *entry, const struct signature *wanted,
                       struct binding *out) {
    enum formula_type type = storage_type((enum formula_storage)storage_find(wanted->type, wanted->type_size));
    struct part part = parse_expression(p);
    out->param = -1;
    if (!check_type(p, part, type, entry->name, &part))
        return false;
    out->node = part.node;
    return true;
}

/* Parses the arguments in brackets and binds each above the visible bindings; false after an error. */
static bool bind_arguments(struct parser *p, const struct formula_entry *entry, int *count) {
    const char *next = entry->params;
    struct signature wanted;
    *count = 0;
    if (!*next && parse_is_token(p, "("))
        parse_refuse(p, p->at, "%s takes no arguments", entry->name);
    if (!*next)
        return !p->failed;
    if (!parse_is_token(p, "(")) {
        parse_refuse(p, p->at, "%s takes arguments: %s(%s)", entry->name, entry->name, entry->params);
        return false;
    }
    parse_advance(p);
    struct binding made[8];
    while (next_param(&next, &wanted)) {
        struct binding *binding = &made[*count];
        *binding = (struct binding){.name = wanted.name, .size = wanted.name_size, .node = NO_NODE};
        if (*count && !parse_is_token(p, ",")) {
            parse_refuse(p, p->at, "%s takes more arguments: %s(%s)", entry->name, entry->name, entry->params);
            return false;
        }
        if (*count)
            parse_advance(p);
        if (!(wanted.dims ? bind_tensor(p, entry, &wanted, binding) : bind_value(p, entry, &wanted, binding)))
            return false;
        ++*count;
    }
    if (!parse_is_token(p, ")")) {
        parse_refuse(p, p->at, "expected ')': this is %s(%s)", entry->name, entry->params);
        return false;
    }
    parse_advance(p);
    if (p->bindings + *count > PARSE_BINDINGS) {
        parse_refuse(p, p->at, "this formula nests too deeply");
        return false;
    }
    memcpy(p->binding + p->bindings, made, (size_t)*count * sizeof *made);
    return true;
}

struct part table_expand(struct parser *p, int number) {
    const struct formula_entry *entry = &formula_table[number];
    int at = p->call >= 0 ? p->call : p->at, count;
    parse_advance(p);
    if (!bind_arguments(p, entry, &count))
        return (struct part){.node = NO_NODE};

    struct parser outside = *p;
    p->first_binding = p->bindings;
    p->bindings += count;
    p->text = entry->text;
    p->size = (int)strlen(entry->text);
    p->at = p->token = 0;
    p->call = at;
    parse_advance(p);
    struct part part = parse_expression(p);
    bool failed = p->failed;
    *p = outside;
    p->failed = failed;
    part.at = at;
    return part;
}
