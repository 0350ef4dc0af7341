#include "shape_text.h"
#include "diag.h"

#include <inttypes.h>
#include <string.h>

struct names { /* of the sizes of a family */
    int family, at;
};

static const char *next_name(void *context) {
    struct names *names = context;
    while (names->at < SHAPE_COUNT && !(shape_table[names->at].families & 1u << names->family))
        names->at++;
    return names->at < SHAPE_COUNT ? shape_table[names->at++].name : NULL;
}

static bool read_pair(const char *pair, size_t size, int family, struct shape *shape, unsigned *given,
                      struct text *error) {
    const char *equals = memchr(pair, '=', size);
    if (!equals)
        return text_fail(error, "'%.*s' is not a size; expected name=value", (int)size, pair);
    size_t name_size = (size_t)(equals - pair);
    int id = shape_find(pair, name_size);
    if (id < 0 || !(shape_table[id].families & 1u << family)) {
        struct names names = {family, 0};
        const char *near = diag_nearest(pair, name_size, next_name, &names);
        return text_fail(error, "%s has no size '%.*s'%s%s%s", knob_word_name(KNOB_family, family), (int)name_size,
                         pair, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (*given & 1u << id)
        return text_fail(error, "%s is given twice", shape_table[id].name);
    *given |= 1u << id;
    int64_t value = 0;
    const char *digit = equals + 1, *end = pair + size;
    bool number = digit < end;
    for (; number && digit < end; digit++)
        number = *digit >= '0' && *digit <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
                 !__builtin_add_overflow(value, *digit - '0', &value);
    if (!number || value < shape_table[id].least || value > INT32_MAX)
        return text_fail(error, "%s expects a whole number from %" PRId64 " to %d, found '%.*s'", shape_table[id].name,
                         shape_table[id].least, INT32_MAX, (int)(end - equals - 1), equals + 1);
    shape_set(shape, (enum shape_id)id, value);
    return true;
}

bool shape_parse(const char *text, int family, struct shape *shape, struct text *error) {
    unsigned given = 0;
    *shape = (struct shape){0};
    for (const char *at = text + strspn(text, ", "); *at; at += strspn(at, ", ")) {
        size_t size = strcspn(at, ", ");
        if (!read_pair(at, size, family, shape, &given, error))
            return false;
        at += size;
    }
    for (int id = 0; id < SHAPE_COUNT; id++) {
        const struct shape_info *info = &shape_table[id];
        if (given & 1u << id || !(info->families & 1u << family))
            continue;
        if (info->fallback < 0)
            return text_fail(error, "%s is missing: %s", info->name, info->about);
        shape_set(shape, (enum shape_id)id, info->fallback);
    }
    if (shape->kv_heads > 0 && shape->heads % shape->kv_heads != 0)
        return text_fail(error, "kv_heads must divide heads; %" PRId64 " does not divide %" PRId64, shape->kv_heads,
                         shape->heads);
    return true;
}

void shape_print(const struct shape *shape, int family, struct text *text) {
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families & 1u << family)
            text_print(text, "%s%s=%" PRId64, text->size ? "," : "", shape_table[id].name,
                       shape_get(shape, (enum shape_id)id));
}
