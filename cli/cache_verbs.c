/* attile cache: lists the kernel cache, verifies it, and makes it smaller. */
#include "cache.h"
#include "cli.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHE_OPTIONS                                                                                                  \
    { "cache-dir", 0, OPTION_TEXT, "DIR", "another cache than the default one" }

const struct option options_cache[] = {CACHE_OPTIONS, CLI_COMMON_OPTIONS};

const struct option options_cache_trim[] = {
    {"bytes", 0, OPTION_NUMBER, "N", "what may stay, in bytes (cache trim only; default: the cache's limit)"},
    {"quarantine", 0, OPTION_FLAG, NULL, "also remove damaged entries that were set aside"},
    {"dry-run", 'n', OPTION_FLAG, NULL, "say what would be removed and remove nothing"},
    CACHE_OPTIONS,
    CLI_COMMON_OPTIONS,
};

static enum exit_code open_cache(struct cli *cli, struct cache **cache) {
    struct cache_options options = {.dir = cli_text(cli, "cache-dir", NULL), .log = cli_warning, .log_context = cli};
    *cache = cache_open(&options);
    if (!*cache)
        return cli_error(cli, CLI_INTERNAL, "out of memory");
    if (cache_dir(*cache))
        return CLI_OK;
    cache_close(*cache);
    return cli_error(cli, CLI_IO, "there is no cache folder that can be used; see attile doctor");
}

static enum exit_code close_cache(struct cli *cli, struct cache *cache, enum att_status status,
                                  struct failure *failure) {
    if (status != ATT_OK)
        cli_error(cli, cli_exit_code(status), "%s", text_string(&failure->text));
    failure_clear(failure);
    cache_close(cache);
    return cli_exit_code(status);
}

/* Reads a "name: value" line of the metadata beside a binary, as kernel.c writes it; "" if there is none. */
static void meta_value(const struct cache_item *item, const char *name, char *value, size_t size) {
    const char *at = item->meta, *end = at ? at + item->meta_size : at;
    size_t length = strlen(name);
    value[0] = '\0';
    while (at && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > length + 2 && memcmp(at, name, length) == 0 && at[length] == ':') {
            size_t found = (size_t)(stop - at) - length - 2;
            found = found < size ? found : size - 1;
            memcpy(value, at + length + 2, found);
            value[found] = '\0';
            return;
        }
        at = stop + 1;
    }
}

static void print_time(int64_t seconds, char text[24]) {
    time_t time = (time_t)seconds;
    struct tm utc;
    if (!gmtime_r(&time, &utc) || strftime(text, 24, "%Y-%m-%d %H:%M:%SZ", &utc) == 0)
        text[0] = '\0';
}

/* --- stat --------------------------------------------------------------------------------------------------------- */

enum exit_code verb_cache_stat(struct cli *cli) {
    struct cache *cache;
    struct cache_stat stat = {0};
    struct failure failure = {0};
    struct json json;
    enum exit_code code = open_cache(cli, &cache);
    if (code)
        return code;
    enum att_status status = cache_stat(cache, &stat, &failure);
    if (status == ATT_OK && cli->json) {
        cli_json_open(cli, &json);
        json_put_string(&json, "folder", cache_dir(cache));
        json_put_integer(&json, "entries", (int64_t)stat.entries);
        json_put_integer(&json, "bytes", (int64_t)stat.bytes);
        json_put_integer(&json, "limit", (int64_t)stat.limit);
        json_put_integer(&json, "quarantined", (int64_t)stat.quarantined);
        json_put_integer(&json, "temporary", (int64_t)stat.temporary);
        json_close(&json);
    } else if (status == ATT_OK) {
        text_print(&cli->out, "folder       %s\nkernels      %" PRIu64 "\nsize         ", cache_dir(cache),
                   stat.entries);
        print_bytes(&cli->out, (double)stat.bytes);
        text_print(&cli->out, " of ");
        print_bytes(&cli->out, (double)stat.limit);
        text_print(&cli->out, "\nquarantined  %" PRIu64 "\ntemporary    %" PRIu64 "\n", stat.quarantined,
                   stat.temporary);
    }
    return close_cache(cli, cache, status, &failure);
}

/* --- list and verify ---------------------------------------------------------------------------------------------- */

struct listing {
    struct cli *cli;
    struct json json;
    struct table table;
    bool only_damaged;
    int entries, damaged;
};

static int list_item(void *context, const struct cache_item *item) {
    struct listing *listing = context;
    char name[VARIANT_NAME], arch[32], refused[8], used[24];
    listing->entries++;
    listing->damaged += item->damage != NULL;
    if (listing->only_damaged && !item->damage)
        return cli_interrupted();
    meta_value(item, "name", name, sizeof name);
    meta_value(item, "arch", arch, sizeof arch);
    meta_value(item, "refused", refused, sizeof refused);
    bool is_refusal = *refused == '1';
    print_time(item->last_used, used);
    if (listing->cli->json) {
        json_open_object(&listing->json, NULL);
        json_put_string(&listing->json, "key", item->digest);
        json_put_string(&listing->json, "name", name);
        json_put_string(&listing->json, "arch", arch);
        json_put_bool(&listing->json, "refused", is_refusal);
        json_put_integer(&listing->json, "bytes", (int64_t)item->size);
        json_put_integer(&listing->json, "last_used", item->last_used);
        json_put_string(&listing->json, "damage", item->damage);
        json_end(&listing->json);
        return cli_interrupted();
    }
    struct text size = {0};
    struct table *table = &listing->table;
    print_bytes(&size, (double)item->size);
    table_row(table);
    table_cell(table, 0, CELL_PLAIN, "%.12s", item->digest);
    table_cell(table, 1, CELL_PLAIN, "%s", arch);
    table_cell(table, 2, CELL_PLAIN, "%s", text_string(&size));
    table_cell(table, 3, CELL_PLAIN, "%s", used);
    table_cell(table, 4, item->damage ? CELL_BAD : CELL_PLAIN, "%s%s", is_refusal ? "refused: " : "",
               item->damage ? item->damage : name);
    text_free(&size);
    return cli_interrupted();
}

static enum exit_code visit(struct cli *cli, struct listing *listing, int verify) {
    static const char *const headings[] = {"key", "arch", "size", "last used", "kernel"};
    struct cache *cache;
    struct failure failure = {0};
    enum exit_code code = open_cache(cli, &cache);
    if (code)
        return code;
    cli_catch_interrupt();
    table_open(&listing->table, 5, headings, "llrll");
    if (cli->json) {
        cli_json_open(cli, &listing->json);
        json_put_string(&listing->json, "folder", cache_dir(cache));
        json_open_array(&listing->json, "entries");
    }
    enum att_status status = cache_visit(cache, verify, list_item, listing, &failure);
    if (cli->json)
        json_close(&listing->json);
    else if (listing->table.rows > 1)
        table_print(&listing->table, cli->color_out, cli->width, &cli->out);
    table_free(&listing->table);
    code = close_cache(cli, cache, status, &failure);
    return code ? code : cli_interrupted() ? CLI_INTERRUPTED : CLI_OK;
}

enum exit_code verb_cache_list(struct cli *cli) {
    struct listing listing = {.cli = cli};
    enum exit_code code = visit(cli, &listing, 0);
    if (!code)
        cli_note(cli, "%d kernels", listing.entries);
    return code;
}

enum exit_code verb_cache_verify(struct cli *cli) {
    struct listing listing = {.cli = cli, .only_damaged = true};
    enum exit_code code = visit(cli, &listing, 1);
    if (code)
        return code;
    if (listing.damaged == 0)
        cli_note(cli, "%d kernels, all whole", listing.entries);
    else
        cli_note(cli, "%d of %d kernels are damaged; they are never used, and rebuilt when they are needed",
                 listing.damaged, listing.entries);
    return listing.damaged ? CLI_MISMATCH : CLI_OK;
}

/* --- trim and clear ----------------------------------------------------------------------------------------------- */

static enum exit_code trim(struct cli *cli, bool everything) {
    struct cache *cache;
    struct cache_stat stat = {0};
    struct failure failure = {0};
    uint64_t removed = 0;
    enum exit_code code = open_cache(cli, &cache);
    if (code)
        return code;
    bool dry = cli_given(cli, "dry-run"), quarantine = everything || cli_given(cli, "quarantine");
    enum att_status status = cache_stat(cache, &stat, &failure);
    uint64_t keep = everything ? 0 : (uint64_t)cli_number(cli, "bytes", (int64_t)stat.limit);
    if (status == ATT_OK)
        status = cache_trim(cache, keep, quarantine, dry, &removed, &failure);
    if (status == ATT_OK && cli->json) {
        struct json json;
        cli_json_open(cli, &json);
        json_put_bool(&json, "dry_run", dry);
        json_put_integer(&json, "removed", (int64_t)removed);
        json_close(&json);
    }
    if (status == ATT_OK)
        cli_note(cli, "%" PRIu64 " files %s from %s", removed, dry ? "would be removed" : "removed", cache_dir(cache));
    return close_cache(cli, cache, status, &failure);
}

enum exit_code verb_cache_trim(struct cli *cli) { return trim(cli, false); }

enum exit_code verb_cache_clear(struct cli *cli) {
    if (cli_given(cli, "bytes"))
        return cli_error(cli, CLI_USAGE, "cache clear removes all; to keep some, use cache trim --bytes");
    return trim(cli, true);
}
