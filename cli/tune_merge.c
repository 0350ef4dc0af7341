#include "tune_merge.h"
#include "journal.h"
#include "tune_report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Hashes of lines that are already there: merging twice changes nothing. Open addressing; 0 = free. */
struct seen {
    uint64_t *hash;
    size_t room, count;
};

struct merge {
    struct cli *cli;
    struct journal *journal; /* null: read only */
    struct results results;
    struct seen seen;
    struct text line, error;
    int added;
};

static uint64_t hash_line(const struct text *line) {
    uint64_t value = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < line->size; i++)
        value = (value ^ (unsigned char)line->bytes[i]) * 1099511628211u;
    return value ? value : 1;
}

static bool insert(struct seen *seen, uint64_t hash) {
    size_t at = hash % seen->room;
    while (seen->hash[at] && seen->hash[at] != hash)
        at = (at + 1) % seen->room;
    bool fresh = !seen->hash[at];
    seen->hash[at] = hash;
    seen->count += fresh;
    return fresh;
}

/* Remembers a line. False if it was there already. When memory runs out: true, and *failed. */
static bool remember(struct seen *seen, uint64_t hash, bool *failed) {
    if (2 * seen->count >= seen->room) {
        struct seen more = {.room = seen->room ? 2 * seen->room : 1024};
        more.hash = calloc(more.room, sizeof *more.hash);
        if (!more.hash) {
            *failed = true;
            return true;
        }
        for (size_t i = 0; i < seen->room; i++)
            if (seen->hash[i])
                insert(&more, seen->hash[i]);
        free(seen->hash);
        *seen = more;
    }
    return insert(seen, hash);
}

static void take(void *context, const struct record *record) {
    struct merge *merge = context;
    if (merge->results.failed || merge->error.size)
        return;
    text_free(&merge->line);
    record_print(record, &merge->line);
    if (merge->line.failed || !remember(&merge->seen, hash_line(&merge->line), &merge->results.failed))
        return;
    if (merge->journal && !journal_append_line(merge->journal, merge->line.bytes, merge->line.size, &merge->error))
        return;
    merge->added++;
    results_add(&merge->results, record);
}

/* Merges what --out already holds, but does not append it again. */
static void take_old(void *context, const struct record *record) {
    struct merge *merge = context;
    struct journal *journal = merge->journal;
    merge->journal = NULL;
    take(merge, record);
    merge->journal = journal;
    merge->added = 0;
}

static enum exit_code read_files(struct merge *merge) {
    const struct options *options = &merge->cli->options;
    for (int i = 0; i < options->arguments; i++) {
        int strange = 0;
        if (!journal_read_file(options->argument[i], take, merge, &strange, &merge->error) || merge->error.size)
            return cli_error(merge->cli, CLI_IO, "%s", text_string(&merge->error));
        if (strange)
            cli_note(merge->cli, "%s: %d line%s no whole record%s left out", options->argument[i], strange,
                     strange == 1 ? " is" : "s are", strange == 1 ? " and is" : "s and are");
    }
    if (merge->results.failed)
        return cli_error(merge->cli, CLI_INTERNAL, "out of memory");
    return CLI_OK;
}

/* Chooses the newest setting; a table needs one device. */
static enum exit_code choose_setting(const struct merge *merge, int *chosen) {
    const struct results *results = &merge->results;
    int others = 0;
    *chosen = -1;
    for (int i = 0; i < results->settings; i++)
        if (*chosen < 0 || results->setting[i].newest >= results->setting[*chosen].newest)
            *chosen = i;
    if (*chosen < 0)
        return cli_error(merge->cli, CLI_USAGE, "no file holds a record of attile tune");
    for (int i = 0; i < results->settings; i++) {
        const char *here = results->setting[i].device, *best = results->setting[*chosen].device;
        if (strcmp(here, best) != 0 && (cli_given(merge->cli, "table") || cli_given(merge->cli, "lock")))
            return cli_error(merge->cli, CLI_USAGE,
                             "the files hold results of %s and of %s; one table is for one device, so merge them apart",
                             best, here);
        others += i == *chosen ? 0 : results->setting[i].records;
    }
    if (others)
        cli_note(merge->cli, "%d records of other devices, drivers, compilers or versions are kept and not compared",
                 others);
    return CLI_OK;
}

static enum exit_code run(struct merge *merge, struct journal *journal) {
    struct cli *cli = merge->cli;
    struct diag diag = {0};
    int setting;
    if (cli_given(cli, "out")) {
        if (!journal_open(journal, cli_text(cli, "out", NULL), &merge->error) ||
            !journal_read((merge->journal = journal), take_old, merge, NULL, &merge->error))
            return cli_error(cli, CLI_IO, "%s", text_string(&merge->error));
    }
    enum exit_code code = read_files(merge);
    if (!code)
        code = choose_setting(merge, &setting);
    if (code)
        return code;
    cli_note(cli, "%d records of %d files", merge->added, cli->options.arguments);
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    code = set ? tune_report(cli, &merge->results, setting, set) : cli_report(cli, CLI_SPEC, text_string(&diag.text));
    template_set_close(set);
    diag_free(&diag);
    return code;
}

enum exit_code tune_merge(struct cli *cli) {
    struct merge merge = {.cli = cli, .results = {.warm = cli_number(cli, "l2", 0) == 1}};
    struct journal journal = {.file = -1};
    enum exit_code code = run(&merge, &journal);
    journal_close(&journal);
    results_free(&merge.results);
    free(merge.seen.hash);
    text_free(&merge.line);
    text_free(&merge.error);
    return code;
}
