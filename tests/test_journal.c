/* Results files: whole lines only, one tuner at a time, nothing lost. */
#include "file.h"
#include "helper_folder.h"
#include "journal.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(journal, .init = folder_enter, .fini = folder_leave);

static struct record numbered(int64_t pass) {
    struct record record;
    record_clear(&record);
    strcpy(record.device, "test");
    record.pass = pass;
    return record;
}

static void open_good(struct journal *journal, const char *path) {
    struct text error = {0};
    cr_assert(journal_open(journal, path, &error), "%s", text_string(&error));
}

static void append(struct journal *journal, int64_t pass) {
    struct text error = {0};
    struct record record = numbered(pass);
    cr_assert(journal_append(journal, &record, &error), "%s", text_string(&error));
}

static void refused(const char *path, const char *words) {
    struct journal journal;
    struct text error = {0};
    cr_assert_not(journal_open(&journal, path, &error));
    cr_expect(strstr(text_string(&error), words), "%s: %s", path, text_string(&error));
    text_free(&error);
}

static void write_file(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "w");
    cr_assert(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

struct seen {
    int count;
    bool in_order;
};

static void see(void *context, const struct record *record) {
    struct seen *seen = context;
    seen->in_order = (seen->count == 0 || seen->in_order) && record->pass == seen->count;
    seen->count++;
}

static struct seen read_all(const struct journal *journal, int *strange) {
    struct seen seen = {0};
    struct text error = {0};
    cr_assert(journal_read(journal, see, &seen, strange, &error), "%s", text_string(&error));
    return seen;
}

Test(journal, keeps_what_is_appended_over_many_openings) {
    struct journal journal;
    for (int i = 0; i < 300; i++) { /* more than one chunk of reading */
        open_good(&journal, "r.jsonl");
        append(&journal, i);
        journal_close(&journal);
    }
    open_good(&journal, "r.jsonl");
    int strange = -1;
    struct seen seen = read_all(&journal, &strange);
    cr_expect_eq(seen.count, 300);
    cr_expect(seen.in_order);
    cr_expect_eq(strange, 0);
    cr_expect_eq(journal.torn, 0);
    journal_close(&journal);
}

Test(journal, drops_a_torn_last_line_wherever_it_is_torn) {
    struct journal journal;
    struct text content = {0}, error = {0};
    open_good(&journal, "whole.jsonl");
    append(&journal, 0);
    append(&journal, 1);
    journal_close(&journal);
    cr_assert(file_load("whole.jsonl", 1 << 20, &content, &error));
    size_t first = (size_t)(strchr(content.bytes, '\n') + 1 - content.bytes);
    for (size_t size = 0; size <= content.size; size++) {
        write_file("torn.jsonl", content.bytes, size);
        open_good(&journal, "torn.jsonl");
        int whole = size == content.size ? 2 : size >= first ? 1 : 0;
        cr_expect_eq(read_all(&journal, NULL).count, whole);
        cr_expect_eq(journal.torn, (int64_t)(size - (whole == 2 ? content.size : whole ? first : 0)));
        append(&journal, whole); /* continues where it was */
        struct seen seen = read_all(&journal, NULL);
        cr_expect_eq(seen.count, whole + 1);
        cr_expect(seen.in_order);
        journal_close(&journal);
    }
    text_free(&content);
}

/* A line that another process is still writing is not strange; in a file that nobody writes, it is. */
Test(journal, a_line_that_is_not_whole_yet_is_not_strange) {
    struct journal journal;
    struct text error = {0};
    struct seen seen = {0};
    int strange = -1;
    open_good(&journal, "r.jsonl");
    append(&journal, 0);
    cr_assert_eq(write(journal.file, "{\"schema\"", 9), 9);
    cr_expect_eq(read_all(&journal, &strange).count, 1);
    cr_expect_eq(strange, 0);
    cr_assert(journal_read_file("r.jsonl", see, &seen, &strange, &error), "%s", text_string(&error));
    cr_expect_eq(seen.count, 1);
    cr_expect_eq(strange, 1);
    journal_close(&journal);
}

Test(journal, is_for_one_tuner_at_a_time) {
    struct journal journal;
    open_good(&journal, "r.jsonl");
    append(&journal, 0);
    pid_t child = fork();
    if (child == 0) {
        struct journal second;
        struct text error = {0};
        char number[32];
        snprintf(number, sizeof number, "process %ld", (long)getppid());
        bool opened = journal_open(&second, "r.jsonl", &error);
        _exit(opened ? 1 : strstr(text_string(&error), number) && strstr(text_string(&error), "--merge") ? 0 : 2);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(WEXITSTATUS(status), 0);
    append(&journal, 1); /* the other process's attempt took nothing from us */
    cr_expect_eq(read_all(&journal, NULL).count, 2);
    journal_close(&journal);
}

Test(journal, touches_no_file_that_is_not_its_own) {
    static const char *const texts[] = {"hello\n", "{}\n", "{\"schema\": \"other\"}\n", "no newline", "\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct text content = {0}, error = {0};
        write_file("theirs", texts[i], strlen(texts[i]));
        refused("theirs", "no results file");
        cr_assert(file_load("theirs", 1 << 20, &content, &error));
        cr_expect_str_eq(text_string(&content), texts[i]);
        text_free(&content);
    }
    refused("no/such/folder/r.jsonl", "cannot open");
    cr_assert_eq(mkdir("folder", 0700), 0);
    refused("folder", "cannot open");
}

Test(journal, counts_and_keeps_lines_that_are_no_records) {
    struct journal journal;
    struct text line = {0};
    struct record record = numbered(0);
    record_print(&record, &line);
    text_print(&line, "nonsense\n{\"schema\": \"attile.tune/9\"}\n");
    write_file("r.jsonl", line.bytes, line.size);
    open_good(&journal, "r.jsonl");
    append(&journal, 1);
    int strange = 0;
    struct seen seen = read_all(&journal, &strange);
    cr_expect_eq(seen.count, 2);
    cr_expect_eq(strange, 2);
    journal_close(&journal);
    text_free(&line);
}

Test(journal, ends_with_a_whole_line_when_the_disk_is_full) {
    struct journal journal;
    struct text error = {0};
    struct rlimit limit = {4096, 4096}; /* a write that crosses it is cut short, as on a full disk */
    struct record record = numbered(0);
    signal(SIGXFSZ, SIG_IGN);
    open_good(&journal, "r.jsonl");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int written = 0;
    for (; written < 100; written++) {
        record.pass = written;
        if (!journal_append(&journal, &record, &error))
            break;
    }
    cr_assert(written > 0 && written < 100);
    cr_expect(strstr(text_string(&error), "goes on from there"), "%s", text_string(&error));
    cr_expect_eq(read_all(&journal, NULL).count, written);
    journal_close(&journal);
    open_good(&journal, "r.jsonl");
    cr_expect_eq(journal.torn, 0);
    journal_close(&journal);
    text_free(&error);
}

Test(journal, takes_nothing_that_cannot_be_read_again) {
    static const char *const paths[] = {"/dev/full", "/dev/zero", "/dev/null"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct journal journal;
        struct text error = {0};
        cr_expect_not(journal_open(&journal, paths[i], &error), "%s", paths[i]);
        cr_expect(strstr(text_string(&error), "is no file that could be read again"), "%s", text_string(&error));
        text_free(&error);
    }
}

Test(journal, reads_a_file_that_another_one_is_writing) {
    struct journal journal;
    struct text error = {0};
    struct seen seen = {0};
    int strange;
    open_good(&journal, "r.jsonl");
    append(&journal, 0);
    cr_assert_eq(write(journal.file, "{\"schema\"", 9), 9);
    cr_assert(journal_read_file("r.jsonl", see, &seen, &strange, &error));
    cr_expect_eq(seen.count, 1);
    cr_expect_eq(strange, 1);
    cr_expect_not(journal_read_file("missing", see, &seen, &strange, &error));
    cr_expect(strstr(text_string(&error), "missing"));
    journal_close(&journal);
    text_free(&error);
}

/* Records of an earlier version are read by the names of knobs that it had, or not at all. */
Test(journal, says_what_knobs_and_words_of_earlier_versions_are_called_now) {
    static const struct {
        const char *schedule, *error;
    } cases[] = {
        {"block_m=64 blocks=per_tile", "t.jsonl:2: knob 'blocks' is called 'scheduler' now"},
        {"block_m=64 overlap=within", "t.jsonl:2: 'within' of knob overlap is called 'intra_warpgroup' now"},
        {"block_m=64 overlap=both blocked=within", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct journal journal;
        struct record record = numbered(1);
        struct text error = {0};
        struct seen seen = {0};
        unlink("t.jsonl");
        open_good(&journal, "t.jsonl");
        append(&journal, 0);
        snprintf(record.schedule, sizeof record.schedule, "%s", cases[i].schedule);
        cr_assert(journal_append(&journal, &record, &error));
        bool good = journal_read(&journal, see, &seen, NULL, &error);
        cr_expect_eq(good, !cases[i].error, "%s", text_string(&error));
        cr_expect(!cases[i].error || strstr(text_string(&error), cases[i].error), "%s", text_string(&error));
        cr_expect_eq(seen.count, cases[i].error ? 1 : 2);
        text_free(&error);
        journal_close(&journal);
    }
}
