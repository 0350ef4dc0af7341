/* A kernel with one barrier too few must be reported, with both lines; an intact one must not. In the templates, no
   barrier is redundant: without any one of them some kernel has a race. */
#include "helper_part.h"
#include "text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef RACE_PROBE
#define RACE_PROBE  "" /* this build has another sanitizer */
#define ATTILE_RACE ""
#endif

#define KERNEL                                                                                                         \
    "struct Params { const float *x; float *y; };\n"                                                                   \
    "extern \"C\" __global__ void kernel(const Params p) {\n"                                                          \
    "float *tile = dynamic_shared<float>(); int t = threadIdx.x, b = blockIdx.x, n = blockDim.x;\n"

/* Each thread hands a number to its neighbour, four times. */
static const char exchange[] = KERNEL "float sum = 0;\n"
                                      "for (int round = 0; round < 4; round++) {\n"
                                      "    tile[t] = p.x[round * n + t];\n" /* line 6 */
                                      "    __syncthreads();\n"
                                      "    sum += tile[(t + 1) % n];\n" /* line 8 */
                                      "    __syncthreads();\n"
                                      "}\n"
                                      "p.y[b * n + t] = sum;\n"
                                      "}\n";

/* The same within a warp. */
static const char exchange_warp[] = KERNEL "float sum = 0;\n"
                                           "for (int round = 0; round < 4; round++) {\n"
                                           "    tile[t] = __shfl_xor_sync(0xffffffffu, p.x[t], 1);\n"
                                           "    __syncwarp();\n"
                                           "    sum += tile[t ^ 1];\n"
                                           "    __syncwarp();\n"
                                           "}\n"
                                           "p.y[b * n + t] = sum;\n"
                                           "}\n";

/* The second block of a cluster hands a number to the first. */
static const char hand_over[] = KERNEL "cluster_arrive(); cluster_wait();\n"
                                       "if (b % 2 == 1) p.y[b / 2 * 32 + t] = 1;\n" /* line 5 */
                                       "cluster_arrive(); cluster_wait();\n"
                                       "if (b % 2 == 0) p.y[b / 2 * 32 + t] += 1;\n" /* line 7 */
                                       "}\n";

/* The same through a barrier of the first block: an arrival from another block does not publish stores. */
static const char hand_over_barrier[] =
    KERNEL "unsigned long long *gate = dynamic_shared<unsigned long long>() + 100; int rank = cluster_rank();\n"
           "if (t == 0) { barrier_init(gate, 32); barrier_init_fence(); }\n"
           "cluster_arrive(); cluster_wait();\n"
           "if (rank == 1) p.y[b / 2 * 32 + t] = 1;\n" /* line 7 */
           "if (rank == 1) barrier_arrive_at(gate, 0);\n"
           "if (rank == 0) barrier_wait(gate, 0);\n"
           "if (rank == 0) p.y[b / 2 * 32 + t] += 1;\n" /* line 10 */
           "cluster_arrive(); cluster_wait();\n"
           "}\n";

/* The second block arrives where nobody waits. */
static const char reach[] =
    KERNEL "unsigned long long *gate = dynamic_shared<unsigned long long>() + 100; int rank = cluster_rank();\n"
           "if (t == 0) { barrier_init(gate, 1); barrier_init_fence(); }\n"
           "cluster_arrive(); cluster_wait();\n"
           "if (rank == 1 && t == 0) barrier_arrive_at(gate, 0);\n" /* line 7 */
           "cluster_arrive(); cluster_wait();\n"
           "}\n";

struct race_case {
    const char *name, *source, *removed; /* what to remove from the source; null = nothing */
    int which, grid, block;              /* remove the which-th; launch this many blocks and threads */
    const char *words[4];                /* in the report; none = no race */
};

static const struct race_case cases[] = {
    {"intact", exchange, NULL, 0, 3, 128, {0}},
    {"read before it is written",
     exchange,
     "__syncthreads();",
     0,
     1,
     128,
     {"race", "writes 4 bytes, line 6", "reads 4 bytes, line 8"}},
    {"written before it is read",
     exchange,
     "__syncthreads();",
     1,
     1,
     128,
     {"race", "writes 4 bytes, line 6", "reads 4 bytes, line 8"}},
    {"intact warp", exchange_warp, NULL, 0, 2, 32, {0}},
    {"warp, read before it is written", exchange_warp, "__syncwarp();", 0, 1, 32, {"race", "line 6", "line 8"}},
    {"warp, written before it is read", exchange_warp, "__syncwarp();", 1, 1, 32, {"race", "line 6", "line 8"}},
    {"a warp's sync does not order a block", exchange_warp, NULL, 0, 1, 64, {0}},
    {"two blocks write one element",
     KERNEL "p.y[t] = b;\n}\n",
     NULL,
     0,
     3,
     32,
     {"race", "block 0, thread", "writes 4 bytes, line 4"}},
    {"one block writes what another reads",
     KERNEL "__syncthreads();\nif (b == 0)\np.y[t] = 1;\nelse\np.y[64 + t] = p.y[t];\n}\n",
     NULL,
     0,
     2,
     32,
     {"race", "writes 4 bytes, line 6", "reads 4 bytes, line 8"}},
    {"atomics", KERNEL "atomicAdd(p.y, 1.0f);\natomicMax((int *)p.y + 1, t);\n}\n", NULL, 0, 3, 64, {0}},
    {"atomic and plain",
     KERNEL "if (t == 1)\natomicAdd(p.y, 1.0f);\nelse if (t == 40)\np.y[0] = 2;\n}\n",
     NULL,
     0,
     1,
     64,
     {"race", "writes 4 bytes, line 7"}},
    {"local memory of block after block",
     KERNEL
     "volatile float own[64];\nfor (int i = 0; i < 64; i++)\nown[(i + t) % 64] = t;\np.y[b * n + t] = own[b];\n}\n",
     NULL,
     0,
     8,
     64,
     {0}},
    {"intact cluster", hand_over, NULL, 0, 4, 32, {0}},
    {"cluster, read before it is written",
     hand_over,
     "cluster_arrive(); cluster_wait();",
     1,
     2,
     32,
     {"race", "block 1, thread", "writes 4 bytes, line 5", "line 7"}},
    {"cluster, an arrival at another block publishes no stores",
     hand_over_barrier,
     NULL,
     0,
     2,
     32,
     {"race", "block 1, thread", "writes 4 bytes, line 7", "line 10"}},
    {"another intact cluster", reach, NULL, 0, 4, 32, {0}},
    {"cluster, a block that may have ended",
     reach,
     "cluster_arrive(); cluster_wait();",
     1,
     2,
     32,
     {"block 0", "block 1, thread 0", "line 7"}},
};

/* Returns the source without the which-th `removed`. Blanks take its place, so that line numbers stay. */
static char *remove_from(const struct race_case *race) {
    char *source = strdup(race->source), *at = source;
    for (int i = 0; race->removed && (at = strstr(at, race->removed)); at++, i++)
        if (i == race->which)
            memset(at, ' ', strlen(race->removed));
    return source;
}

static bool run_probe(const struct race_case *race, int seed, struct text *output) {
    char path[] = "/tmp/attile-race-XXXXXX", command[512], line[512];
    char *source = remove_from(race);
    int file = mkstemp(path);
    cr_assert(file >= 0 && write(file, source, strlen(source)) == (ssize_t)strlen(source));
    close(file);
    free(source);
    snprintf(command, sizeof command, "TSAN_OPTIONS=exitcode=0 %s %s %d %d %d %d 2>/dev/null", RACE_PROBE, path,
             race->grid, race->block, seed, strstr(race->source, "cluster_") ? 2 : 0);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        text_print(output, "%s", line);
    int status = pclose(pipe);
    unlink(path);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "%s: the probe failed: %d", race->name, status);
    return WEXITSTATUS(status) == 0;
}

Test(race, a_missing_barrier_is_reported_with_both_lines_and_an_intact_kernel_is_not) {
    if (!RACE_PROBE[0])
        cr_skip_test("one program cannot have two sanitizers");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int seed = 0; seed < 2; seed++) {
            const struct race_case *race = &cases[i];
            struct text output = {0};
            bool passed = run_probe(race, seed, &output);
            cr_expect_eq(passed, !race->words[0], "%s, seed %d: %s", race->name, seed, text_string(&output));
            for (int w = 0; w < 4 && race->words[w]; w++)
                cr_expect(strstr(text_string(&output), race->words[w]), "%s, seed %d: expected \"%s\" in: %s",
                          race->name, seed, race->words[w], text_string(&output));
            text_free(&output);
        }
}

/* --- templates ----------------------------------------------------------------------------------------------------- */

static const struct barrier_case {
    const char *file, *problem;
    const char *shapes[2]; /* a barrier may have no work on one of them; null = none */
} barrier_cases[] = {
    {"pipeline/k_and_v_in_turn.cuh",
     "family=attention_forward algorithm=flash_tiled head_dim=32 target=any",
     {"batch=1,heads=1,len_q=70,len_kv=200"}},
    {"pipeline/k_and_v_ahead.cuh",
     "family=attention_forward algorithm=flash_tiled head_dim=32 target=sm_80",
     {"batch=1,heads=1,len_q=70,len_kv=200"}},
    {"fragment/simt_products.cuh",
     "family=attention_forward algorithm=flash_tiled head_dim=32 target=any",
     {"batch=1,heads=1,len_q=70,len_kv=200"}},
    {"attention_flash_tiled_kv.cu",
     "family=attention_forward algorithm=flash_tiled loop_order=kv_outer head_dim=32 target=any",
     {"batch=1,heads=1,len_q=70,len_kv=200"}},
    {"attention_materialized.cu",
     "family=attention_forward algorithm=materialized head_dim=80",
     {"batch=1,heads=1,len_q=10,len_kv=70"}},
    {"attention_backward_tiled.cu",
     "family=attention_backward algorithm=flash_tiled head_dim=8 target=any",
     {"batch=1,heads=2,kv_heads=1,len_q=70,len_kv=130"}},
    {"backward/add_dq.cuh",
     "family=attention_backward algorithm=flash_async head_dim=64 dtype=bf16 target=sm_90a",
     {"batch=1,heads=1,len_q=300,len_kv=70"}},
    {"backward/add_dq.cuh", /* parts of columns */
     "family=attention_backward algorithm=flash_async head_dim=104 dtype=bf16 mask=causal target=sm_90a",
     {"batch=1,heads=1,len_q=300,len_kv=200"}},
    {"pipeline/release_by_thread.cuh",
     "family=attention_backward algorithm=flash_async head_dim=64 dtype=bf16 dq_in=dq_registers target=sm_90a",
     {"batch=1,heads=1,len_q=300,len_kv=300"}},
    {"backward/repeat_queries.cuh", /* NaN beyond the ends of the sequences, which steps of 64 queries do not clear */
     "family=attention_backward algorithm=flash_async head_dim=40 dtype=bf16 block_m=64 layout=padded target=sm_90a",
     {"batch=3,heads=2,len_q=64,len_kv=200"}},
    {"fragment/score_bias_rows.cuh", /* rows copied by the producer, and rows that it cannot copy */
     "family=attention_forward algorithm=flash_async head_dim=64 dtype=bf16 score=\"s + values[h, max(q, 0), k]\" "
     "params=\"values: bf16[heads, len_kv, len_kv]\" target=sm_90a",
     {"batch=1,heads=1,len_q=70,len_kv=400", "batch=1,heads=1,len_q=70,len_kv=301"}},
    {"fragment/reduce.cuh", "family=softmax algorithm=three_pass threads=128", {"rows=1,cols=500"}},
};

/* Writes the folder's file again, without the barrier in line `line`. False when that line has none. Line
   0 = unchanged. */
static bool rewrite(const char *folder, const char *file, int line) {
    char path[512], text[1024];
    snprintf(path, sizeof path, "%s/templates/%s", SOURCE_DIR, file);
    FILE *in = fopen(path, "r");
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *out = fopen(path, "w");
    cr_assert(in && out, "%s", path);
    bool found = line == 0;
    for (int i = 1; fgets(text, sizeof text, in); i++) {
        char *barrier = strstr(text, "__syncthreads();");
        barrier = barrier ? barrier : strstr(text, "__syncwarp();");
        if (i == line && barrier) {
            memset(barrier, ' ', strcspn(barrier, ";") + 1);
            found = true;
        }
        fputs(text, out);
    }
    fclose(in);
    fclose(out);
    return found;
}

static bool run_command(const char *command, struct text *output) {
    char line[512];
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        text_print(output, "%s", line);
    return pclose(pipe) == 0;
}

static bool run_template(const struct barrier_case *barrier, const char *folder, struct text *output) {
    bool passed = true;
    for (int i = 0; i < 2 && barrier->shapes[i] && passed; i++) {
        char command[1024];
        snprintf(command, sizeof command,
                 "TSAN_OPTIONS=exitcode=0 %s run '%s' --templates %s --shape %s --device host --host-mode race "
                 "--no-nvrtc --no-cache 2>&1",
                 ATTILE_RACE, barrier->problem, folder, barrier->shapes[i]);
        passed = run_command(command, output);
    }
    return passed;
}

/* Emits the source of the template: a line that this variant does not use makes no difference. */
static void emit_template(const struct barrier_case *barrier, const char *folder, struct text *source) {
    char command[1024];
    snprintf(command, sizeof command, "TSAN_OPTIONS=exitcode=0 %s show '%s' --templates %s 2>/dev/null", ATTILE_RACE,
             barrier->problem, folder);
    cr_assert(run_command(command, source), "%s", command);
}

Test(race, no_barrier_of_a_template_can_be_left_out) {
    if (!ATTILE_RACE[0])
        cr_skip_test("one program cannot have two sanitizers");
    char folder[] = "/tmp/attile-race-XXXXXX", command[512];
    cr_assert(mkdtemp(folder));
    snprintf(command, sizeof command, "cp -r %s/templates/. %s", SOURCE_DIR, folder);
    cr_assert_eq(system(command), 0);
    for (size_t i = 0; i < sizeof barrier_cases / sizeof *barrier_cases; i++) {
        const struct barrier_case *barrier = &barrier_cases[i];
        int barriers = 0;
        struct text intact = {0};
        for (int line = 0; line < 1000; line++) {
            struct text output = {0}, source = {0};
            if (!rewrite(folder, barrier->file, line))
                continue;
            emit_template(barrier, folder, line == 0 ? &intact : &source);
            bool used = strcmp(text_string(&source), text_string(&intact)) != 0;
            text_free(&source);
            if (!used)
                continue;
            barriers += line > 0;
            if (line > 0 && !shard_has(barriers, 2))
                continue;
            bool passed = run_template(barrier, folder, &output);
            if (line == 0)
                cr_expect(passed, "%s: %s", barrier->file, text_string(&output));
            else
                cr_expect(!passed && strstr(text_string(&output), "race: nothing orders"),
                          "%s works without the barrier of line %d: %s", barrier->file, line, text_string(&output));
            text_free(&output);
        }
        cr_expect_gt(barriers, 0, "%s", barrier->file);
        rewrite(folder, barrier->file, 0);
        text_free(&intact);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
