/* attile tune as a user sees it: on the host device, with kernels that are really compiled, checked and timed.
   test_tuner.c covers what the loop does when kernels fail and tuners are killed. */
#include "file.h"
#include "helper_command.h"
#include "journal.h"
#include "shard.h"
#include "duration.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ATTILE  BUILD_DIR "/cli/attile"
#define PROBLEM "'family=attention_forward dtype=fp32 head_dim=8 algorithm=flash' --variant 'threads=64'"
#define SHORT   "--shapes 'heads=2,len_q=9,len_kv=9; heads=1,len_q=5,len_kv=17' --device host --budget 1s"

static void enter(void) {
    folder_enter();
    setenv("ATTILE_CACHE_DIR", BUILD_DIR "/tests/tune-cache", 1); /* one for all tests: a kernel is compiled once */
    unsetenv("SLURM_ARRAY_TASK_ID");
}

TestSuite(tune, .init = enter, .fini = folder_leave, .timeout = 120);

static struct text load(const char *path) {
    struct text content = {0}, error = {0};
    cr_assert(file_load(path, 1 << 26, &content, &error), "%s", text_string(&error));
    return content;
}

static struct outcome run(const char *arguments) {
    struct text all = {0};
    text_print(&all, "tune %s", arguments);
    struct outcome outcome = command_run("", text_string(&all));
    text_free(&all);
    return outcome;
}

static void expect(const char *arguments, int code, const char *words) {
    struct outcome outcome = run(arguments);
    cr_expect_eq(outcome.code, code, "%s: %d, expected %d: %s", arguments, outcome.code, code,
                 text_string(&outcome.err));
    cr_expect(!words || strstr(text_string(&outcome.err), words), "%s: expected '%s' in: %s", arguments, words,
              text_string(&outcome.err));
    command_done(&outcome);
}

/* The first run compiles its kernel, which takes longer than the budget on a busy machine. Then this continues with a
   larger budget, of which faster runs use little. */
static void expect_done(const char *arguments, const char *words) {
    for (int i = 0; i < 10; i++) {
        struct text all = {0};
        text_print(&all, "%s", arguments);
        if (i > 0)
            text_print(&all, " --budget %ds", 1 << i);
        struct outcome outcome = run(text_string(&all));
        bool short_of_time = outcome.code == 2 && strstr(text_string(&outcome.err), "goes on from here");
        command_done(&outcome);
        text_free(&all);
        if (!short_of_time)
            break;
    }
    expect(arguments, 0, words);
}

static int occurrences(const char *path, const char *words) {
    struct text content = load(path);
    int count = 0;
    for (const char *at = text_string(&content); (at = strstr(at, words)); at += strlen(words))
        count++;
    text_free(&content);
    return count;
}

static void nap(double seconds) { nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * seconds)}, NULL); }

/* --- tuning ------------------------------------------------------------------------------------------------------- */

Test(tune, writes_results_and_a_table_that_validates) {
    expect_done(PROBLEM " " SHORT " -o r.jsonl -t t.yaml", "2 rows put in");
    cr_expect_eq(occurrences("t.yaml", "- shape:"), 2);
    cr_expect_eq(occurrences("t.yaml", "threads: 64"), 2);
    cr_expect_geq(occurrences("r.jsonl", "\"status\": \"ok\""), 2);
    cr_expect_eq(occurrences("r.jsonl", "\n"), occurrences("r.jsonl", "{\"schema\": \"attile.tune/1\""));
    expect_done(PROBLEM " " SHORT " -o v.jsonl --validate t.yaml", "geometric mean of 2");
    setenv("ATTILE_TUNED", "t.yaml", 1); /* and the library reads it */
    cr_expect_eq(system(ATTILE " explain 'family=attention_forward dtype=fp32 head_dim=8' >.out 2>.err"), 0);
}

Test(tune, writes_a_lock_file_that_programs_follow) {
    expect_done(PROBLEM " " SHORT " -o r.jsonl --lock l.yaml", "2 rows put in");
    cr_expect_eq(occurrences("l.yaml", "lock: "), 1);
    cr_expect_eq(occurrences("l.yaml", "algorithm: flash, "), 2);
    expect("--merge r.jsonl --lock l.yaml", 0, "2 in all");
    expect("--merge r.jsonl --table l.yaml", 2, "--table: l.yaml is a lock file; name another file");
    expect("--merge r.jsonl --table t.yaml", 0, "2 rows put in");
    expect("--merge r.jsonl --lock t.yaml", 2, "--lock: t.yaml is a tuned table; name another file");
    cr_expect_eq(occurrences("t.yaml", "lock: "), 0);
    setenv("ATTILE_TUNED", "l.yaml", 1);
    cr_expect_eq(system(ATTILE " explain --device host 'family=attention_forward dtype=fp32 head_dim=8' >.out 2>.err"),
                 0);
    cr_expect_eq(occurrences(".out", "  lock: as l.yaml:"), 1);
    cr_assert_eq(system("sed -i 's/^lock: .*/lock: 0.0.1/' l.yaml"), 0);
    cr_expect_neq(system(ATTILE " explain --device host family=softmax >.out 2>.err"), 0);
    cr_expect_eq(occurrences(".err", "this lock file is for attile 0.0.1"), 1);
}

/* The whole way of a family whose large results no row tells: table, choice, lock file, going on, what is wrong. */
Test(tune, measures_the_backward_pass) {
#define BACKWARD "'family=attention_backward dtype=fp32 head_dim=8 algorithm=materialized' -n 1"
    expect_done(BACKWARD " " SHORT " -o b.jsonl -t b.yaml", "rows put in");
    cr_expect_eq(occurrences("b.yaml", "family: attention_backward"), 1);
    cr_expect_eq(occurrences("b.yaml", "- shape:"), 2);
    int lines = occurrences("b.jsonl", "\n");
    expect(BACKWARD " " SHORT " -o b.jsonl --lock b.lock", 0, "0 failures");
    cr_expect_geq(occurrences("b.jsonl", "\n"), lines);
    setenv("ATTILE_TUNED", "b.yaml", 1);
    cr_expect_eq(system(ATTILE " explain --device host 'family=attention_backward dtype=fp32 head_dim=8' >.out 2>.err"),
                 0);
    cr_expect_geq(occurrences(".out", "b.yaml:"), 1);
    setenv("ATTILE_TUNED", "b.lock", 1);
    cr_expect_eq(system(ATTILE " explain --device host 'family=attention_backward dtype=fp32 head_dim=8' >.out 2>.err"),
                 0);
    cr_expect_eq(occurrences(".out", "  lock: as b.lock:"), 1);
}

Test(tune, measures_sequences_pages_and_8_bits) {
    static const char *const problems[] = {
        "'family=attention_forward dtype=fp32 head_dim=8 layout=padded page_size=16 algorithm=flash threads=64'",
        "'family=attention_forward dtype=fp32 head_dim=8 layout=ragged algorithm=flash threads=64'",
        "'family=attention_forward dtype=bf16 head_dim=32 dtype_kv=e4m3 algorithm=decode target=sm_80 block_m=8'"};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        struct text all = {0};
        text_print(&all,
                   "%s -n 1 --shapes 'batch=2,heads=2,kv_heads=1,len_q=4,len_kv=40' --device host --budget 2s "
                   "-o s%zu.jsonl -t s.yaml",
                   problems[i], i);
        expect_done(text_string(&all), "row put in");
        text_free(&all);
    }
    cr_expect_eq(occurrences("s.yaml", "- shape:"), 3);
}

Test(tune, reports_as_json) {
    expect_done(PROBLEM " " SHORT " --json", NULL);
    struct outcome outcome = run(PROBLEM " " SHORT " --json");
    cr_expect_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect(strstr(text_string(&outcome.out), "\"schema\": \"attile.tune/1\""));
    cr_expect(strstr(text_string(&outcome.out), "\"schedule\": \"algorithm=flash threads=64\""), "%s",
              text_string(&outcome.out));
    command_done(&outcome);
}

Test(tune, shards_and_merged_files_make_the_whole) {
    expect_done(PROBLEM " " SHORT " -o whole.jsonl -t whole.yaml", NULL);
    expect_done(PROBLEM " " SHORT " -o a.jsonl --shard 0/3", NULL);
    setenv("SLURM_ARRAY_TASK_ID", "6", 1);
    setenv("SLURM_ARRAY_TASK_MIN", "5", 1);
    setenv("SLURM_ARRAY_TASK_COUNT", "3", 1);
    expect_done(PROBLEM " " SHORT " -o b.jsonl --shard auto", NULL);
    expect(PROBLEM " " SHORT " -o c.jsonl --shard 2/3", 0, "nothing to do");
    cr_expect_eq(access("c.jsonl", F_OK), -1);
    cr_expect_eq(occurrences("a.jsonl", "len_q=5"), 0);
    cr_expect_eq(occurrences("b.jsonl", "len_q=9"), 0);
    expect("--merge a.jsonl b.jsonl -o all.jsonl -t all.yaml", 0, "2 rows put in");
    int lines = occurrences("all.jsonl", "\n");
    cr_expect_eq(lines, occurrences("a.jsonl", "\n") + occurrences("b.jsonl", "\n"));
    expect("--merge a.jsonl b.jsonl -o all.jsonl", 0, "0 records");
    cr_expect_eq(occurrences("all.jsonl", "\n"), lines, "merging twice adds nothing");
    cr_expect_eq(occurrences("all.yaml", "threads: 64"), occurrences("whole.yaml", "threads: 64"));
}

Test(tune, keeps_what_is_done_when_it_is_interrupted) {
    pid_t child = fork();
    if (child == 0) {
        cr_assert(freopen(".err", "w", stderr) && freopen(".out", "w", stdout));
        execl(ATTILE, ATTILE, "tune", "family=attention_forward dtype=fp32 head_dim=8 algorithm=flash", "--variant",
              "threads=64", "--shapes", "len_q=9,len_kv=9", "--device", "host", "--budget", "1h", "-o", "r.jsonl",
              NULL);
        _exit(99);
    }
    for (int i = 0; i < 3000 && (access("r.jsonl", F_OK) != 0 || occurrences("r.jsonl", "\n") == 0); i++)
        nap(0.02);
    kill(child, SIGINT);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), 130);
    struct text error = load(".err");
    cr_expect(strstr(text_string(&error), "goes on from here"), "%s", text_string(&error));
    cr_expect_geq(occurrences("r.jsonl", "\n"), 1);
    text_free(&error);
}

/* --- bad input ---------------------------------------------------------------------------------------------------- */

Test(tune, says_what_is_wrong) {
    static const struct {
        const char *arguments;
        int code;
        const char *words;
    } cases[] = {
        {PROBLEM " --device host --shapes 'len_q=9'", 2, "len_kv is missing"},
        {PROBLEM " --device host --shapes 'len_q=0,len_kv=9'", 2, "at least 1"},
        {PROBLEM " --device host --shapes 'heads=3,kv_heads=2,len_q=9,len_kv=9'", 2, "must divide"},
        {PROBLEM " --device host --budget soon", 2, "--budget expects a time"},
        {PROBLEM " --device host --timeout 0s", 2, "--timeout expects a time"},
        {PROBLEM " --device host --candidates 0", 2, "at least 1"},
        {PROBLEM " --device host --shard 4/4", 2, "found '4/4'"},
        {PROBLEM " --device host --shard auto", 2, "finds no scheduler"},
        {PROBLEM " --device host --shapes 'len_q=9,len_kv=9' -o no/folder/r.jsonl", 7, "cannot open"},
        {PROBLEM " --device host --shapes 'len_q=9,len_kv=9' -t theirs.yaml", 2, "one table is for one device"},
        {PROBLEM " --device host --shapes 'len_q=9,len_kv=9' -t broken.yaml", 3, "broken.yaml:1"},
        {PROBLEM " --device host --shapes 'len_q=9,len_kv=9' --validate missing.yaml", 7, "missing.yaml"},
        {PROBLEM " --device host --shapes 'len_q=9,len_kv=9' -o broken.yaml", 7, "no results file"},
        {PROBLEM " " SHORT " --budget 0.001s -o short.jsonl", 2, "larger --budget goes on"},
        {"'family=softmax' --device host", 2, "attention_forward"},
        {"'family=attention_forward head_dim=600' --device host", 3, "head_dim"},
        {"'family=attention_forward algorithm=flash' --variant threads=63 --shapes 'len_q=9,len_kv=9' --device host", 2,
         NULL},
        {"'family=attention_forward algorithm=flash_tiled block_m=256 block_n=256 thread_m=1 thread_n=1' "
         "--shapes 'len_q=9,len_kv=9' --device host",
         3, "what ruled them out"},
        {"missing.yaml --device host", 7, "missing.yaml"},
        {"one.yaml two.yaml", 2, "one SPEC"},
        {"--merge missing.jsonl", 7, "missing.jsonl"},
        {"--merge broken.yaml", 2, "no file holds a record"},
    };
    struct text error = {0};
    static const char theirs[] = "device: Another GPU\nbest: []\n", broken[] = "hello\n";
    cr_assert(file_save("theirs.yaml", theirs, strlen(theirs), NULL, &error));
    cr_assert(file_save("broken.yaml", broken, strlen(broken), NULL, &error));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].arguments, cases[i].code, cases[i].words);
}

Test(tune, fails_where_no_kernel_is_right) {
    static const char refuses[] = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'compiler 1' || exit 1\n";
    struct text error = {0};
    cr_assert(file_save("refuses", refuses, strlen(refuses), NULL, &error));
    cr_assert_eq(system("chmod +x refuses"), 0);
    struct outcome outcome =
        command_run("CXX=$PWD/refuses ATTILE_CACHE_DIR=$PWD/cache", "tune " PROBLEM " " SHORT " -o r.jsonl -t t.yaml");
    cr_expect_eq(outcome.code, 1, "%d: %s", outcome.code, text_string(&outcome.err));
    cr_expect(strstr(text_string(&outcome.out), "no kernel was right"), "%s", text_string(&outcome.out));
    cr_expect_eq(occurrences("t.yaml", "- shape:"), 0, "the table is written all the same, without rows");
    command_done(&outcome);
}

Test(tune, says_so_when_there_is_no_gpu) {
    setenv("LD_LIBRARY_PATH", "", 1);
    struct outcome outcome = run(PROBLEM " --shapes 'len_q=9,len_kv=9' --device cuda --budget 1s");
    if (outcome.code != 0) { /* where there is one, it is used */
        cr_expect_eq(outcome.code, 5, "%d: %s", outcome.code, text_string(&outcome.err));
        cr_expect(strstr(text_string(&outcome.err), "--device host"), "%s", text_string(&outcome.err));
    }
    command_done(&outcome);
}

Test(tune, refuses_a_results_file_that_another_tuner_writes) {
    struct journal journal;
    struct text error = {0};
    cr_assert(journal_open(&journal, "r.jsonl", &error), "%s", text_string(&error));
    expect(PROBLEM " " SHORT " -o r.jsonl", 7, "another tuner");
    journal_close(&journal);
}

Test(tune, shards_partition_the_work_exactly) {
    for (int count = 1; count < 40; count++)
        for (int piece = 0; piece < 100; piece++) {
            int owners = 0;
            for (int i = 0; i < count; i++)
                owners += shard_has((struct shard){i, count}, piece);
            cr_assert_eq(owners, 1);
        }
}

Test(tune, reads_durations_and_shards) {
    static const struct {
        const char *text;
        double seconds; /* 0 = refused */
    } durations[] = {{"90", 90}, {"90s", 90}, {"1.5m", 90}, {"2h", 7200}, {"", 0},     {"s", 0},   {"0", 0},
                     {"-1", 0},  {"1e3", 0},  {"inf", 0},   {"1 s", 0},   {"10sm", 0}, {".5s", 0}, {"9999999h", 0}};
    static const char *const shards[] = {"", "1", "1/", "/2", "2/2", "-1/2", "0/0", "a/b", "0/2x", "1/99999999999999"};
    double seconds;
    struct shard shard;
    struct text error = {0};
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        bool read = duration_read(durations[i].text, &seconds);
        cr_expect_eq(read, durations[i].seconds > 0, "'%s'", durations[i].text);
        if (read)
            cr_expect_float_eq(seconds, durations[i].seconds, 1e-9);
    }
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
        cr_expect_not(shard_read(shards[i], &shard, &error), "'%s'", shards[i]);
    cr_expect(shard_read("3/8", &shard, &error) && shard.index == 3 && shard.count == 8);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    cr_expect(shard_read("auto", &shard, &error) && shard.index == 1 && shard.count == 4);
    setenv("OMPI_COMM_WORLD_RANK", "4", 1);
    cr_expect_not(shard_read("auto", &shard, &error));
    text_free(&error);
}
