/* journal: a results file: one record per line, append-only, one write() per line. Whatever ends a tuner leaves whole
   lines and at most one torn line, which the next journal_open drops. One tuner per file: opening locks it. */
#ifndef ATTILE_JOURNAL_H
#define ATTILE_JOURNAL_H

#include "record.h"

struct journal {
    const char *path; /* borrowed */
    int file;         /* -1 = closed */
    int64_t size;     /* bytes of whole lines */
    int64_t torn;     /* bytes of an unfinished line dropped when opening */
    double synced;    /* time of the last sync, on the monotonic clock */
};

/* Opens for appending, and creates a missing file. False with a sentence in *error: not a results file, locked by
   another process, no permission. */
bool journal_open(struct journal *journal, const char *path, struct text *error);

/* Calls `visit` for every record in order. Lines that are not records are counted in *strange (may be null) and
   kept. */
typedef void journal_visit(void *context, const struct record *record);
bool journal_read(const struct journal *journal, journal_visit *visit, void *context, int *strange, struct text *error);

/* Appends a record. After a failure (disk full) the file ends with the last whole line, and the same command can
   continue later. The record reaches the disk within a second or at journal_close. */
bool journal_append(struct journal *journal, const struct record *record, struct text *error);
bool journal_append_line(struct journal *journal, const char *line, size_t size, struct text *error); /* with newline */

void journal_close(struct journal *journal); /* also if it did not open */

/* Reads a file like journal_read, without locking or changing it; a torn last line counts as strange. */
bool journal_read_file(const char *path, journal_visit *visit, void *context, int *strange, struct text *error);

#endif
