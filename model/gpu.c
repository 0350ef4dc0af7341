/* gpu: a device file -> struct model_gpu. Every rate of rates.def must be present once, with its unit, so that GHz is
   not taken for Hz, and with its source, so that it can be checked. */
#include "embedded.h"
#include "knob_text.h"
#include "model.h"
#include "yaml_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct rate_info {
    const char *name, *unit;
    size_t offset;
} rates[] = {
#define RATE(name, unit, about) {#name, unit, offsetof(struct model_gpu, name)},
#include "rates.def"
};
enum { RATES = sizeof rates / sizeof *rates };

struct reader {
    struct model_gpu *gpu;
    struct diag *diag;
    bool read[RATES];
};

static const struct node *member(const struct node *map, const char *name) {
    for (const struct node *key = map->first; key; key = key->next->next)
        if (strcmp(key->text, name) == 0)
            return key->next;
    return NULL;
}

static bool is_kind(struct reader *reader, const struct node *node, const char *name, enum node_kind kind) {
    static const char *const wanted[] = {"a single value", "a list", "a map"};
    if (node->kind == kind && (kind != NODE_SCALAR || node->size > 0))
        return true;
    diag_error(reader->diag, node->place, "%s takes %s, found %s", name, wanted[kind],
               node->kind == NODE_SCALAR && !node->size ? "nothing" : node_kind_name(node));
    return false;
}

/* --- rates ------------------------------------------------------------------------------------------------------- */

static const char *next_rate(void *context) {
    int *i = context;
    return *i < RATES ? rates[(*i)++].name : NULL;
}

static int find_rate(struct reader *reader, const struct node *key) {
    for (int i = 0; i < RATES; i++)
        if (strcmp(rates[i].name, key->text) == 0)
            return i;
    const char *near = diag_nearest(key->text, key->size, next_rate, &(int){0});
    diag_error(reader->diag, key->place, near ? "unknown rate '%s'; did you mean '%s'?" : "unknown rate '%s'",
               shown(key->text, key->size).text, near);
    return -1;
}

static bool read_number(struct reader *reader, const struct node *node, double *number) {
    char *end = NULL;
    *number = strtod(node->text, &end);
    if (end != node->text && *end == '\0' && isfinite(*number) && *number > 0 && node->text[0] != '+')
        return true;
    diag_error(reader->diag, node->place, "expected a number above 0, as in 1.98e9, found '%s'",
               shown(node->text, node->size).text);
    return false;
}

static void read_rate(struct reader *reader, const struct node *key) {
    const struct node *map = key->next;
    int rate = find_rate(reader, key);
    if (rate < 0 || !is_kind(reader, map, key->text, NODE_MAP))
        return;
    const struct node *value = member(map, "value"), *unit = member(map, "unit"), *source = member(map, "source");
    if (!value || !unit || !source || map->children != 6) {
        diag_error(reader->diag, map->place, "a rate has value, unit and source, nothing else");
        return;
    }
    double number;
    if (!is_kind(reader, value, "value", NODE_SCALAR) || !is_kind(reader, source, "source", NODE_SCALAR))
        return;
    if (unit->kind != NODE_SCALAR || strcmp(unit->text, rates[rate].unit) != 0)
        diag_error(reader->diag, unit->place, "the unit of %s is '%s'", key->text, rates[rate].unit);
    else if (read_number(reader, value, &number)) {
        *(double *)((char *)reader->gpu + rates[rate].offset) = number;
        reader->read[rate] = true;
    }
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static void read_word(struct reader *reader, const struct node *node, const char *name, char *out, size_t size) {
    if (!is_kind(reader, node, name, NODE_SCALAR))
        return;
    if (node->size >= size)
        diag_error(reader->diag, node->place, "%s has at most %d letters", name, (int)size - 1);
    else
        memcpy(out, node->text, node->size + 1);
}

static void read_root(struct reader *reader, const struct node *root) {
    if (!is_kind(reader, root, "a device file", NODE_MAP))
        return;
    for (const struct node *key = root->first; key; key = key->next->next) {
        if (strcmp(key->text, "name") == 0)
            read_word(reader, key->next, "name", reader->gpu->name, sizeof reader->gpu->name);
        else if (strcmp(key->text, "arch") == 0)
            read_word(reader, key->next, "arch", reader->gpu->arch, sizeof reader->gpu->arch);
        else if (strcmp(key->text, "rates") != 0)
            diag_error(reader->diag, key->place, "unknown key '%s': a device file has name, arch and rates",
                       shown(key->text, key->size).text);
        else if (is_kind(reader, key->next, "rates", NODE_MAP))
            for (const struct node *rate = key->next->first; rate; rate = rate->next->next)
                read_rate(reader, rate);
    }
}

static void check_complete(struct reader *reader, const struct node *root) {
    if (!reader->gpu->name[0] || !reader->gpu->arch[0])
        diag_error(reader->diag, root->place, "a device file needs the keys 'name' and 'arch'");
    for (int i = 0; i < RATES; i++)
        if (!reader->read[i])
            diag_error(reader->diag, root->place, "the rate '%s' is missing", rates[i].name);
}

bool model_gpu_read(const struct input *input, struct model_gpu *gpu, struct diag *diag) {
    static const struct yaml_kind kind = {"device file", "name: NAME", YAML_BYTES, YAML_EVENTS};
    struct reader reader = {.gpu = gpu, .diag = diag};
    int errors = diag->errors;
    *gpu = (struct model_gpu){0};
    struct node *root = yaml_tree_read(input, &kind, diag);
    if (root && diag->errors == errors)
        read_root(&reader, root);
    if (root && diag->errors == errors)
        check_complete(&reader, root);
    yaml_tree_free(root);
    return root && diag->errors == errors;
}

/* --- the files built in ---------------------------------------------------------------------------------------------- */

bool model_gpu_find(const char *name, struct model_gpu *gpu) {
    for (const struct embedded_file *file = embedded_devices; file->name; file++) {
        struct input input = {file->name, file->text, file->size};
        struct diag diag = {0};
        size_t stem = strcspn(file->name, ".");
        if (!memmem(file->text, file->size, name, strlen(name)) && strncmp(file->name, name, stem) != 0)
            continue; /* reading the file would take a tenth of a millisecond */
        bool found = model_gpu_read(&input, gpu, &diag) &&
                     (strcmp(gpu->name, name) == 0 || (strlen(name) == stem && memcmp(file->name, name, stem) == 0));
        diag_free(&diag);
        if (found)
            return true;
    }
    return false;
}

bool model_gpu_list(int i, char *name, size_t size) {
    const struct embedded_file *file = embedded_devices;
    while (file->name && i-- > 0)
        file++;
    size_t stem = file->name ? strcspn(file->name, ".") : size;
    if (stem >= size)
        return false;
    memcpy(name, file->name, stem);
    name[stem] = '\0';
    return true;
}

unsigned model_gpu_targets(const struct model_gpu *gpu) {
    int arch = gpu->arch[0] ? (int)strtol(gpu->arch + strcspn(gpu->arch, "0123456789"), NULL, 10) : 0;
    unsigned targets = 0;
    for (int target = target_any; knob_table[KNOB_target].words[target]; target++) {
        const struct target_info *info = target_info(target);
        if (arch >= info->first && arch <= info->last)
            targets |= 1u << target;
    }
    return targets;
}
