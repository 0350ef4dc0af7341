/* Clusters on the host device, with a hand-written kernel: what the blocks do together, and that any missing
   synchronisation is noticed. */
#include "helper_kernel.h"
#include "knobs.h"

#include <criterion/criterion.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED = 17 * 1024, THREADS = 64, ROUNDS = 5, BOX_ROWS = 16, BOX_COLS = 64, SEEDS = 9, GRID = 8 };

struct params {
    alignas(64) unsigned char in[MAP_BYTES];
    float *y;
};

#define WORDS                                                                                                          \
    "struct alignas(64) tensor_map { unsigned long long word[16]; };\n"                                                \
    "struct Params { tensor_map in; float *y; };\n"                                                                    \
    "using Barrier = unsigned long long;\n"                                                                            \
    "extern \"C\" __global__ void kernel(const Params p) {\n"                                                          \
    "unsigned char *shared = dynamic_shared<unsigned char>();\n"                                                       \
    "int t = threadIdx.x, rank = cluster_rank();\n"                                                                    \
    "Barrier *full = (Barrier *)(shared + 16 * 1024), *empty = full + 1; (void)empty, (void)rank;\n"

/* A warp sums all rows, and releases them to every block. */
#define SUM_ROWS                                                                                                       \
    "        for (int i = t - 32; i < BLOCKS * 1024; i += 32)\n"                                                       \
    "            sum += ((unsigned short *)shared)[i];\n"                                                              \
    "        __syncwarp();\n"                                                                                          \
    "        if (t == 32)\n"                                                                                           \
    "            for (int peer = 0; peer < BLOCKS; peer++)\n"                                                          \
    "                barrier_arrive_at(empty, peer);\n"                                                                \
    "    }\n"                                                                                                          \
    "p.y[blockIdx.x * 64 + t] = sum;\n"                                                                                \
    "cluster_arrive(); cluster_wait(); // nobody reaches into this block any more\n"                                   \
    "}\n"

/* In each round every block loads its share of the rows into all blocks, and every block sums all rows. */
static const char exchange[] =
    WORDS "if (t == 0) {\n"
          "    barrier_init(full, 1); barrier_init(empty, BLOCKS); barrier_init_fence();\n"
          "}\n"
          "cluster_arrive(); cluster_wait(); // all barriers are made\n"
          "float sum = 0;\n"
          "for (int round = 0; round < ROUNDS; round++)\n"
          "    if (t == 0) {\n"
          "        barrier_wait(empty, round & 1 ^ 1);\n"
          "        barrier_expect(full, BLOCKS * 2048);\n"
          "        tma_load_multicast(shared + rank * 2048, &p.in, full, (1 << BLOCKS) - 1, 0, rank * 16, round, 0);\n"
          "    } else if (t >= 32) {\n"
          "        barrier_wait(full, round & 1);\n" SUM_ROWS;

/* The same, but each block loads its share only into itself, and copies it to the others. */
static const char copies[] =
    WORDS "Barrier *own = full + 2;\n"
          "if (t == 0) {\n"
          "    barrier_init(full, 1); barrier_init(empty, BLOCKS); barrier_init(own, 1); barrier_init_fence();\n"
          "}\n"
          "cluster_arrive(); cluster_wait(); // all barriers are made\n"
          "float sum = 0;\n"
          "for (int round = 0; round < ROUNDS; round++)\n"
          "    if (t == 0) {\n"
          "        barrier_wait(empty, round & 1 ^ 1);\n"
          "        barrier_expect(full, (BLOCKS - 1) * 2048);\n"
          "        barrier_expect(own, 2048);\n"
          "        tma_load(shared + rank * 2048, &p.in, own, 0, rank * 16, round, 0);\n"
          "        barrier_wait(own, round & 1);\n"
          "        for (int peer = 0; peer < BLOCKS; peer++)\n"
          "            if (peer != rank)\n"
          "                copy_to_block(shared + rank * 2048, shared + rank * 2048, 2048, full, peer);\n"
          "    } else if (t >= 32) {\n"
          "        barrier_wait(full, round & 1);\n"
          "        barrier_wait(own, round & 1);\n" SUM_ROWS;

/* Runs the source on clusters of `blocks` blocks. *right is true if every block has the sum of the whole tensor. */
static enum att_status run(const char *source, int blocks, enum att_host_mode mode, int seed, bool *right,
                           struct device *device) {
    enum { MOST = ROUNDS * PLAN_CLUSTER * BOX_ROWS * BOX_COLS };
    static uint16_t in[MOST];
    int count = ROUNDS * blocks * BOX_ROWS * BOX_COLS;
    float y[GRID * THREADS] = {0}, expected = 0;
    char text[4096];
    for (int i = 0; i < count; i++)
        expected += in[i] = (uint16_t)(i % 61 + i / 4096);
    *device = device_open(mode, (uint64_t)seed);
    struct params params = {.y = device_buffer(device, sizeof y, y)};
    struct map_request request = {.data = device_buffer(device, (size_t)count * sizeof *in, in),
                                  .dtype = dtype_bf16,
                                  .dim = {BOX_COLS, blocks * BOX_ROWS, ROUNDS, 1},
                                  .stride = {BOX_COLS, blocks * BOX_ROWS * BOX_COLS, count},
                                  .box = {BOX_COLS, BOX_ROWS, 1}};
    cr_assert_eq(backend_host.encode_map(device->backend, &request, params.in, &device->failure), ATT_OK, "%s",
                 text_string(&device->failure.text));
    snprintf(text, sizeof text, "constexpr int BLOCKS = %d, ROUNDS = %d;\n%s", blocks, ROUNDS, source);
    struct kernel kernel = {text, GRID, THREADS, SHARED};
    enum att_status status = device_run_clusters(device, &kernel, blocks, &params, sizeof params);
    backend_host.copy_out(device->backend, y, params.y, sizeof y, &device->failure);
    *right = true;
    for (int block = 0; block < GRID; block++) {
        float sum = 0;
        for (int t = 0; t < THREADS; t++)
            sum += y[block * THREADS + t];
        *right = *right && sum == expected;
    }
    return status;
}

Test(cluster, blocks_load_for_each_other) {
    for (int blocks = 1; blocks <= PLAN_CLUSTER; blocks *= 2)
        for (int seed = 0; seed < SEEDS; seed++) {
            struct device device;
            bool right;
            enum att_status status =
                run(exchange, blocks, seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, seed, &right, &device);
            cr_expect(status == ATT_OK && right, "%d blocks, seed %d: %s", blocks, seed,
                      text_string(&device.failure.text));
            device_close(&device);
        }
}

Test(cluster, blocks_copy_to_each_other) {
    for (int blocks = 2; blocks <= PLAN_CLUSTER; blocks *= 2)
        for (int seed = 0; seed < SEEDS; seed++) {
            struct device device;
            bool right;
            enum att_status status =
                run(copies, blocks, seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, seed, &right, &device);
            cr_expect(status == ATT_OK && right, "%d blocks, seed %d: %s", blocks, seed,
                      text_string(&device.failure.text));
            device_close(&device);
        }
}

/* Writes the source with the which-th `removed` replaced. */
static void replace(const char *source, const char *removed, int which, const char *instead, char *text, size_t size) {
    const char *at = strstr(source, removed);
    for (int i = 0; at && i < which; i++)
        at = strstr(at + 1, removed);
    cr_assert(at, "no %s", removed);
    int wrote = snprintf(text, size, "%.*s%s%s", (int)(at - source), source, instead, at + strlen(removed));
    cr_assert(wrote > 0 && (size_t)wrote < size);
}

static const struct mutation {
    const char *name, *removed;
    int which;
    const char *instead;
    const char *words[3]; /* in the message under some seed; none = the result may just be wrong */
} mutations[] = {
    {"barriers are used before all are made",
     "cluster_arrive(); cluster_wait();",
     0,
     "__syncthreads();",
     {"of block", "used before barrier_init"}},
    {"a block ends while others reach into it", "cluster_arrive(); cluster_wait();", 1, "", {"has ended"}},
    {"arrival at the own block's barrier only",
     "barrier_arrive_at(empty, peer)",
     0,
     "barrier_arrive_at(empty, rank)",
     {0}},
    {"one arrival, at the own block's barrier",
     "peer < BLOCKS; peer++)",
     0,
     "peer < 1; peer++) if (peer == rank)",
     {"deadlock: no thread can run", "block 1, thread 0 waits in barrier_wait()", "block 0, thread 0 waits in"}},
    {"no wait for an empty stage", "barrier_wait(empty, round & 1 ^ 1);", 0, "", {0}},
    {"only the own bytes are expected", "BLOCKS * 2048)", 0, "2048)", {0}},
    {"a load for the own block only", "(1 << BLOCKS) - 1", 0, "1 << rank", {"deadlock", "misses 0 of 1 arrivals"}},
    {"a load into the wrong half", "shared + rank * 2048", 0, "shared", {0}},
    {"a wait at the end by some threads only",
     "cluster_arrive(); cluster_wait(); // nobody",
     0,
     "if (t < 32) cluster_arrive(); if (t < 32) cluster_wait(); if (t >= 32) barrier_wait(full, 1); // nobody",
     {"deadlock", "cluster_wait(), line", "threads of the cluster have arrived"}},
    {"a wait without arrival", "cluster_arrive();", 0, "", {"cluster_wait(), but this thread has not arrived"}},
    {"two arrivals", "cluster_wait();", 0, "", {"has arrived already, and not waited since"}},
    {"the last wait forgotten", "cluster_wait();", 1, "", {"ended between cluster_arrive() and cluster_wait()"}},
    {"arrival at no block",
     "barrier_arrive_at(empty, peer)",
     0,
     "barrier_arrive_at(empty, peer + 1)",
     {"rank 2 of a cluster of 2 blocks"}},
    {"load into no block", "(1 << BLOCKS) - 1", 0, "7", {"ranks 0x7 of a cluster of 2 blocks"}},
};

static const struct mutation mutations_of_copies[] = {
    {"a block ends while others copy to it",
     "float sum = 0;",
     0,
     "float sum = 0; if (rank) return;",
     {"of the cluster has ended"}},
    {"a copy before its source has arrived", "barrier_wait(own, round & 1);", 0, "", {0}},
    {"no wait for an empty stage", "barrier_wait(empty, round & 1 ^ 1);", 0, "", {0}},
    {"bytes that nobody expects", "(BLOCKS - 1) * 2048", 0, "0", {0}},
    {"a copy to the own block", "full, peer)", 0, "full, rank)", {0}},
    {"a copy to no block", "full, peer)", 0, "full, peer + 1)", {"copy_to_block rank 2 of a cluster of 2 blocks"}},
    {"bytes that are no whole pieces", "2048, full", 0, "2040, full", {"copy_to_block: 2040 bytes", "multiples of 16"}},
    {"a copy from beyond the memory",
     "rank * 2048, 2048",
     0,
     "17392, 2048",
     {"copy_to_block: 2048 bytes from byte 17392"}},
    {"a copy of nothing", "2048, full", 0, "0, full", {"copy_to_block: 0 bytes"}},
};

static void check_mutations(const char *intact, const struct mutation *all, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct mutation *mutation = &all[i];
        char source[4096];
        bool noticed = false, said[3] = {0};
        replace(intact, mutation->removed, mutation->which, mutation->instead, source, sizeof source);
        for (int seed = 0; seed < SEEDS; seed++) {
            struct device device;
            bool right;
            enum att_status status = run(source, 2, ATT_HOST_FAST, seed, &right, &device);
            noticed |= status != ATT_OK || !right;
            for (int w = 0; w < 3 && mutation->words[w]; w++)
                said[w] |= strstr(text_string(&device.failure.text), mutation->words[w]) != NULL;
            device_close(&device);
        }
        cr_expect(noticed, "not noticed: %s", mutation->name);
        for (int w = 0; w < 3 && mutation->words[w]; w++)
            cr_expect(said[w], "%s: no seed says \"%s\"", mutation->name, mutation->words[w]);
    }
}

Test(cluster, whatever_holds_blocks_together_is_seen_when_it_is_missing) {
    check_mutations(exchange, mutations, sizeof mutations / sizeof *mutations);
    check_mutations(copies, mutations_of_copies, sizeof mutations_of_copies / sizeof *mutations_of_copies);
}

/* Only barriers, loads and copies reach into another block: a pointer does not. */
Test(cluster, pointers_do_not_reach_into_another_block) {
    static const char source[] = WORDS "if (t == 0) ((unsigned char **)p.y)[blockIdx.x] = shared;\n"
                                       "cluster_arrive(); cluster_wait();\n"
                                       "if (t == 0 && rank == 1) *((unsigned char **)p.y)[blockIdx.x - 1] = 7;\n"
                                       "cluster_arrive(); cluster_wait();\n}\n";
    struct device device;
    bool right;
    cr_expect_eq(run(source, 2, ATT_HOST_CHECK, 0, &right, &device), ATT_LAUNCH_FAILED);
    cr_expect(strstr(text_string(&device.failure.text), "of the shared memory of block"), "%s",
              text_string(&device.failure.text));
    device_close(&device);
}

Test(cluster, a_grid_is_whole_clusters) {
    struct device device;
    bool right;
    cr_expect_eq(run(exchange, 3, ATT_HOST_FAST, 0, &right, &device), ATT_LAUNCH_FAILED);
    cr_expect(strstr(text_string(&device.failure.text), "8 blocks are not whole clusters of 3"), "%s",
              text_string(&device.failure.text));
    device_close(&device);
}
