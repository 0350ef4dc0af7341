#include "journal.h"
#include "clock.h"
#include "renamed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, LINE_MOST = 1 << 20 };

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct lines { /* splits a file into lines */
    int file;
    int64_t offset; /* of the next byte to read */
    struct text rest;
    int64_t whole; /* bytes up to and including the last newline */
};

typedef bool visit_line(void *context, const char *line, size_t size); /* false ends the reading */

/* False with errno set when reading fails; what follows the last newline stays in lines->rest. */
static bool each_line(struct lines *lines, visit_line *visit, void *context) {
    char *chunk = malloc(CHUNK);
    ssize_t got = chunk ? 1 : -1;
    bool go_on = true;
    while (go_on && got > 0) {
        got = pread(lines->file, chunk, CHUNK, lines->offset);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        const char *at = chunk, *end = chunk + (got > 0 ? got : 0);
        for (const char *newline; go_on && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
            const char *line = at;
            size_t size = (size_t)(newline - at);
            if (lines->rest.size > 0) {
                text_append(&lines->rest, at, size);
                line = text_string(&lines->rest);
                size = lines->rest.size;
            }
            go_on = visit(context, line, size);
            text_free(&lines->rest);
            lines->whole = lines->offset + (newline + 1 - chunk);
        }
        if (end > at && lines->rest.size < LINE_MOST)
            text_append(&lines->rest, at, (size_t)(end - at));
        lines->offset += got > 0 ? got : 0;
    }
    free(chunk);
    return got >= 0;
}

struct records {
    journal_visit *visit;
    void *context;
    int strange, line;
    struct text renamed; /* message for the first record that names knobs as an earlier version did */
};

static bool read_record(void *context, const char *line, size_t size) {
    struct records *records = context;
    struct record record;
    records->line++;
    if (!record_read(line, size, &record))
        records->strange++;
    else if (renamed_in_schedule(record.schedule, &records->renamed))
        return false;
    else
        records->visit(records->context, &record);
    return true;
}

static bool read_all(int file, const char *path, struct records *records, bool torn_is_strange, struct text *error) {
    struct lines lines = {.file = file};
    bool read = each_line(&lines, read_record, records);
    int why = errno;
    if (torn_is_strange && lines.rest.size > 0)
        records->strange++;
    text_free(&lines.rest);
    bool current = records->renamed.size == 0 || text_fail(error, "%s:%d: %s: write it so in every line of this file",
                                                           path, records->line, text_string(&records->renamed));
    text_free(&records->renamed);
    return current && (read || text_fail(error, "%s: cannot read it: %s", path, strerror(why)));
}

bool journal_read(const struct journal *journal, journal_visit *visit, void *context, int *strange,
                  struct text *error) {
    struct records records = {.visit = visit, .context = context};
    bool read = read_all(journal->file, journal->path, &records, false, error);
    if (strange)
        *strange = records.strange;
    return read;
}

bool journal_read_file(const char *path, journal_visit *visit, void *context, int *strange, struct text *error) {
    struct records records = {.visit = visit, .context = context};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return text_fail(error, "%s: cannot open it: %s", path, strerror(errno));
    bool read = read_all(file, path, &records, true, error);
    close(file);
    if (strange)
        *strange = records.strange;
    return read;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* Record locks belong to the process: forked workers do not hold them, and the lock names the process that holds it. */
static bool lock(int file, const char *path, struct text *error) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_SETLK, &whole) == 0)
        return true;
    int why = errno;
    if (why != EACCES && why != EAGAIN)
        return text_fail(error, "%s: cannot lock it: %s", path, strerror(why));
    text_fail(error, "%s: another tuner is writing it", path);
    if (fcntl(file, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK)
        text_fail(error, " (process %ld)", (long)whole.l_pid);
    return text_fail(error, "; wait for it, or name another file and join them later with --merge");
}

static bool first_line(void *context, const char *line, size_t size) {
    struct record record;
    *(bool *)context = record_read(line, size, &record);
    return false;
}

static bool ignore_line(void *context, const char *line, size_t size) {
    (void)context;
    (void)line;
    (void)size;
    return true;
}

/* True if the file is empty or begins like ours, which includes one of ours whose first line is torn. */
static bool ours(int file) {
    static const char begin[] = "{\"schema\": \"" RECORD_SCHEMA "\"";
    struct lines lines = {.file = file};
    bool good = false;
    bool read = each_line(&lines, first_line, &good);
    if (read && lines.whole == 0) {
        size_t size = lines.rest.size < sizeof begin - 1 ? lines.rest.size : sizeof begin - 1;
        good = memcmp(text_string(&lines.rest), begin, size) == 0;
    }
    text_free(&lines.rest);
    return read && good;
}

static bool drop_torn(struct journal *journal, struct text *error) {
    struct lines lines = {.file = journal->file};
    bool read = each_line(&lines, ignore_line, NULL);
    text_free(&lines.rest);
    if (!read)
        return text_fail(error, "%s: cannot read it: %s", journal->path, strerror(errno));
    journal->size = lines.whole;
    journal->torn = lines.offset - lines.whole;
    if (journal->torn > 0 && ftruncate(journal->file, lines.whole) != 0)
        return text_fail(error, "%s: cannot drop its unfinished last line: %s", journal->path, strerror(errno));
    return true;
}

/* A device or a pipe cannot be read twice, or never ends. */
static bool is_file(int file) {
    struct stat status;
    return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

bool journal_open(struct journal *journal, const char *path, struct text *error) {
    *journal = (struct journal){.path = path, .file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)};
    if (journal->file < 0)
        return text_fail(error, "%s: cannot open it: %s", path, strerror(errno));
    bool good =
        is_file(journal->file) || text_fail(error, "%s: is no file that could be read again; name a file", path);
    good = good && lock(journal->file, path, error);
    if (good && !ours(journal->file))
        good =
            text_fail(error, "%s: is no results file of attile tune, so nothing is appended; name another file", path);
    good = good && drop_torn(journal, error);
    if (!good)
        journal_close(journal);
    return good;
}

void journal_close(struct journal *journal) {
    if (journal->file >= 0) {
        fdatasync(journal->file);
        close(journal->file);
    }
    journal->file = -1;
}

/* --- appending ---------------------------------------------------------------------------------------------------- */

bool journal_append_line(struct journal *journal, const char *line, size_t size, struct text *error) {
    ssize_t put;
    do
        put = write(journal->file, line, size);
    while (put < 0 && errno == EINTR);
    if (put != (ssize_t)size) {
        int why = put < 0 ? errno : ENOSPC;
        if (put > 0 && ftruncate(journal->file, journal->size) != 0)
            text_fail(error, "%s: cannot drop a half-written line: %s; ", journal->path, strerror(errno));
        return text_fail(error, "%s: cannot append: %s; all before is kept: the same command goes on from there",
                         journal->path, strerror(why));
    }
    journal->size += put;
    if (clock_seconds() - journal->synced > 1) {
        fdatasync(journal->file);
        journal->synced = clock_seconds();
    }
    return true;
}

bool journal_append(struct journal *journal, const struct record *record, struct text *error) {
    struct text line = {0};
    record_print(record, &line);
    bool good =
        line.failed ? text_fail(error, "out of memory") : journal_append_line(journal, line.bytes, line.size, error);
    text_free(&line);
    return good;
}
