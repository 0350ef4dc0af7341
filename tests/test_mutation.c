/* Whatever holds the Hopper kernel's threads and units together, it is seen when it is missing: every wait, arrival,
   fence, commit, count and parity of the template is taken away or changed, one at a time, and the host device has to
   refuse the kernel, find a race, or compute something wrong. */
#include "text.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef ATTILE_RACE
#define ATTILE      "" /* one program cannot have two sanitizers */
#define ATTILE_RACE ""
#endif

#define TEMPLATE "attention_flash_async.cu"
#define PROBLEM  "family=attention_forward algorithm=flash_async target=sm_90a dtype=bf16 mask=causal block_m=128"
#define SHAPE    "batch=1,heads=1,len_q=130,len_kv=330"

/* Together they use every line, and the second skips more tiles than it has stages. */
static const char *const variants[] = {"head_dim=64 overlap=both block_n=64", "head_dim=72 overlap=off block_n=16"};

/* Where `text` stands, `instead` takes its place; null = the call that starts there goes. */
static const struct mutation {
    const char *text, *instead;
} mutations[] = {
    {"barrier_init(", NULL},
    {"barrier_init_fence(", NULL},
    {"barrier_arrive(", NULL},
    {"barrier_expect(", NULL},
    {"barrier_wait(", NULL},
    {"release(&", NULL},
    {"__syncthreads(", NULL},
    {"named_barrier_sync(", NULL},
    {"named_barrier_arrive(", NULL},
    {"registers_release<", NULL},
    {"fence_async(", NULL},
    {"tma_store_commit(", NULL},
    {"tma_store_wait_read(", NULL},
    {"wgmma_fence(", NULL},
    {"wgmma_commit(", NULL},
    {"wgmma_wait<", NULL},
    {"wgmma_wait<0>", "wgmma_wait<1>"},
    {"wgmma_wait<1>", "wgmma_wait<2>"},
    {"parity() ^ 1", "parity()"},
    {"parity())", "parity() ^ 1)"},
    {"K_BYTES)", "K_BYTES / 2)"},
    {"V_BYTES)", "2 * V_BYTES)"},
    {"CONSUMERS)", "CONSUMERS + 1)"},
    {"CONSUMERS)", "1)"},
};
enum { MUTATIONS = sizeof mutations / sizeof *mutations, SEEDS_FAST = 4, SEEDS_RACE = 3, LINES = 1000, SHARDS = 4 };

/* What the hardware does not need, and why it is there all the same. */
static bool may_be_left_out(const struct mutation *mutation, const char *line, const char *before) {
    bool second_fence = strstr(line, "wgmma_fence();") && strstr(before, "v_full");
    bool q_was_read = strstr(line, "named_barrier_sync(") && strstr(line, "read Q");
    return !mutation->instead && (second_fence    /* the compiler inserts it otherwise, and says so */
                                  || q_was_read); /* products end for all four warps at once; not documented */
}

struct lines {
    char text[LINES][256];
    int count;
};

static void read_template(struct lines *lines) {
    FILE *file = fopen(SOURCE_DIR "/templates/" TEMPLATE, "r");
    cr_assert(file);
    while (lines->count < LINES && fgets(lines->text[lines->count], sizeof *lines->text, file))
        lines->count++;
    cr_assert(feof(file), "longer than %d lines", LINES);
    fclose(file);
}

/* Write the template with line `at` replaced. */
static void write_template(const char *folder, const struct lines *lines, int at, const char *replacement) {
    char path[512];
    snprintf(path, sizeof path, "%s/" TEMPLATE, folder);
    FILE *file = fopen(path, "w");
    cr_assert(file, "%s", path);
    for (int i = 0; i < lines->count; i++)
        fputs(i == at ? replacement : lines->text[i], file);
    cr_assert_eq(fclose(file), 0);
}

/* False when the line has no such text, or only defines the function. */
static bool mutate(const char *line, const struct mutation *mutation, char *mutant, size_t size) {
    const char *at = strstr(line, mutation->text);
    bool within_word = at && at > line && (at[-1] == '_' || (at[-1] >= 'a' && at[-1] <= 'z'));
    if (!at || within_word || strstr(line, "__device__") || strncmp(line, "//", 2) == 0)
        return false;
    const char *rest = mutation->instead ? at + strlen(mutation->text) : strchr(at, ';');
    cr_assert(rest, "a call over two lines: %s", line);
    snprintf(mutant, size, "%.*s%s%s", (int)(at - line), line, mutation->instead ? mutation->instead : "", rest);
    return true;
}

static int run(const char *command, struct text *output) {
    char line[512];
    *output = (struct text){0};
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        text_print(output, "%s", line);
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool emitted(const char *folder, const char *variant, struct text *source) {
    char command[1024];
    snprintf(command, sizeof command, "%s show '" PROBLEM " %s' --templates %s 2>&1", ATTILE, variant, folder);
    return run(command, source) == 0;
}

/* 0 = right and without complaint, 1 = wrong, 5 = refused; all else means that the test itself is broken. */
static int run_kernel(const char *folder, const char *variant, bool race, int seed, struct text *output) {
    char command[1024];
    snprintf(command, sizeof command,
             "TSAN_OPTIONS=exitcode=0 timeout 100 %s run '" PROBLEM " %s' --templates %s --shape " SHAPE
             " --device host --host-mode %s --host-seed %d --no-nvrtc --cache-dir %s/cache 2>&1",
             race ? ATTILE_RACE : ATTILE, variant, folder, race ? "race" : "fast", seed, folder);
    return run(command, output);
}

static bool is_noticed(const char *folder, const char *variant, const char *name) {
    for (int i = 0; i < SEEDS_FAST + SEEDS_RACE; i++) {
        struct text output;
        bool race = i >= SEEDS_FAST;
        int status = run_kernel(folder, variant, race, race ? i - SEEDS_FAST : i, &output);
        cr_expect(status == 0 || status == 1 || status == 5, "%s: exit status %d: %s", name, status,
                  text_string(&output));
        text_free(&output);
        if (status != 0)
            return true;
    }
    return false;
}

static void check_intact(const char *folder, const char *variant) {
    for (int i = 0; i < SEEDS_FAST + SEEDS_RACE; i++) {
        struct text output;
        bool race = i >= SEEDS_FAST;
        int seed = race ? i - SEEDS_FAST : i;
        cr_expect_eq(run_kernel(folder, variant, race, seed, &output), 0, "%s, seed %d: %s", variant, seed,
                     text_string(&output));
        text_free(&output);
    }
}

/* Every shard takes its share of the lines. Returns how many mutants there were. */
static int check_mutants(const char *folder, const struct lines *lines, int shard) {
    static bool done[LINES][MUTATIONS];
    char mutant[512], name[640];
    int mutants = 0;
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        struct text intact, source;
        write_template(folder, lines, -1, "");
        cr_assert(emitted(folder, variants[v], &intact), "%s", text_string(&intact));
        for (int at = shard; at < lines->count; at += SHARDS)
            for (int m = 0; m < MUTATIONS; m++) {
                const char *line = lines->text[at];
                if (done[at][m] || !mutate(line, &mutations[m], mutant, sizeof mutant) ||
                    may_be_left_out(&mutations[m], line, at ? lines->text[at - 1] : ""))
                    continue;
                write_template(folder, lines, at, mutant);
                cr_assert(emitted(folder, variants[v], &source), "%s", text_string(&source));
                if (strcmp(text_string(&source), text_string(&intact)) != 0) {
                    done[at][m] = true;
                    mutants++;
                    snprintf(name, sizeof name, "%s, line %d: %s", variants[v], at + 1, mutant);
                    cr_expect(is_noticed(folder, variants[v], name), "not noticed: %s", name);
                }
                text_free(&source);
            }
        text_free(&intact);
    }
    return mutants;
}

ParameterizedTestParameters(mutation, nothing_can_be_left_out) {
    static int shard[SHARDS] = {0, 1, 2, 3};
    return cr_make_param_array(int, shard, SHARDS);
}
ParameterizedTest(int *shard, mutation, nothing_can_be_left_out) {
    if (!ATTILE_RACE[0])
        cr_skip_test("one program cannot have two sanitizers");
    static struct lines lines;
    char folder[] = "/tmp/attile-mutation-XXXXXX", command[512];
    cr_assert(mkdtemp(folder));
    snprintf(command, sizeof command, "cp -r %s/templates/. %s", SOURCE_DIR, folder);
    cr_assert_eq(system(command), 0);
    read_template(&lines);
    write_template(folder, &lines, -1, "");
    if (*shard < (int)(sizeof variants / sizeof *variants))
        check_intact(folder, variants[*shard]);
    cr_expect_gt(check_mutants(folder, &lines, *shard), 5);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
