/* attile cache explain: what a key consists of, and which of its fields differ from the most similar entry: it answers
   "why was this compiled again?". */
#include "cache.h"
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const struct option options_cache_explain[] = {
    {"cache-dir", 0, OPTION_TEXT, "DIR", "another cache than the default one"},
    CLI_COMMON_OPTIONS,
};

enum { SHOWN = 72 }; /* bytes shown of a field's line */

struct preimages { /* of all intact entries, copied during the visit */
    struct preimage {
        char digest[CACHE_DIGEST + 1];
        struct text text;
    } * item;
    int count, room;
    bool failed;
};

static int collect(void *context, const struct cache_item *item) {
    struct preimages *all = context;
    if (item->damage)
        return 0;
    if (all->count == all->room) {
        int room = all->room ? all->room * 2 : 64;
        struct preimage *more = realloc(all->item, sizeof *more * (size_t)room);
        if (!more) {
            all->failed = true;
            return 1;
        }
        all->item = more;
        all->room = room;
    }
    struct preimage *copy = &all->item[all->count++];
    *copy = (struct preimage){0};
    memcpy(copy->digest, item->digest, sizeof copy->digest);
    text_append(&copy->text, item->preimage.bytes, item->preimage.size);
    return 0;
}

static bool same(const struct cache_field *a, const struct cache_field *b) {
    return a->name_size == b->name_size && memcmp(a->name, b->name, a->name_size) == 0 &&
           a->value_size == b->value_size && memcmp(a->value, b->value, a->value_size) == 0;
}

/* Returns how similar two keys are: first the number of equal fields, then how far the first differing one agrees. */
static double likeness(const struct text *a, const struct text *b) {
    struct cache_field x, y;
    size_t i = 0, k = 0;
    double like = 0;
    while (cache_key_field(a->bytes, a->size, &i, &x) && cache_key_field(b->bytes, b->size, &k, &y)) {
        size_t least = x.value_size < y.value_size ? x.value_size : y.value_size, common = 0;
        while (common < least && x.value[common] == y.value[common])
            common++;
        like += same(&x, &y) ? 1 : 0.5 * (double)common / (double)(least + 1);
    }
    return like;
}

static void print_line(struct text *out, const char *label, const char *value, size_t size) {
    const char *newline = memchr(value, '\n', size);
    size_t line = newline ? (size_t)(newline - value) : size;
    text_print(out, "    %-8s %.*s%s\n", label, (int)(line < SHOWN ? line : SHOWN), value, line > SHOWN ? "..." : "");
}

/* Prints the first line in which two values differ. */
static void print_difference(struct text *out, const struct cache_field *a, const struct cache_field *b) {
    size_t at = 0, line = 1, start = 0;
    while (at < a->value_size && at < b->value_size && a->value[at] == b->value[at])
        if (a->value[at++] == '\n') {
            line++;
            start = at;
        }
    text_print(out, "  %.*s differs, first in line %zu:\n", (int)a->name_size, a->name, line);
    print_line(out, "here", a->value + start, a->value_size - start);
    print_line(out, "nearest", b->value + start, b->value_size - start);
}

static void print_fields(struct text *out, const struct preimage *item) {
    struct cache_field field;
    text_print(out, "%s\n", item->digest);
    for (size_t at = 0; cache_key_field(item->text.bytes, item->text.size, &at, &field);) {
        bool one_line = !memchr(field.value, '\n', field.value_size) && field.value_size <= SHOWN;
        text_print(out, "  %-10.*s ", (int)field.name_size, field.name);
        if (one_line)
            text_print(out, "%.*s\n", (int)field.value_size, field.value);
        else
            text_print(out, "(%zu bytes)\n", field.value_size);
    }
}

static void print_comparison(struct text *out, const struct preimage *item, const struct preimage *nearest) {
    struct cache_field a, b;
    size_t i = 0, k = 0;
    text_print(out, "nearest entry: %s\n", nearest->digest);
    while (cache_key_field(item->text.bytes, item->text.size, &i, &a) &&
           cache_key_field(nearest->text.bytes, nearest->text.size, &k, &b))
        if (!same(&a, &b))
            print_difference(out, &a, &b);
}

static void print_json(struct cli *cli, const struct preimage *item, const struct preimage *nearest) {
    struct json json;
    struct cache_field a, b;
    size_t i = 0, k = 0;
    cli_json_open(cli, &json);
    json_put_string(&json, "key", item->digest);
    json_put_string(&json, "nearest", nearest ? nearest->digest : NULL);
    json_open_array(&json, "fields");
    while (cache_key_field(item->text.bytes, item->text.size, &i, &a)) {
        bool paired = nearest && cache_key_field(nearest->text.bytes, nearest->text.size, &k, &b);
        struct text name = {0}, value = {0};
        text_append(&name, a.name, a.name_size);
        text_append(&value, a.value, a.value_size);
        json_open_object(&json, NULL);
        json_put_string(&json, "name", text_string(&name));
        json_put_string(&json, "value", text_string(&value));
        json_put_bool(&json, "differs", paired && !same(&a, &b));
        json_end(&json);
        text_free(&name);
        text_free(&value);
    }
    json_close(&json);
}

static enum exit_code explain(struct cli *cli, const struct preimages *all) {
    const char *key = cli->options.argument[0];
    const struct preimage *item = NULL, *nearest = NULL;
    double best = 0;
    for (int i = 0; i < all->count; i++) {
        if (strncmp(all->item[i].digest, key, strlen(key)) != 0)
            continue;
        if (item)
            return cli_error(cli, CLI_USAGE, "several keys start with '%s'; give more digits", key);
        item = &all->item[i];
    }
    if (!item)
        return cli_error(cli, CLI_USAGE, "no key starts with '%s'; attile cache list shows them", key);
    for (int i = 0; i < all->count; i++) {
        double like = &all->item[i] == item ? 0 : likeness(&item->text, &all->item[i].text);
        if (like > best) {
            best = like;
            nearest = &all->item[i];
        }
    }
    if (cli->json) {
        print_json(cli, item, nearest);
        return CLI_OK;
    }
    print_fields(&cli->out, item);
    if (nearest)
        print_comparison(&cli->out, item, nearest);
    return CLI_OK;
}

enum exit_code verb_cache_explain(struct cli *cli) {
    struct cache_options options = {.dir = cli_text(cli, "cache-dir", NULL)};
    struct preimages all = {0};
    struct failure failure = {0};
    struct cache *cache = cache_open(&options);
    enum att_status status = ATT_OK;
    if (cache && cache_dir(cache))
        status = cache_visit(cache, 0, collect, &all, &failure);
    enum exit_code code = cli_exit_code(status);
    if (!cache || all.failed)
        code = cli_error(cli, CLI_INTERNAL, "out of memory");
    else if (!cache_dir(cache))
        code = cli_error(cli, CLI_IO, "there is no cache folder that can be used; see attile doctor");
    else if (status != ATT_OK)
        cli_error(cli, code, "%s", text_string(&failure.text));
    else
        code = explain(cli, &all);
    for (int i = 0; i < all.count; i++)
        text_free(&all.item[i].text);
    free(all.item);
    failure_clear(&failure);
    cache_close(cache);
    return code;
}
