/* Which kernel answers a problem on which device, and what happens to arguments that this kernel cannot take. The host
   device under another name stands in for the GPU. */
#include "choose.h"
#include "session.h"
#include "tables.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BF16 "family=attention_forward dtype=bf16 head_dim=16"
#define FEW  "family=attention_forward dtype=bf16 head_dim=128 heads=64 kv_heads=8 len_kv=8192"

static struct backend_type gpu;  /* the host device under another name */
static const char *uncompilable; /* the compiler refuses kernels with this in their name */
static int compiles;
static struct text logged;

static enum att_status compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                               struct failure *failure) {
    compiles++;
    if (uncompilable && strstr(job->name, uncompilable))
        return failure_set(failure, ATT_COMPILE_FAILED, "refused on purpose");
    return backend_host.compile(backend, job, binary, failure);
}

static void keep_log(void *context, enum att_log_level level, const char *message) {
    (void)context;
    if (level == ATT_LOG_WARNING)
        text_print(&logged, "%s\n", message);
}

static att_session *open_session(const char *tuned) {
    const struct att_options options = {.size = sizeof options,
                                        .device = ATT_DEVICE_HOST,
                                        .no_disk_cache = 1,
                                        .host_mode = ATT_HOST_FAST,
                                        .tuned_table = tuned,
                                        .log = keep_log};
    att_session *session;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    return session;
}

static att_session *open_gpu(const char *tuned, const char *name, int arch) {
    att_session *session = open_session(tuned);
    gpu = backend_host;
    gpu.compile = compile;
    session->type = &gpu;
    session->info.device_name = name;
    session->info.arch_number = arch;
    session->modelled = model_gpu_find(name, &session->gpu);
    session->tables.bare = true; /* chooses without measurements; tests bring their own tables */
    return session;
}

static const char *write_table(const char *rows) {
    static char path[] = "/tmp/attile-choose-XXXXXX";
    int file = mkstemp(path);
    cr_assert(file >= 0);
    dprintf(file, "device: NVIDIA H200\n%s", rows);
    close(file);
    return path;
}

/* Returns the first candidate's name, or why there is none. */
static const char *first(att_session *session, const char *problem, const char *schedule) {
    static struct choice choice;
    struct request request;
    struct failure failure = {0};
    cr_assert_eq(choose_read(session, problem, schedule, &request, &failure), ATT_OK, "%s", text_string(&failure.text));
    choice = (struct choice){0};
    return choose_next(session, &request, &choice, NULL) ? choice.variant.name : choice.reason;
}

/* --- preferences -------------------------------------------------------------------------------------------------- */

Test(choose, each_device_gets_the_kernel_made_for_it) {
    static const struct {
        int arch;
        const char *problem, *schedule, *words[2];
    } cases[] = {
        {90, BF16, NULL, {"_flash_async_", "_sm_90a"}},
        {90, BF16 " mask=causal head_dim_v=24 dtype_out=fp32", NULL, {"_flash_async_", "_sm_90a"}},
        {90, BF16 " len_q=1024 len_kv=1024 alignment=32", NULL, {"_flash_async_", "_sm_90a"}},
        {90, BF16 " alignment=8", NULL, {"_flash_mma_", "_sm_90"}},
        {90, BF16 " target=sm_90a", NULL, {"_flash_async_", "_sm_90a"}},
        {90, BF16 " target=any", NULL, {"_flash_tiled_", "bf16_d16"}},
        {90, BF16, "algorithm=flash", {"_flash_t", "bf16_d16"}},
        {90, BF16, "stages=3", {"_flash_async_", "_s3_"}},
        {90, "family=attention_forward dtype=bf16 head_dim=12", NULL, {"_flash_mma_", "_sm_90"}},
        {90, "family=attention_forward dtype=fp32", NULL, {"_flash_tiled_", "_sm_80"}},
        {90, "family=softmax", NULL, {"softmax_", "_online_"}},
        {80, BF16, NULL, {"_flash_mma_", "_sm_80"}},
        {80, "family=attention_forward dtype=fp16 head_dim=59 head_dim_v=1", NULL, {"_flash_mma_", "_sm_80"}},
        {86, BF16, NULL, {"_flash_mma_", "_sm_86"}},
        {89, BF16, NULL, {"_flash_mma_", "_sm_89"}},
        {100, BF16, NULL, {"_flash_mma_", "_sm_90"}},
        {120, BF16, NULL, {"_flash_mma_", "_sm_120"}},
        {90,
         "family=attention_backward dtype=bf16 head_dim=256",
         NULL,
         {"backward_bf16_d256_none_flash_async_", "_sm_90a"}},
        {90,
         "family=attention_backward dtype=bf16 deterministic=1 alignment=32",
         NULL,
         {"backward_bf16_d64_none_deterministic1_flash_async_", "_sm_90a"}},
        {90, "family=attention_backward dtype=bf16 alignment=8", NULL, {"backward_", "_flash_mma_"}},
        {90, "family=attention_backward dtype=fp16 head_dim=60", NULL, {"backward_", "_flash_mma_"}},
        {90, "family=attention_backward dtype=fp32 head_dim=64", NULL, {"backward_", "_flash_tiled_"}},
        {89,
         "family=attention_forward dtype=fp32",
         NULL,
         {"_flash_tiled_", "_sm_89"}}, /* less shared memory than sm_80 */
        {90, FEW " len_q=1", NULL, {"_decode_m8_", "_sm_90"}},
        {90, FEW " len_q=2 mask=causal", NULL, {"_decode_m8_", "_sm_90"}}, /* L2 has K and V */
        {90,
         FEW " len_q=2 mask=causal batch=4",
         NULL,
         {"_flash_async_m64_n128_", "_lazy_sections_persistent_tma_gqa1_"}},
        {90, FEW " len_q=4 mask=causal", NULL, {"_flash_async_m64_n128_", "_gqa1_splits0_"}},
        {90, FEW " len_q=2 batch=4 alignment=8", NULL, {"_decode_m16_", "_sm_90"}},
        {90, FEW " len_q=2 batch=4 mask=\"q - k < 99\"", NULL, {"_decode_m16_", "_sm_90"}},
        {90, FEW " len_q=2 batch=4 layout=padded", NULL, {"_decode_m16_", "_sm_90"}},
        {90, FEW " len_q=2 batch=4 batch_invariant=1", NULL, {"_decode_m16_", "_sm_90"}},
        {80, FEW " len_q=2", NULL, {"_decode_m16_", "_sm_80"}},
        {90, BF16 " heads=32 kv_heads=2 len_q=1 batch=3 len_kv=9000", NULL, {"_decode_m8_", "_sm_90"}},
        {90, BF16 " heads=32 kv_heads=2 len_q=1 batch=1 len_kv=9000000", NULL, {"_decode_m16_", "_sm_90"}},
        {90, BF16 " heads=32 kv_heads=2 len_q=1 batch=2 len_kv=9000000", NULL, {"_flash_async_m64_n256_s3_", "_gqa1_"}},
        {90, BF16 " heads=8 kv_heads=8 len_q=32", NULL, {"_flash_async_m64_", "_tma_splits0_"}},
        {90, FEW " len_q=1 batch=64", NULL, {"_decode_m8_", "_sm_90"}},
        {90,
         "family=attention_forward dtype=bf16 head_dim=128 heads=64 kv_heads=8 len_q=1 batch=64 len_kv=4096",
         NULL,
         {"_flash_async_m64_n128_", "_gqa1_splits0_"}},
        {80, FEW " len_q=4", NULL, {"_decode_m32_", "_sm_80"}},
        {120, FEW " fixed_len_q=3 sinks=1", NULL, {"_decode_m32_", "_sm_120"}},
        {90, FEW " len_q=5", NULL, {"_flash_async_m64_", "_gqa1_splits0_"}},
        {90, FEW " len_q=8", NULL, {"_flash_async_m64_", "_gqa1_splits0_"}},
        {90, FEW " len_q=16", NULL, {"_flash_async_m128_", "_gqa1_splits0_"}},
        {90, FEW " len_q=16 alignment=2", NULL, {"_flash_mma_", "_gqa1_"}},
        {80, FEW " len_q=8", NULL, {"_flash_mma_m64_", "_gqa1_"}},
        {90, FEW " len_q=4096", NULL, {"_flash_async_m192_", "_tma_s"}},
        {90, FEW " len_q=8 score=softcap(30)", NULL, {"_flash_async_m128_", "_tma_s"}}, /* its scores are of one head */
        {90, FEW " len_q=8", "algorithm=flash_async", {"_flash_async_m192_", "_tma_s"}},
        {90, BF16 " head_dim_v=256 len_q=9", NULL, {"_decode_m8_", "_sm_90"}}, /* no larger tile is feasible */
        {90, FEW " len_q=1 target=sm_90a", NULL, {"_flash_async_", "_sm_90a"}},
        {90, FEW " len_q=1", "block_m=128", {"_flash_async_", "_m128_"}},
        {90, FEW " len_q=1", "threads=128", {"_decode_m8_", "_t128_"}},
        {90, "family=attention_forward dtype=fp32 len_q=1", NULL, {"_flash_tiled_", "_sm_80"}},
        {75, FEW " len_q=1", NULL, {"_flash_tiled_", "_d128_"}},
        {75, BF16, NULL, {"_flash_tiled_", "bf16_d16"}},
        {75, "family=attention_forward", NULL, {"_flash_tiled_", "fp32"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        att_session *session = open_gpu(NULL, "GPU", cases[i].arch);
        const char *name = first(session, cases[i].problem, cases[i].schedule);
        for (int k = 0; k < 2; k++)
            cr_expect(strstr(name, cases[i].words[k]), "case %zu: %s in %s", i, cases[i].words[k], name);
        att_close(session);
    }
}

/* On every GPU of devices/, 16-bit types run on the tensor cores, and the model predicts a time. */
Test(choose, each_device_file_has_a_choice_on_tensor_cores) {
    static const char *const problems[] = {BF16 " mask=causal", "family=attention_forward dtype=fp16 head_dim=128",
                                           "family=attention_forward dtype=bf16 head_dim=200"};
    char name[64];
    for (int i = 0; model_gpu_list(i, name, sizeof name); i++) {
        struct model_gpu one;
        const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
        att_session *session;
        cr_assert(model_gpu_find(name, &one));
        cr_assert_eq(session_open_to_choose(&options, one.name, one.arch, &session), ATT_OK, "%s",
                     att_message(session));
        cr_expect(session->modelled, "%s", name);
        for (size_t k = 0; k < sizeof problems / sizeof *problems; k++) {
            const char *found = first(session, problems[k], NULL);
            cr_expect(strstr(found, "_flash_mma_") || strstr(found, "_flash_async_"), "%s: %s", name, found);
            cr_expect(strstr(found, one.arch), "%s: %s", name, found);
        }
        att_close(session);
    }
}

/* A session that chooses for an absent GPU splits the keys of few Q tiles over that GPU's number of SMs. */
Test(choose, another_gpu_is_filled_by_splitting_keys) {
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    const char *problem = "family=attention_forward dtype=bf16 head_dim=128 alignment=16 batch=1 heads=32 kv_heads=8 "
                          "len_q=64 len_kv=32768";
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    const char *found = first(session, problem, NULL);
    cr_expect(strstr(found, "_splits0_"), "%s", found);
    /* The default tile of d 72, 192 rows, would spill in a kernel that splits keys. */
    found = first(session,
                  "family=attention_forward dtype=bf16 head_dim=72 mask=causal alignment=16 batch=1 heads=4 "
                  "len_q=512 len_kv=8192",
                  NULL);
    cr_expect(strstr(found, "_m128_n128_") && strstr(found, "_splits0_"), "%s", found);
    att_close(session);
}

/* Measured at the same shape, for three targets. */
Test(choose, rows_of_the_target_that_can_run_count) {
    static const struct {
        const char *problem, *word;
    } cases[] = {
        {"alignment=16", "_flash_async_m192_n64_s2_intra_warpgroup_from_sum_"},
        {"alignment=2", "_flash_mma_m128_n64_t128_s2_halves_from_sum_heaviest_first_direct_sm_90"},
        {"target=sm_90", "_flash_mma_m128_n64_t128_s2_halves_from_sum_heaviest_first_direct_sm_90"},
        {"target=sm_80", "_flash_mma_m128_n64_t128_s2_halves_from_sum_heaviest_first_direct_sm_80"},
        {"target=sm_80 dtype=fp16", "_flash_mma_m128_n64_t128_s2_halves_from_sum_heaviest_first_direct_sm_80"},
    };
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[256];
        snprintf(problem, sizeof problem,
                 "family=attention_forward %s head_dim=128 mask=causal batch=2 heads=40 len_q=1100 len_kv=1100 %s",
                 strstr(cases[i].problem, "dtype") ? "" : "dtype=bf16", cases[i].problem);
        cr_expect(strstr(first(session, problem, NULL), cases[i].word), "%s: %s", problem,
                  first(session, problem, NULL));
    }
    att_close(session);
}

/* The H200 has 132 SMs. */
Test(choose, launches_with_few_q_tiles_get_small_ones) {
    static const struct {
        const char *problem, *word;
        bool is_there;
    } cases[] = {
        {"head_dim=64 mask=causal batch=1 heads=8 len_q=512 len_kv=512", "_m64_n128_s2_", true},
        {"head_dim=64 batch=1 heads=8 len_q=512 len_kv=512", "_lazy_sections_per_tile_", true},
        {"head_dim=256 batch=1 heads=8 len_q=512 len_kv=512", "_m64_n64_s2_", true},
        {"head_dim=64 score=\"softcap(30)\" batch=1 heads=8 len_q=512 len_kv=512", "_m64_n128_s2_", true},
        /* two tiles of 64 rows per SM, or one of 128 */
        {"head_dim=128 mask=causal batch=1 heads=16 len_q=1024 len_kv=1024", "_m64_n64_s4_", true},
        {"head_dim=128 batch=1 heads=16 len_q=1024 len_kv=1024", "_m128_n128_s2_both_lazy_sections_per_tile_", true},
        {"head_dim=128 score=\"softcap(30)\" batch=1 heads=16 len_q=1024 len_kv=1024", "_lazy_", false},
        {"head_dim=128 mask=\"k <= q and q - k < 99\" batch=1 heads=16 len_q=1024 len_kv=1024", "_m128_n64_s3_", true},
        {"head_dim=128 mask=causal batch=1 heads=32 len_q=1024 len_kv=1024", "_m128_n128_s2_both_lazy_", true},
        {"head_dim=128 mask=causal batch=1 heads=64 len_q=4096 len_kv=4096", "_lazy_", false},
        /* short sequences keep the maximum */
        {"head_dim=128 mask=causal batch=4 heads=64 len_q=1024 len_kv=1024", "_m128_n128_s2_both_lazy_", true},
        {"head_dim=128 mask=causal batch=4 heads=64 len_q=1537 len_kv=1537", "_lazy_", false},
        {"head_dim=128 mask=causal batch=4 heads=64 len_q=1024 len_kv=1024 score=\"softcap(30)\"", "_lazy_", false},
        {"head_dim=64 mask=causal batch=32 heads=32 len_q=512 len_kv=512", "_m256_n64_s3_intra_warpgroup_lazy_", true},
        {"head_dim=64 batch=32 heads=32 len_q=512 len_kv=512", "_lazy_", false},
        {"head_dim=256 batch=32 heads=32 len_q=512 len_kv=512", "_lazy_sections_persistent_tma_c2_", true},
        {"head_dim=256 batch=32 heads=32 len_q=640 len_kv=640", "_lazy_", false}, /* five Q tiles do not pair up */
        {"head_dim=256 mask=causal batch=8 heads=32 len_q=2048 len_kv=2048", "_lazy_", true},
        {"head_dim=256 mask=causal batch=2 heads=32 len_q=8192 len_kv=8193", "_lazy_", false},
        {"head_dim=128 mask=causal batch=4 heads=12 len_q=777 len_kv=777", "_m128_n128_s2_both_lazy_", true},
        {"head_dim=128 mask=causal batch=3 heads=12 len_q=800 len_kv=800", "_m128_n128_s2_both_lazy_", true},
        {"head_dim=128 mask=causal batch=3 heads=12 len_q=900 len_kv=900", "_m192_n64_s2_intra_warpgroup_from_sum_",
         true},
        {"head_dim=128 mask=causal batch=4 heads=12 len_q=801 len_kv=801", "_m192_", true},
        {"head_dim=128 mask=causal batch=4 heads=32 len_q=300 len_kv=300", "_m128_n128_s2_both_lazy_", true},
        {"head_dim=128 mask=causal batch=1 heads=24 len_q=2048 len_kv=2048", "_m128_n128_s2_both_lazy_", false},
        {"head_dim=64 mask=causal batch=4 heads=12 len_q=777 len_kv=777", "_m192_", true},
        /* mma.sync: two tiles of 64 rows per SM, four with a causal mask */
        {"head_dim=64 target=sm_80 batch=1 heads=32 len_q=512 len_kv=512", "_flash_mma_m64_n128_t128_s2_halves_", true},
        {"head_dim=128 target=sm_80 batch=1 heads=32 len_q=512 len_kv=512", "_flash_mma_m64_n64_t128_s3_off_lazy_",
         true},
        {"head_dim=64 target=sm_80 batch=1 heads=32 len_q=512 len_kv=512 score=\"softcap(30)\"", "_m64_n64_t128_s3_",
         true},
        {"head_dim=128 target=sm_80 batch=4 heads=16 len_q=512 len_kv=512", "_m64_", false},
        {"head_dim=128 target=sm_80 mask=causal batch=4 heads=16 len_q=512 len_kv=512", "_m64_n64_t128_s3_", true},
        {"head_dim=192 target=sm_80 batch=1 heads=4 len_q=512 len_kv=512", "_t128_s3_", false},
        /* in a chunk, all tiles are long */
        {"head_dim=128 mask=causal batch=1 heads=32 len_q=512 len_kv=4096", "_m64_", false},
        /* split keys, where that finishes first */
        {"head_dim=128 batch=1 heads=4 len_q=2048 len_kv=2048",
         "_m64_n128_s2_intra_warpgroup_lazy_sections_per_tile_tma_sm", true},
        {"head_dim=128 batch=1 heads=2 len_q=4096 len_kv=4096", "_splits0_", true},
        {"head_dim=128 mask=causal batch=1 heads=4 len_q=8192 len_kv=8192",
         "_m128_n128_s2_both_lazy_sections_persistent_tma_sm", true},
        {"head_dim=64 batch=1 heads=4 len_q=4096 len_kv=4096", "_m128_n128_s2_both_lazy_sections_per_tile_tma_sm",
         true},
        {"head_dim=64 mask=causal batch=1 heads=8 len_q=5000 len_kv=5000", "_splits0_", false},
        {"head_dim=128 mask=causal batch=1 heads=6 len_q=7000 len_kv=7000", "_splits0_", false},
        {"head_dim=128 batch=1 heads=8 len_q=128 len_kv=8192", "_splits0_", true},
        /* heads share tiles */
        {"head_dim=128 batch=1 heads=32 kv_heads=8 len_q=64 len_kv=1024", "_gqa1_", true},
        /* ... and keep maxima where each SM has at most one */
        {"head_dim=128 batch=1 heads=32 kv_heads=8 len_q=64 len_kv=32768",
         "_m128_n128_s2_both_lazy_sections_persistent_tma_gqa1_splits0_", true},
        {"head_dim=128 mask=causal batch=1 heads=32 kv_heads=8 len_q=16 len_kv=16384",
         "_m64_n128_s2_intra_warpgroup_lazy_sections_persistent_tma_gqa1_splits0_", true},
        {"head_dim=64 mask=causal batch=1 heads=16 kv_heads=2 len_q=48 len_kv=10000",
         "_m128_n128_s2_both_lazy_sections_persistent_tma_gqa1_splits0_", true},
        /* ... also if a group needs two tiles, but only one of 192 rows */
        {"head_dim=64 mask=causal batch=1 heads=32 kv_heads=8 len_q=48 len_kv=24000",
         "_m128_n128_s2_both_lazy_sections_persistent_tma_gqa1_splits0_", true},
        {"head_dim=96 batch=1 heads=32 kv_heads=8 len_q=48 len_kv=24000", "_m128_n128_s2_both_lazy_", true},
        {"head_dim=256 mask=causal batch=1 heads=32 kv_heads=8 len_q=24 len_kv=50000",
         "_m128_n64_s2_intra_warpgroup_lazy_sections_persistent_tma_gqa1_splits0_", true},
        {"head_dim=128 batch=8 heads=32 kv_heads=8 len_q=64 len_kv=4096", "_both_lazy_sections_persistent_tma_gqa1_",
         true},
        {"head_dim=128 batch=9 heads=32 kv_heads=8 len_q=64 len_kv=4096",
         "_both_from_sum_sections_persistent_tma_gqa1_", true},
        {"head_dim=128 batch=9 heads=32 kv_heads=8 len_q=40 len_kv=4096", /* two tiles of 128 rows for each group */
         "_both_from_sum_sections_persistent_tma_gqa1_", true},
        {"head_dim=128 target=sm_80 batch=1 heads=32 kv_heads=8 len_q=64 len_kv=32768",
         "_from_sum_sections_direct_gqa1_", true},
        /* short prompts in small pages */
        {"head_dim=128 mask=causal layout=padded page_size=16 batch=16 heads=16 len_q=1024 len_kv=1024",
         "_m128_n128_s2_", true},
        {"head_dim=128 mask=causal layout=padded page_size=16 batch=4 heads=16 len_q=4096 len_kv=4096", "_m192_n64_s2_",
         true},
        {"head_dim=128 mask=causal layout=padded page_size=128 batch=16 heads=16 len_q=1024 len_kv=1024",
         "_m128_n128_s2_", true},
        {"head_dim=128 layout=padded page_size=16 batch=16 heads=16 len_q=1024 len_kv=1024", "_m192_n64_s2_", true},
        {"head_dim=128 mask=causal layout=padded page_size=16 batch=1 heads=2 len_q=512 len_kv=65536", "_splits0_",
         true},
        /* not all sizes known, and sequences */
        {"head_dim=64 mask=causal len_q=512 len_kv=512", "_m64_", false},
        {"head_dim=64 mask=causal layout=padded batch=1 heads=8 len_q=512 len_kv=512", "_m64_", false},
    };
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[256];
        snprintf(problem, sizeof problem, "family=attention_forward dtype=bf16 alignment=16 %s", cases[i].problem);
        const char *found = first(session, problem, NULL);
        cr_expect_eq(strstr(found, cases[i].word) != NULL, cases[i].is_there, "%s: %s", problem, found);
    }
    const char *found = first(
        session, "family=attention_forward dtype=bf16 head_dim=64 batch=1 heads=8 len_q=512 len_kv=512", "stages=2");
    cr_expect_not(strstr(found, "_m64_"), "a schedule of one's own: %s", found);
    /* occurs once among all candidates */
    struct request request;
    struct failure failure = {0};
    struct choice choice = {0};
    int small = 0, all = 0;
    cr_assert_eq(choose_read(session,
                             "family=attention_forward dtype=bf16 head_dim=64 batch=1 heads=8 len_q=512 len_kv=512",
                             NULL, &request, &failure),
                 ATT_OK);
    for (; choose_next(session, &request, &choice, NULL); all++)
        small += strstr(choice.variant.name, "_flash_async_") && strstr(choice.rule, "small Q tiles");
    cr_expect_eq(small, 1, "%d of %d", small, all);
    cr_expect_gt(all, 5);
    att_close(session);
}

/* Kernels with different tiles round differently. */
Test(choose, batch_invariant_kernels_are_the_same_for_all_batches) {
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    for (int invariant = 0; invariant < 2; invariant++) {
        char problem[256], one[VARIANT_NAME];
        snprintf(problem, sizeof problem,
                 "family=attention_forward dtype=bf16 head_dim=64 mask=causal heads=8 len_q=512 len_kv=512 "
                 "batch_invariant=%d batch=1",
                 invariant);
        snprintf(one, sizeof one, "%s", first(session, problem, NULL));
        problem[strlen(problem) - 1] = '9';
        cr_expect_eq(strcmp(one, first(session, problem, NULL)) == 0, invariant, "%s", one);
    }
    att_close(session);
}

Test(choose, targets_that_a_gpu_cannot_run_are_refused) {
    static const struct {
        int arch;
        const char *target, *says;
    } cases[] = {
        {75, "sm_80", "target sm_80 needs a GPU of compute capability 8.0 or later"},
        {80, "sm_86", "target sm_86 needs a GPU of compute capability 8.6 to 8.9"},
        {86, "sm_89", "target sm_89 needs a GPU of compute capability 8.9"},
        {120, "sm_90", "target sm_90 needs a GPU of compute capability 9.0 to 11.x"},
        {100, "sm_90a", "target sm_90a needs a GPU of compute capability 9.0"},
        {90, "sm_120", "target sm_120 needs a GPU of compute capability 12.0 or later"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        att_session *session = open_gpu(NULL, "GPU", cases[i].arch);
        struct request request;
        struct failure failure = {0};
        char problem[96];
        snprintf(problem, sizeof problem, BF16 " target=%s", cases[i].target);
        cr_expect_eq(choose_read(session, problem, NULL, &request, &failure), ATT_UNSUPPORTED, "%s", cases[i].target);
        cr_expect(strstr(text_string(&failure.text), cases[i].says), "%s", text_string(&failure.text));
        failure_clear(&failure);
        att_close(session);
    }
}

Test(choose, this_cpu_gets_the_plain_kernel_unless_asked) {
    att_session *session = open_session(NULL);
    cr_expect(strstr(first(session, BF16, NULL), "_flash_tiled_"));
    cr_expect(strstr(first(session, BF16 " target=sm_90a", NULL), "_flash_async_"));
    cr_expect(strstr(first(session, BF16, "algorithm=flash_async"), "_flash_async_"));
    att_close(session);
}

Test(choose, hints_are_checked_like_knobs) {
    att_session *session = open_session(NULL);
    static const char *const cases[][2] = {
        {BF16 " len_q=-1", "len_q must be an integer of at least 0"},
        {BF16 " len_q=4 len_q=5", "len_q is given twice"},
        {BF16 " rows=4", "rows is not a size of attention_forward"},
        {BF16 " sm_count=4", "sm_count is not a size of attention_forward"},
        {BF16 " alignment=24", "alignment must be a power of two"},
        {BF16 " alignment=0", "alignment must be an integer from 1 to 256"},
        {BF16 " alignment=16 alignment=16", "alignment is given twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct request request;
        struct failure failure = {0};
        cr_expect_eq(choose_read(session, cases[i][0], NULL, &request, &failure), ATT_INVALID_TEXT, "%s", cases[i][0]);
        cr_expect(strstr(text_string(&failure.text), cases[i][1]), "%s", text_string(&failure.text));
        failure_clear(&failure);
    }
    att_close(session);
}

/* --- tuned tables ------------------------------------------------------------------------------------------------- */

#define ROWS                                                                                                           \
    "best:\n"                                                                                                          \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 16}\n"                                            \
    "    shapes:\n"                                                                                                    \
    "      - shape: {batch: 32, heads: 16, len_q: 512, len_kv: 512}\n"                                                 \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 64}\n"                                        \
    "        margin: 1.25\n"                                                                                           \
    "      - shape: {batch: 2, heads: 16, len_q: 8192, len_kv: 8192}\n"                                                \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 192, stages: 3}\n"                            \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 24}\n"                                            \
    "    shapes:\n"                                                                                                    \
    "      - shape: {len_q: 512, len_kv: 512}\n"                                                                       \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 65}\n"

#define ROW_OF_QUERIES(len_q, tile)                                                                                    \
    "best:\n"                                                                                                          \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 128}\n"                                           \
    "    shapes:\n"                                                                                                    \
    "      - shape: {batch: 64, heads: 64, kv_heads: 8, len_q: " len_q ", len_kv: 8192}\n"                             \
    "        schedule: {target: sm_90a, algorithm: flash_async, " tile "}\n"

Test(choose, what_was_measured_for_many_queries_says_nothing_of_few) {
    const char *path = write_table(ROW_OF_QUERIES("4096", "block_m: 192, block_n: 80"));
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    cr_expect(strstr(first(session, FEW " batch=64 len_q=4096", NULL), "_m192_n80_"));
    cr_expect(strstr(first(session, FEW " batch=64 len_q=4", NULL), "_flash_async_m64_n128_"));
    cr_expect(strstr(first(session, FEW " batch=64 len_q=1", NULL), "_decode_m8_"));
    att_close(session);
    unlink(path);
}

/* A kernel other than decode counts too. */
Test(choose, what_was_measured_for_few_queries_counts) {
    const char *path = write_table(ROW_OF_QUERIES("1", "block_m: 64, block_n: 96, pack_gqa: 1"));
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    cr_expect(strstr(first(session, FEW " batch=64 len_q=1", NULL), "_flash_async_m64_n96_"));
    att_close(session);
    unlink(path);
}

Test(choose, the_nearest_measured_shape_decides) {
    const char *path = write_table(ROWS);
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    cr_expect(strstr(first(session, BF16, NULL), "_m192_"), "unsaid sizes are long sequences");
    cr_expect(strstr(first(session, BF16 " len_q=700 len_kv=700", NULL), "_m64_"));
    cr_expect(strstr(first(session, BF16 " len_kv=700", NULL), "_m64_"), "one length stands for both");
    cr_expect(strstr(first(session, BF16 " len_q=9000 len_kv=9000 batch=1 heads=1", NULL), "_m192_"));
    cr_expect(strstr(first(session, BF16 " len_q=700 len_kv=700 alignment=4", NULL), "_flash_mma_"));
    cr_expect(strstr(first(session, BF16 " target=any", NULL), "_flash_tiled_"));
    cr_expect(strstr(first(session, BF16, "block_m=128"), "_m128_"), "a schedule of one's own comes first");
    cr_expect(strstr(first(session, "family=attention_forward dtype=bf16 head_dim=16 mask=causal", NULL),
                     "_flash_async_m256_n64_s3"),
              "no row: the template's defaults");
    cr_expect(
        strstr(first(session, "family=attention_forward dtype=bf16 head_dim=24", NULL), "_flash_async_m256_n64_s3"),
        "a row that no template can follow");
    att_close(session);
    session = open_gpu(path, "NVIDIA H100", 90);
    cr_expect_not(strstr(first(session, BF16 " len_q=700 len_kv=700", NULL), "_m64_"), "another device");
    att_close(session);
    const struct att_options options = {.size = sizeof options, .tuned_table = path};
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    cr_expect(strstr(first(session, BF16 " batch=32 len_q=512", NULL), "_m64_"), "as if there were one");
    att_close(session);
    setenv("ATTILE_TUNED", path, 1);
    session = open_gpu(NULL, "NVIDIA H200", 90);
    cr_expect(strstr(first(session, BF16 " len_kv=700", NULL), "_m64_"), "by the environment");
    att_close(session);
    unlink(path);
}

/* ... even where the launch sizes would suggest another tile. */
Test(choose, what_the_caller_measured_at_this_very_shape_stands) {
    const char *path = write_table("best:\n"
                                   "  - problem: {family: attention_forward, dtype: bf16, head_dim: 16}\n"
                                   "    shapes:\n"
                                   "      - shape: {batch: 1, heads: 8, kv_heads: 8, len_q: 512, len_kv: 512}\n"
                                   "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 192}\n");
    const struct att_options options = {.size = sizeof options, .tuned_table = path};
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    cr_expect(strstr(first(session, BF16 " batch=1 heads=8 len_q=512 len_kv=512", NULL), "_m192_"));
    cr_expect(strstr(first(session, BF16 " batch=1 heads=8 len_q=500 len_kv=500", NULL), "_m64_"));
    att_close(session);
    unlink(path);
}

/* --- lock files --------------------------------------------------------------------------------------------------- */

#define LOCKED(schedule)                                                                                               \
    "lock: " GEN_VERSION "\n"                                                                                          \
    "best:\n"                                                                                                          \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 16}\n"                                            \
    "    shapes:\n"                                                                                                    \
    "      - shape: {batch: 32, heads: 16, len_q: 512, len_kv: 512}\n"                                                 \
    "        schedule: {target: sm_90a, algorithm: flash_async, " schedule "}\n"

Test(choose, a_lock_file_is_followed_at_every_shape) {
    const char *path = write_table(LOCKED("block_m: 64, splits: 1"));
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    static const char *const shapes[] = {"", " len_q=9000 len_kv=9000", " batch=1 heads=1 len_q=1 len_kv=100000"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char problem[200];
        snprintf(problem, sizeof problem, BF16 "%s", shapes[i]);
        const char *name = first(session, problem, NULL);
        cr_expect(strstr(name, "_flash_async_m64_") && !strstr(name, "splits"), "%s: %s", problem, name);
    }
    cr_expect(strstr(first(session, BF16 " target=any", NULL), "_flash_tiled_"), "what is asked for comes first");
    cr_expect_not(strstr(first(session, "family=attention_forward dtype=fp16 head_dim=16", NULL), "_m64_"),
                  "a lock file lends nothing");
    att_close(session);
    unlink(path);
}

static void explain(att_session *session, const char *problem, const char *schedule, enum att_status expected,
                    const char *const *words) {
    char text[8192];
    cr_expect_eq(att_explain(session, problem, schedule, text, sizeof text, NULL), expected, "%s", text);
    for (; *words; words++)
        cr_expect(strstr(text, *words), "no \"%s\" in:\n%s", *words, text);
    for (char *line = strstr(text, "  passed over: "), *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        cr_expect(!strstr(end + 1, line), "twice: %s", line);
    }
}
#define EXPLAIN(problem, schedule, status, ...)                                                                        \
    explain(session, problem, schedule, status, (const char *[]){__VA_ARGS__, NULL})

Test(choose, explain_says_whether_a_choice_is_that_of_the_lock_file) {
    const char *path = write_table(LOCKED("block_m: 64, splits: 1"));
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    EXPLAIN(BF16, NULL, ATT_OK, ":6 pins it for batch=32", "  lock: as /tmp");
    EXPLAIN(BF16, "algorithm=flash_async block_m=128", ATT_OK, "  lock: differs from /tmp",
            "which pins attention_forward_", "because the request names a schedule");
    EXPLAIN(BF16 " target=any", NULL, ATT_OK, "  lock: differs from /tmp", "because the request names a target");
    EXPLAIN(BF16 " mask=causal", NULL, ATT_OK, "has no row for this problem, so it is not pinned");
    EXPLAIN(BF16 " alignment=2", NULL, ATT_OK, "  lock: differs from /tmp", "which cannot be followed: ");
    att_close(session);
    session = open_gpu(path, "NVIDIA H100", 90);
    EXPLAIN(BF16, NULL, ATT_OK, "is for NVIDIA H200 and pins nothing here");
    att_close(session);
    unlink(path);
}

Test(choose, explain_says_why_a_lock_file_cannot_be_followed) {
    const char *path = write_table(LOCKED("block_m: 65"));
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    EXPLAIN(BF16, NULL, ATT_OK, "  lock: differs from /tmp", "which cannot be followed: ");
    att_close(session);
    unlink(path);
}

Test(choose, explain_assumes_sizes_that_make_sense) {
    att_session *session = open_gpu(NULL, "NVIDIA H200", 90);
    EXPLAIN("family=merge", NULL, ATT_OK, " parts=4 (assumed)");
    EXPLAIN("family=append_kv dtype=bf16 head_dim=64 batch=3 len_q=5", NULL, ATT_OK, " total_q=15 (assumed)");
    EXPLAIN("family=attention_backward dtype=bf16 head_dim=64", NULL, ATT_OK, " len_kv=8192 (assumed)");
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=64 layout=ragged", NULL, ATT_OK,
            "  layout      = ragged  (given)");
    att_close(session);
}

Test(choose, explain_says_which_rule_and_why_not_the_others) {
    const char *path = write_table(ROWS);
    char place[64];
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    snprintf(place, sizeof place, "%s:5 measured it best at batch=32 heads=16", path);
    EXPLAIN(BF16 " len_q=600 len_kv=600", NULL, ATT_OK, place, "1.250 times as fast as the next",
            "for launches of batch=27 (assumed) heads=16 (assumed) kv_heads=16 (assumed) len_q=600 len_kv=600\n",
            "would be next: attention_forward_bf16_d16_none_flash_async_m256", "the algorithm for this kind of GPU");
    EXPLAIN(BF16 " alignment=2", NULL, ATT_OK, "the family's first algorithm",
            "passed over: attention_forward_bf16_d16",
            "it copies in boxes, which takes an alignment of 16 bytes; 2 is all that is promised");
    EXPLAIN("family=attention_forward head_dim=8", NULL, ATT_OK, "passed over: flash_async for sm_90a: dtype != fp32");
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=24", NULL, ATT_OK,
            "passed over: flash_async for sm_90a: block_m in");
    EXPLAIN(BF16, "algorithm=flash", ATT_OK, "the algorithm that is asked for");
    EXPLAIN(BF16 " layout=padded append=1", NULL, ATT_OK, "the algorithm that writes new tokens to the cache");
    EXPLAIN(BF16 " layout=padded dtype_kv=e4m3", NULL, ATT_OK, "the algorithm on tensor cores for K and V of 8 bits");
    EXPLAIN(BF16, "threads=33", ATT_UNSUPPORTED,
            "no kernel answers this problem: ", "passed over: flash_async for sm_90a");
    att_close(session);
    unlink(path);
}

Test(choose, explain_names_the_row_of_defaults_that_was_taken) {
    const char *path = write_table(ROWS);
    char text[8192];
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=64 sinks=1", "block_m=128", ATT_OK,
            "block_m     = 128  (given)", "block_n     = 128  (by the row of defaults below)",
            "  row of defaults: attention_flash_async.yaml:", ": d 64 with sinks: 256 x 64 spills\n");
    EXPLAIN(BF16 " len_q=600 len_kv=600", NULL, ATT_OK, "block_m     = 64  (by the rule above)",
            "block_n     = 64  (by the row of defaults below)", ": d 64: four warpgroups");
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=128", NULL, ATT_OK, ": d 128\n");
    cr_assert_eq(
        att_explain(session, BF16, "algorithm=flash_async block_m=64 block_n=64 stages=2", text, sizeof text, NULL),
        ATT_OK);
    cr_expect_null(strstr(text, "row of defaults"), "%s", text);
    att_close(session);
    unlink(path);
}

#define LENT                                                                                                           \
    "best:\n"                                                                                                          \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 80}\n"                                            \
    "    shapes:\n"                                                                                                    \
    "      - shape: {batch: 1, heads: 16, len_q: 512, len_kv: 512}\n"                                                  \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 64, rescale: from_sum, store: tma}\n"         \
    "      - shape: {batch: 1, heads: 16, len_q: 8192, len_kv: 8192}\n"                                                \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 192, block_n: 96, stages: 1}\n"               \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 256}\n"                                           \
    "    shapes:\n"                                                                                                    \
    "      - shape: {batch: 1, heads: 16, len_q: 512, len_kv: 512}\n"                                                  \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 64, block_n: 16}\n"

Test(choose, what_was_measured_for_one_number_format_serves_the_other) {
    const char *path = write_table(LENT);
    char place[64];
    snprintf(place, sizeof place, "%s:5 measured it best for bf16 at", path);
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    EXPLAIN("family=attention_forward dtype=fp16 head_dim=80 batch=1 len_q=512", NULL, ATT_OK, place,
            "fp16_d80_none_flash_async_m64_n96_s2_intra_warpgroup_from_sum_", "block_m     = 64  (by the rule above)",
            "rescale     = from_sum  (the template's choice)");
    EXPLAIN("family=attention_forward dtype=bf16 dtype_out=fp32 head_dim=80 batch=1 len_q=512", NULL, ATT_OK, place,
            "bf16_to_fp32_d80_", "_m64_n96_s2_", "_direct_");
    EXPLAIN("family=attention_forward head_dim=80 len_q=512", NULL, ATT_OK, "the family's first algorithm");
    att_close(session);
    unlink(path);
}

/* A tile of 192 queries and one of 64 take about as long with one tile per SM, so 128 queries are better split. */
#define SHORT " batch=1 heads=66 len_q=128 len_kv=4096"

Test(choose, without_a_row_the_model_chooses_among_what_was_best_for_larger_heads) {
    const char *path = write_table(LENT);
    static const char problem[] = "family=attention_forward dtype=bf16 head_dim=72" SHORT;
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    EXPLAIN(problem, NULL, ATT_OK, "bf16_d72_none_flash_async_m64_n96_s2_intra_warpgroup_from_sum_",
            "the model: ", "us are predicted, ",
            "us with the template's defaults; it was measured best for head_dim=80 (/tmp",
            "would be next: attention_forward_bf16_d72_none_flash_async_m192_n96_s2");
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=72 len_q=16384", NULL, ATT_OK,
            "d72_none_flash_async_m192_n96_s2", "us are predicted with the template's defaults, and",
            "not clearly less with a schedule that was measured best for head_dim=80");
    cr_expect(strstr(first(session, problem, "stages=2"), "_m192_"), "a schedule of one's own comes first");
    cr_expect(strstr(first(session, "family=attention_forward dtype=bf16 head_dim=72 alignment=2" SHORT, NULL),
                     "_flash_mma_"));
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=72 mask=causal" SHORT, NULL, ATT_OK,
            "chosen by: the algorithm for this kind of GPU");
    att_close(session);
    session = open_gpu(path, "NVIDIA H200", 90);
    session->modelled = false; /* no file of devices/ describes this device */
    EXPLAIN(problem, NULL, ATT_OK, "_m192_n96_s2_", "chosen by: the algorithm for this kind of GPU");
    att_close(session);
    unlink(path);
}

/* Tiles of 256 queries suit 512 queries, but for 384 queries they would compute 512. */
#define STEP                                                                                                           \
    "best:\n"                                                                                                          \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 64}\n"                                            \
    "    shapes:\n"                                                                                                    \
    "      - shape: {batch: 32, heads: 32, len_q: 512, len_kv: 512}\n"                                                 \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 256, block_n: 64, stages: 3}\n"               \
    "      - shape: {batch: 1, heads: 32, len_q: 16384, len_kv: 16384}\n"                                              \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 128, block_n: 128, stages: 2}\n"

Test(choose, the_model_takes_what_was_measured_from_one_shape_to_another) {
    const char *path = write_table(STEP);
    static const char d64[] = "family=attention_forward dtype=bf16 head_dim=64 heads=32";
    char problem[128], place[64];
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    snprintf(problem, sizeof problem, "%s batch=32 len_q=512", d64);
    snprintf(place, sizeof place, "%s:5 measured it best at batch=32", path);
    EXPLAIN(problem, NULL, ATT_OK, "_m256_n64_s3_", place);
    snprintf(problem, sizeof problem, "%s batch=32 len_q=384", d64);
    snprintf(place, sizeof place, "us with what %s:5 measured best at batch=32", path);
    EXPLAIN(problem, NULL, ATT_OK, "the model: ", "us are predicted", place);
    cr_expect_not(strstr(first(session, problem, NULL), "_m256_"));
    session->modelled = false;
    cr_expect(strstr(first(session, problem, NULL), "_m256_"), "the nearest row");
    att_close(session);
    unlink(path);
}

/* The model predicts equal times to within one per cent; measured, clusters are a tenth faster. */
#define CLUSTERS                                                                                                       \
    "best:\n"                                                                                                          \
    "  - problem: {family: attention_forward, dtype: bf16, head_dim: 192}\n"                                           \
    "    shapes:\n"                                                                                                    \
    "      - shape: {batch: 128, heads: 16, len_q: 128, len_kv: 128}\n"                                                \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 128, block_n: 64, overlap: both}\n"           \
    "      - shape: {batch: 32, heads: 16, len_q: 512, len_kv: 512}\n"                                                 \
    "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 128, block_n: 64, overlap: both, cluster: "   \
    "2}\n"

Test(choose, the_nearest_row_stands_when_little_is_predicted_to_change) {
    const char *path = write_table(CLUSTERS);
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=192 batch=32 heads=10 len_q=512", NULL, ATT_OK, "_c2_",
            "measured it best at batch=32");
    att_close(session);
    unlink(path);
}

Test(choose, the_model_never_chooses_what_is_out_of_service) {
    const char *path =
        write_table(LENT "deny:\n"
                         "  - variant: {family: attention_forward, algorithm: flash_async, block_m: 64}\n"
                         "    because: it hangs\n");
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    EXPLAIN("family=attention_forward dtype=bf16 head_dim=72" SHORT, NULL, ATT_OK, "_m192_n96_s2_",
            "not clearly less with a schedule that was measured best for head_dim=80");
    att_close(session);
    unlink(path);
}

Test(choose, denied_variants_are_out_of_service) {
    const char *path = write_table("deny:\n"
                                   "  - variant: {family: attention_forward, algorithm: flash_async, head_dim: 16}\n"
                                   "    because: it hangs\n"
                                   "  - variant: {family: attention_forward, algorithm: flash_async, head_dim: 32}\n"
                                   "    version: 0.0.1\n"
                                   "    because: it was slow once\n");
    att_kernel *kernel;
    char words[96];
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    snprintf(words, sizeof words, "out of service on NVIDIA H200: it hangs (%s:3)", path);
    cr_expect(strstr(first(session, BF16, NULL), "_flash_mma_"));
    cr_expect(strstr(first(session, "family=attention_forward dtype=bf16 head_dim=32", NULL), "_flash_async_"));
    cr_expect_eq(att_find(session, BF16 " target=sm_90a", "algorithm=flash_async", &kernel), ATT_UNSUPPORTED);
    cr_expect(strstr(att_message(session), words), "%s", att_message(session));
    EXPLAIN(BF16, NULL, ATT_OK, words);
    att_close(session);
    unlink(path);
}

Test(choose, a_table_that_cannot_be_read_is_an_error_at_open) {
    const char *path = write_table("best: [{problem: {family: merge}}]\n");
    static const char *const words[] = {":2:8: error: an entry of best needs the key 'shapes'",
                                        "cannot be read: No such"};
    const char *const tables[] = {path, "/nonexistent/table.yaml"};
    static const enum att_status statuses[] = {ATT_INVALID_TEXT, ATT_IO};
    for (int i = 0; i < 2; i++) {
        const struct att_options options = {
            .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .tuned_table = tables[i]};
        att_session *session;
        cr_expect_eq(att_open(&options, &session), statuses[i]);
        cr_expect(strstr(att_message(session), words[i]), "%s", att_message(session));
        att_close(session);
    }
    unlink(path);
}

Test(choose, every_row_of_the_shipped_tables_is_a_variant_of_its_device) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    DIR *folder = opendir(SOURCE_DIR "/tuned");
    cr_assert(set && folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t size;
        struct text file = {0};
        const char *text = tuned_embedded(entry->d_name, &size);
        if (!strstr(entry->d_name, ".yaml"))
            continue;
        cr_assert(text, "%s is built in", entry->d_name);
        struct tuned *tuned = tuned_read(entry->d_name, text, size, &diag);
        cr_assert(tuned, "%s", text_string(&diag.text));
        struct text again = {0};
        tuned_write(tuned, &again);
        cr_expect_str_eq(text_string(&again), text, "excerpts want it as tuned_write writes it");
        text_free(&again);
        tuned_file_name(tuned->device, &file);
        cr_expect_str_eq(text_string(&file), entry->d_name, "the name by which it is found");
        for (int i = 0; i < tuned->rows; i++) {
            const struct knobs *said[] = {&tuned->row[i].problem, &tuned->row[i].schedule};
            struct knobs knobs = knobs_default();
            struct variant variant;
            for (int id = 0; id < 2 * KNOB_COUNT; id++)
                if (knob_get(said[id / KNOB_COUNT], id % KNOB_COUNT) != AUTO)
                    knob_set(&knobs, id % KNOB_COUNT, knob_get(said[id / KNOB_COUNT], id % KNOB_COUNT));
            cr_expect(variant_complete(set, &knobs, false, &variant), "%s:%d: %s", entry->d_name, tuned->row[i].line,
                      variant.reason);
        }
        text_free(&file);
        tuned_free(tuned);
    }
    closedir(folder);
    template_set_close(set);
    diag_free(&diag);
}

/* --- names of earlier versions ------------------------------------------------------------------------------------ */

Test(choose, the_old_name_of_the_number_of_keys_is_read_and_noted) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *before, *now;
    cr_assert_eq(att_find(session, BF16 " mask=\"k < len_k - 1\"", NULL, &before), ATT_OK, "%s", att_message(session));
    cr_expect(strstr(text_string(&logged), "<problem>:1: note: 'len_k' is called 'len_kv' now"), "%s",
              text_string(&logged));
    cr_assert_eq(att_find(session, BF16 " mask=\"k < len_kv - 1\"", NULL, &now), ATT_OK, "%s", att_message(session));
    cr_expect_eq(before, now);
    att_close(session);
}

/* --- kernels that do not compile ---------------------------------------------------------------------------------- */

Test(choose, what_does_not_compile_is_passed_over_unless_it_was_asked_for) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *kernel, *again;
    uncompilable = "flash_async";
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    cr_expect(strstr(att_kernel_name(kernel), "_flash_mma_"));
    cr_expect(strstr(text_string(&logged), "is passed over: refused on purpose"), "%s", text_string(&logged));
    cr_expect_eq(compiles,
                 7); /* three schedules of flash_async, each with and without splits, and the one that compiles */
    cr_assert_eq(att_find(session, BF16, NULL, &again), ATT_OK);
    cr_expect(again == kernel && compiles == 7, "the choice is kept");
    cr_expect_eq(att_find(session, BF16, "algorithm=flash_async", &kernel), ATT_COMPILE_FAILED);
    /* as when there are too few registers */
    uncompilable = "_m192_";
    cr_assert_eq(att_find(session, BF16 " dtype_out=fp32", NULL, &kernel), ATT_OK, "%s", att_message(session));
    cr_expect(strstr(att_kernel_name(kernel), "_flash_async_m128_n64_"), "%s", att_kernel_name(kernel));
    uncompilable = "_intra_warpgroup_";
    cr_assert_eq(att_find(session, "family=attention_forward dtype=bf16 head_dim=192", NULL, &kernel), ATT_OK, "%s",
                 att_message(session));
    cr_expect(strstr(att_kernel_name(kernel), "_flash_async_") && strstr(att_kernel_name(kernel), "_off_"), "%s",
              att_kernel_name(kernel));
    uncompilable = "attention";
    cr_expect_eq(att_find(session, BF16 " mask=causal", NULL, &kernel), ATT_COMPILE_FAILED);
    cr_expect(strstr(att_message(session), "refused on purpose"));
    att_close(session);
}

/* --- arguments that the choice cannot take ------------------------------------------------------------------------ */

enum { B = 1, H = 2, L = 9, D = 16, GAP = 3, ELEMENTS = B * H * L * (D + GAP) };

static unsigned short bf16(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return (unsigned short)(bits >> 16);
}

static float from_bf16(unsigned short x) {
    unsigned bits = (unsigned)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct run {
    enum att_status status;
    unsigned short o[ELEMENTS];
};

/* Runs attention on rows of D elements, `pitch` apart. */
static struct run run(att_session *session, att_kernel *kernel, int pitch, float scale) {
    struct run result = {0};
    unsigned short values[3][ELEMENTS];
    void *tensor[4];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < ELEMENTS; j++)
            values[i][j] =
                j % pitch < D ? bf16((float)((i + 7 * (j / pitch) + 3 * (j % pitch)) % 11) / 8 - 0.5f) : 0x7fff;
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(att_alloc(session, sizeof result.o, &tensor[i]), ATT_OK);
        att_copy_in(session, tensor[i], i < 3 ? values[i] : result.o, sizeof result.o);
    }
    struct att_tensor t[4];
    for (int i = 0; i < 4; i++)
        t[i] = (struct att_tensor){tensor[i], H * L * pitch, L * pitch, pitch};
    struct att_args args = {
        .size = sizeof args,
        .family = ATT_ATTENTION_FORWARD,
        .attention = {t[0], t[1], t[2], t[3], .batch = B, .heads = H, .len_q = L, .len_kv = L, .scale = scale}};
    result.status = att_launch(kernel, &args, NULL);
    att_copy_out(session, result.o, tensor[3], sizeof result.o);
    for (int i = 0; i < 4; i++)
        att_free(session, tensor[i]);
    return result;
}

static void expect_near(const struct run *a, int pitch_a, const struct run *b, int pitch_b) {
    for (int row = 0; row < B * H * L; row++)
        for (int d = 0; d < D; d++) {
            float x = from_bf16(a->o[row * pitch_a + d]), y = from_bf16(b->o[row * pitch_b + d]);
            cr_assert(fabsf(x - y) < 0.004f, "row %d, element %d: %g and %g", row, d, (double)x, (double)y);
        }
}

/* A kernel for arguments that this one cannot take belongs to another problem. */
Test(choose, arguments_that_a_kernel_cannot_take_are_refused_with_the_words_that_find_one) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    static const char *const cases[][2] = {
        {BF16, NULL}, {BF16 " alignment=16", NULL}, {BF16, "algorithm=flash_async splits=0"}};
    static const char *const says[] = {"elements of 2 bytes, expected a multiple of 16", "alignment=1 in a problem"};
    struct run aligned, odd;
    att_kernel *kernel;
    for (int i = 0, before = 0; i < 3; i++, before = compiles) {
        cr_assert_eq(att_find(session, cases[i][0], cases[i][1], &kernel), ATT_OK, "%s", att_message(session));
        cr_assert(strstr(att_kernel_name(kernel), "_flash_async_"));
        cr_expect_eq(compiles - before, i != 1, "%d in case %d", compiles - before, i);
        cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
        cr_expect_eq(run(session, kernel, D + GAP, 0).status, ATT_INVALID_ARGUMENT);
        for (int j = 0; j < 2; j++)
            cr_expect(strstr(att_message(session), says[j]), "%s", att_message(session));
        aligned = run(session, kernel, D, 0);
        cr_assert_eq(aligned.status, ATT_OK, "%s", att_message(session));
    }
    cr_assert_eq(att_find(session, BF16 " alignment=1", NULL, &kernel), ATT_OK, "%s", att_message(session));
    odd = run(session, kernel, D + GAP, 0);
    cr_assert_eq(odd.status, ATT_OK, "%s", att_message(session));
    expect_near(&odd, D + GAP, &aligned, D);
    att_close(session);
}

/* --- launches whose sizes were not known ---------------------------------------------------------------------------- */

/* For any sizes, without hints, a launch takes the kernel that hints would have found. */
/* One launch in tiles of 96 keys or three in tiles of 128, dQ in memory or in registers, and steps of 128 or 64 queries: by
   hints, and by the sizes of launches without hints. */
Test(choose, short_gradients_take_another_schedule) {
    static const struct {
        const char *problem, *sizes, *word;
    } cases[] = {
        {"head_dim=192", "batch=4 heads=10 len_q=4096 len_kv=4096", "_n96_"},
        {"head_dim=192", "batch=1 heads=3 len_q=4096 len_kv=4096", "_n96_"},              /* 129 items, for 132 SMs */
        {"head_dim=192", "batch=32 heads=10 len_q=256 len_kv=256", "_n128_"},             /* four steps */
        {"head_dim=192", "batch=32 heads=10 len_q=257 len_kv=257", "_n96_"},              /* five steps */
        {"head_dim=192", "batch=1 heads=5 len_q=2048 len_kv=2048", "_n128_"},             /* 110 items */
        {"head_dim=192", "batch=4 heads=8 kv_heads=1 len_q=4096 len_kv=4096", "_n96_"},   /* 172 items, 512 steps */
        {"head_dim=192", "batch=1 heads=40 kv_heads=8 len_q=2048 len_kv=2048", "_n128_"}, /* 176 items, 160 steps */
        {"head_dim=192", "batch=1 heads=48 kv_heads=8 len_q=2048 len_kv=2048", "_n96_"},  /* 176 items, 192 steps */
        {"head_dim=192", "batch=8 heads=32 kv_heads=8 len_q=2048 len_kv=2048", "_n96_"},  /* 1408 items, 128 steps */
        {"head_dim=192", "batch=8 heads=48 kv_heads=6 len_q=1984 len_kv=1984", "_n128_"}, /* 31 steps of a head */
        {"head_dim=192", "batch=1 heads=16 kv_heads=4 len_q=2048 len_kv=2048", "_n96_"},  /* 88 items */
        {"head_dim=192", "batch=1 heads=32 kv_heads=8 len_q=576 len_kv=576", "_n128_"},   /* nine steps of a head */
        {"head_dim=192", "batch=1 heads=32 kv_heads=4 len_q=960 len_kv=960",
         "_n128_"}, /* 15 steps of a head, 40 items */
        {"head_dim=192", "batch=1 heads=32 kv_heads=4 len_q=1024 len_kv=1024", "_n96_"}, /* 16 steps, 44 items */
        {"head_dim=192 mask=none", "batch=1 heads=32 kv_heads=4 len_q=700 len_kv=700",
         "_n96_"}, /* 32 items, 88 steps */
        {"head_dim=192 mask=none", "batch=1 heads=22 kv_heads=11 len_q=700 len_kv=700",
         "_n128_"},                                                           /* 88 items, 22 steps */
        {"head_dim=192", "batch=24 heads=14 len_q=640 len_kv=640", "_n96_"},  /* ten steps */
        {"head_dim=192", "batch=2 heads=16 len_q=1024 len_kv=1024", "_n96_"}, /* 352 items, three rounds, 16 steps */
        {"head_dim=192 mask=none", "batch=2 heads=16 len_q=1024 len_kv=1024",
         "_n128_"}, /* 11 tiles of 96 have room for 1056 keys */
        {"head_dim=192 mask=none", "batch=2 heads=16 len_q=1056 len_kv=1056", "_n96_"},
        {"head_dim=192 mask=none", "batch=32 heads=10 len_q=512 len_kv=512", "_n128_"}, /* room for 576 keys */
        {"head_dim=192 mask=none", "batch=32 heads=10 len_q=600 len_kv=600", "_n96_"},
        {"head_dim=192 mask=none", "batch=6 heads=12 len_q=450 len_kv=450", "_n96_"},   /* room for 480 keys, not 512 */
        {"head_dim=192 mask=none", "batch=2 heads=10 len_q=1150 len_kv=1150", "_n96_"}, /* as much room */
        {"head_dim=192 mask=none", "batch=2 heads=10 len_q=1280 len_kv=1280", "_n96_"}, /* 280 items of 20 steps */
        {"head_dim=192 mask=none", "batch=1 heads=38 len_q=1024 len_kv=1024", "_n96_"}, /* 418 items */
        {"head_dim=192 mask=none", "batch=2 heads=16 len_q=960 len_kv=960", "_n96_"},   /* room for 960 keys */
        {"head_dim=192 mask=none", "batch=32 heads=10 len_q=1000 len_kv=512", "_n96_"}, /* 16 steps */
        {"head_dim=192 mask=none", "batch=1 heads=5 len_q=2048 len_kv=2048", "_n128_"}, /* 110 items */
        {"head_dim=192 mask=none", "batch=16 heads=32 kv_heads=8 len_q=576 len_kv=576", "_n128_"}, /* nine steps */
        {"head_dim=192 mask=none", "batch=16 heads=32 kv_heads=8 len_q=577 len_kv=577", "_n96_"},
        {"head_dim=192 mask=none", "batch=1 heads=22 kv_heads=11 len_q=780 len_kv=780",
         "_n96_"},                                                           /* 99 items, 26 steps */
        {"head_dim=192", "batch=2 heads=8 len_q=1700 len_kv=1700", "_n96_"}, /* 288 items, 27 steps */
        {"head_dim=192 mask=none", "batch=1 heads=32 kv_heads=8 len_q=2048 len_kv=2048",
         "_n96_"},                                                                        /* 176 items, 128 steps */
        {"head_dim=192", "batch=8 heads=32 kv_heads=8 len_q=1024 len_kv=1024", "_n128_"}, /* 704 items, 64 steps */
        {"head_dim=192 mask=none", "batch=8 heads=32 kv_heads=8 len_q=1024 len_kv=1024", "_n96_"},
        {"head_dim=192", "batch=4 heads=32 kv_heads=8 len_q=4096 len_kv=4096", "_n96_"}, /* 1376 items */
        {"head_dim=192", "batch=1 heads=32 kv_heads=4 len_q=6000 len_kv=6000", "_n96_"}, /* 752 steps */
        {"head_dim=192", "batch=2147483647 heads=2147483647 len_q=2147483647 len_kv=2147483647", "_n96_"},
        {"head_dim=192 layout=padded", "batch=4 heads=10 len_q=4096 len_kv=4096", "_n128_"},   /* not measured */
        {"head_dim=192 deterministic=1", "batch=4 heads=20 len_q=4032 len_kv=4032", "_n128_"}, /* 63 steps */
        {"head_dim=192 deterministic=1", "batch=4 heads=20 len_q=4033 len_kv=4033", "_n96_"},
        {"head_dim=192 deterministic=1", "batch=4 heads=32 kv_heads=8 len_q=1500 len_kv=1500",
         "_n128_"},                                                                           /* 24 steps of a head */
        {"head_dim=192 deterministic=1", "batch=1 heads=9 len_q=4224 len_kv=4224", "_n128_"}, /* 396 items */
        {"head_dim=192 deterministic=1 mask=none", "batch=1 heads=8 len_q=3168 len_kv=3168", "_n96_"},
        {"head_dim=192 deterministic=1 mask=none", "batch=1 heads=3 len_q=4096 len_kv=4096", "_n128_"}, /* 129 items */
        {"head_dim=192 deterministic=1 mask=none", "batch=8 heads=10 len_q=1024 len_kv=1024", "_n96_"}, /* 16 steps */
        {"head_dim=192 deterministic=1 mask=none", "batch=9 heads=10 len_q=960 len_kv=960", "_n128_"},
        {"head_dim=192 deterministic=1 layout=padded", "batch=4 heads=10 len_q=4096 len_kv=4096", "_n128_"},
        {"head_dim=256 mask=none", "batch=1 heads=8 len_q=2048 len_kv=2048", "_dq_memory_"}, /* 128 items */
        {"head_dim=256 mask=none", "batch=1 heads=11 len_q=1024 len_kv=1024",
         "_dq_registers_"}, /* 88 for 66 clusters */
        {"head_dim=256 mask=none", "batch=1 heads=89 len_q=128 len_kv=128", "_dq_memory_"},
        {"head_dim=256 mask=none", "batch=1 heads=11 len_q=512 len_kv=512", "_dq_registers_"},           /* 44 items */
        {"head_dim=256 mask=none", "batch=1 heads=32 kv_heads=3 len_q=1920 len_kv=1920", "_dq_memory_"}, /* 45 items */
        {"head_dim=256 mask=none", "batch=1 heads=16 kv_heads=1 len_q=512 len_kv=512", "_dq_registers_"},
        {"head_dim=256 mask=none", "batch=1 heads=133 len_q=128 len_kv=128", "_dq_memory_"}, /* two thirds of 198 */
        {"head_dim=256", "batch=4 heads=8 len_q=4096 len_kv=4096", "_dq_memory_"},
        {"head_dim=256", "batch=1 heads=5 len_q=2048 len_kv=2048", "_dq_memory_"}, /* 80 items */
        {"head_dim=256", "batch=1 heads=79 len_q=128 len_kv=128", "_dq_registers_"},
        {"head_dim=256", "batch=1 heads=12 kv_heads=3 len_q=4096 len_kv=4096", "_dq_registers_"}, /* 96 items */
        {"head_dim=256", "batch=1 heads=198 kv_heads=99 len_q=128 len_kv=128", "_dq_memory_"},
        {"head_dim=256 mask=none deterministic=1", "batch=4 heads=8 len_q=4096 len_kv=4096", "_dq_memory_"},
        {"head_dim=256 mask=none deterministic=1", "batch=2 heads=8 len_q=1024 len_kv=1024",
         "_dq_registers_"}, /* 128 items of 16 steps */
        {"head_dim=256 mask=none deterministic=1", "batch=2 heads=8 len_q=1025 len_kv=1024", "_dq_memory_"},
        {"head_dim=256 mask=none deterministic=1", "batch=3 heads=8 len_q=1024 len_kv=1024", "_dq_memory_"},
        {"head_dim=256 deterministic=1", "batch=4 heads=8 len_q=1024 len_kv=1024", "_dq_memory_"},
        {"head_dim=256 deterministic=1", "batch=4 heads=32 kv_heads=4 len_q=1024 len_kv=1024",
         "_dq_registers_"}, /* 128 items */
        {"head_dim=256 deterministic=1", "batch=9 heads=32 kv_heads=4 len_q=1024 len_kv=1024", "_dq_memory_"},
        {"head_dim=256 deterministic=1", "batch=1 heads=11 len_q=1024 len_kv=1024", "_dq_registers_"}, /* 88 items */
        {"head_dim=256 deterministic=1", "batch=1 heads=13 len_q=1024 len_kv=1024", "_dq_memory_"},    /* 104 items */
        {"head_dim=256 deterministic=1", "batch=2 heads=32 kv_heads=4 len_q=2048 len_kv=2048", "_dq_memory_"},
        {"head_dim=256 mask=none layout=padded", "batch=4 heads=8 len_q=4096 len_kv=4096", "_dq_registers_"},
        {"head_dim=248 mask=none", "batch=4 heads=8 len_q=4096 len_kv=4096", "_dq_registers_"},
        {"head_dim=64", "batch=2 heads=32 len_q=512 len_kv=512", "_m64_"},             /* 256 items */
        {"head_dim=64", "batch=32 heads=32 len_q=512 len_kv=512", "_m128_"},           /* 4096 items */
        {"head_dim=64", "batch=4 heads=16 len_q=777 len_kv=777", "_m64_"},             /* 448 items: 3.4 for each SM */
        {"head_dim=64", "batch=1 heads=32 len_q=900 len_kv=900", "_m64_"},             /* 256 items */
        {"head_dim=64", "batch=1 heads=32 len_q=901 len_kv=901", "_m128_"},            /* as many, of more steps */
        {"head_dim=64", "batch=1 heads=11 len_q=1536 len_kv=1536", "_m64_"},           /* 132 items */
        {"head_dim=64", "batch=1 heads=12 len_q=1536 len_kv=1536", "_m128_"},          /* 144 items */
        {"head_dim=64", "batch=1 heads=4 len_q=4096 len_kv=4096", "_m128_"},           /* 128 items, of many steps */
        {"head_dim=64", "batch=4 heads=32 kv_heads=4 len_q=512 len_kv=512", "_m128_"}, /* 64 items of eight heads */
        {"head_dim=64 deterministic=1", "batch=2 heads=32 len_q=512 len_kv=512", "_dq_memory_"},    /* 256 items */
        {"head_dim=64 deterministic=1", "batch=1 heads=32 len_q=640 len_kv=640", "_dq_registers_"}, /* 160 items */
        {"head_dim=128 deterministic=1", "batch=8 heads=32 len_q=4096 len_kv=4096", "_dq_memory_"},
        {"head_dim=128 deterministic=1", "batch=32 heads=16 len_q=512 len_kv=512", "_dq_registers_"},
        {"head_dim=128 deterministic=1", "batch=32 heads=16 len_q=513 len_kv=513", "_dq_memory_"},
        {"head_dim=128 deterministic=1", "batch=1 heads=10 len_q=4096 len_kv=4096", "_dq_registers_"}, /* 320 items */
        {"head_dim=128 deterministic=1", "batch=1 heads=11 len_q=4096 len_kv=4096", "_dq_memory_"},    /* 352 items */
        {"head_dim=128 deterministic=1", "batch=1 heads=32 kv_heads=4 len_q=1792 len_kv=1792",
         "_dq_registers_"}, /* 448 parts */
        {"head_dim=128 deterministic=1", "batch=1 heads=32 kv_heads=4 len_q=2048 len_kv=2048",
         "_dq_memory_"}, /* 512 parts */
        {"head_dim=64 deterministic=1", "batch=1 heads=8 kv_heads=1 len_q=2560 len_kv=2560",
         "_dq_registers_"}, /* 160 parts */
        {"head_dim=64 deterministic=1", "batch=1 heads=8 kv_heads=1 len_q=2688 len_kv=2688",
         "_dq_memory_"}, /* 168 parts */
        {"head_dim=128 deterministic=1 mask=none", "batch=1 heads=6 len_q=4096 len_kv=4096", "_dq_memory_"}, /* 192 */
        {"head_dim=128 deterministic=1 mask=none", "batch=32 heads=16 len_q=512 len_kv=512", "_dq_memory_"},
        {"head_dim=128 deterministic=1 layout=padded", "batch=8 heads=32 len_q=4096 len_kv=4096",
         "_dq_registers_"}, /* not measured */
        {"head_dim=96 deterministic=1", "batch=8 heads=32 len_q=4096 len_kv=4096", "_dq_memory_"},
        {"head_dim=96 deterministic=1", "batch=2 heads=8 len_q=2048 len_kv=2048", "_dq_registers_"}, /* 256 items */
        {"head_dim=96 deterministic=1 mask=none", "batch=1 heads=12 len_q=2048 len_kv=2048",
         "_dq_registers_"}, /* 192 items */
        {"head_dim=96 deterministic=1 mask=none", "batch=1 heads=14 len_q=2048 len_kv=2048", "_dq_memory_"}, /* 224 */
        {"head_dim=96 deterministic=1 layout=padded", "batch=8 heads=32 len_q=4096 len_kv=4096",
         "_dq_registers_"},                                                            /* not measured */
        {"head_dim=64", "batch=1 heads=16 len_q=1024 len_kv=1024", "_dq_registers_"},  /* 128 items */
        {"head_dim=128", "batch=1 heads=16 len_q=1024 len_kv=1024", "_dq_registers_"}, /* 128 items */
        {"head_dim=128", "batch=1 heads=16 len_q=1025 len_kv=1025", "_dq_memory_"},
        {"head_dim=128", "batch=1 heads=17 len_q=1024 len_kv=1024", "_dq_memory_"},              /* 136 items */
        {"head_dim=128", "batch=1 heads=32 kv_heads=4 len_q=512 len_kv=512", "_dq_memory_"},     /* 4096 queries */
        {"head_dim=128", "batch=1 heads=8 kv_heads=1 len_q=1536 len_kv=1536", "_dq_registers_"}, /* 96 parts */
        {"head_dim=128", "batch=1 heads=8 kv_heads=1 len_q=1664 len_kv=1664", "_dq_memory_"},    /* 104 parts */
        {"head_dim=128 mask=none", "batch=1 heads=8 kv_heads=1 len_q=512 len_kv=512", "_dq_registers_"}, /* 32 parts */
        {"head_dim=128 mask=none", "batch=1 heads=8 kv_heads=1 len_q=640 len_kv=640", "_dq_memory_"},    /* 40 parts */
        {"head_dim=128 mask=none", "batch=1 heads=4 len_q=2048 len_kv=2048", "_dq_registers_"},          /* 64 items */
        {"head_dim=128 mask=none", "batch=1 heads=5 len_q=2048 len_kv=2048", "_dq_memory_"},             /* 80 items */
        {"head_dim=128 mask=none", "batch=1 heads=116 len_q=512 len_kv=512", "_none_deterministic1_"},   /* 464 items */
        {"head_dim=128 mask=none", "batch=1 heads=115 len_q=512 len_kv=512", "_none_flash_async_"},      /* 460 items */
        {"head_dim=104 mask=none", "batch=8 heads=16 len_q=640 len_kv=640", "_none_deterministic1_"}, /* five tiles */
        {"head_dim=128 mask=none", "batch=8 heads=16 len_q=641 len_kv=641", "_none_flash_async_"},    /* six tiles */
        {"head_dim=256 mask=none", "batch=8 heads=16 len_q=640 len_kv=640", "_none_deterministic1_"},
        {"head_dim=64 mask=none", "batch=32 heads=16 len_q=128 len_kv=128", "_none_deterministic1_"}, /* 512 items */
        {"head_dim=64 mask=none", "batch=1 heads=461 len_q=256 len_kv=256", "_none_flash_async_"},    /* 922 items */
        {"head_dim=64 mask=none", "batch=1 heads=462 len_q=256 len_kv=256", "_none_deterministic1_"}, /* 924 items */
        {"head_dim=96 mask=none", "batch=64 heads=16 len_q=257 len_kv=257", "_none_flash_async_"},    /* three tiles */
        {"head_dim=64 head_dim_v=128 mask=none", "batch=16 heads=16 len_q=257 len_kv=257", "_none_deterministic1_"},
        {"head_dim=192 mask=none", "batch=16 heads=16 len_q=600 len_kv=600", "_none_flash_async_"}, /* not faster */
        {"head_dim=128 mask=none dropout=1", "batch=32 heads=16 len_q=512 len_kv=512", "_none_dropout1_flash_async_"},
        {"head_dim=128", "batch=32 heads=16 len_q=512 len_kv=512", "_causal_flash_async_"},
        {"head_dim=128 dropout=1", "batch=1 heads=4 len_q=512 len_kv=512", "_dq_memory_"}, /* not measured */
        {"head_dim=64 layout=padded", "batch=2 heads=32 len_q=512 len_kv=512", "_m128_"},  /* not measured */
    };
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char hinted[256], problem[128];
        struct request request, known;
        struct choice choice = {0}, open = {0};
        struct failure failure = {0};
        snprintf(problem, sizeof problem, "family=attention_backward dtype=bf16 %s%s",
                 strstr(cases[i].problem, "mask=") ? "" : "mask=causal ", cases[i].problem);
        snprintf(hinted, sizeof hinted, "%s %s", problem, cases[i].sizes);
        cr_assert_eq(choose_read(session, hinted, NULL, &known, &failure), ATT_OK, "%s", hinted);
        cr_assert(choose_next(session, &known, &choice, NULL));
        cr_expect(strstr(choice.variant.name, cases[i].word), "%s: %s", hinted, choice.variant.name);

        cr_assert_eq(choose_read(session, problem, NULL, &request, &failure), ATT_OK);
        cr_assert(choose_next(session, &request, &open, NULL));
        known.hints.shape.sm_count = session->info.sm_count;
        const int size_class =
            choose_has_classes(&request, &open) ? choose_class(&request, &open.variant, &known.hints.shape, true) : -1;
        if (size_class >= 0)
            cr_assert(choose_for_class(session, &request, size_class, &open), "%s", hinted);
        cr_expect_str_eq(open.variant.name, choice.variant.name, "%s", hinted);
    }
    att_close(session);
}

Test(choose, launches_take_what_hints_of_their_sizes_would_find) {
    static const struct {
        const char *problem, *sizes, *word;
    } cases[] = {
        {"head_dim=128", "batch=1 heads=8 len_q=512 len_kv=512", "_m64_n128_s2_"},
        {"head_dim=128 mask=causal", "batch=1 heads=16 len_q=1024 len_kv=1024", "_m64_n64_s4_"},
        {"head_dim=128 mask=causal", "batch=1 heads=32 len_q=1024 len_kv=1024", "_m128_n128_s2_both_lazy_"},
        {"head_dim=128", "batch=1 heads=16 len_q=1024 len_kv=1024", "_m128_n128_s2_both_lazy_sections_per_tile_"},
        {"head_dim=128 mask=causal", "batch=4 heads=12 len_q=777 len_kv=777", "_m128_n128_s2_both_lazy_"},
        {"head_dim=256 mask=causal", "batch=1 heads=16 len_q=1024 len_kv=1024", "_m64_n64_s2_"},
        {"head_dim=64 mask=\"k <= q and q - k < 99\"", "batch=1 heads=16 len_q=1024 len_kv=1024", "_m128_n64_s3_"},
        {"head_dim=128", "batch=1 heads=32 kv_heads=8 len_q=16 len_kv=9000", "_m64_n128_"},
        {"head_dim=128", "batch=1 heads=32 kv_heads=8 len_q=32 len_kv=9000",
         "_both_lazy_sections_persistent_tma_gqa1_"},
        {"head_dim=128", "batch=9 heads=32 kv_heads=8 len_q=64 len_kv=9000",
         "_both_from_sum_sections_persistent_tma_gqa1_"},
        {"head_dim=64 mask=causal", "batch=3 heads=16 kv_heads=2 len_q=48 len_kv=9000", "_m128_n128_s2_both_lazy_"},
        {"head_dim=64 mask=causal", "batch=1 heads=32 kv_heads=8 len_q=48 len_kv=24000",
         "_m128_n128_s2_both_lazy_sections_persistent_tma_gqa1_splits0_"},
        {"head_dim=96", "batch=1 heads=32 kv_heads=8 len_q=48 len_kv=24000", "_m128_n128_s2_both_lazy_"},
        {"head_dim=128 target=sm_80", "batch=1 heads=32 kv_heads=8 len_q=64 len_kv=9000",
         "_from_sum_sections_direct_gqa1_"},
        {"head_dim=128 mask=causal", "batch=9 heads=32 kv_heads=8 len_q=1 len_kv=9000", "_decode_m8_"},
        {"head_dim=128 mask=causal", "batch=9 heads=32 kv_heads=8 len_q=4 len_kv=9000", "_m64_n128_"},
        {"head_dim=128", "batch=1 heads=32 kv_heads=1 len_q=1 len_kv=9000", "_decode_m8_"},
        {"head_dim=128", "batch=1 heads=32 kv_heads=1 len_q=1 len_kv=900000", "_lazy_sections_persistent_tma_gqa1_"},
        {"head_dim=128", "batch=1 heads=16 kv_heads=1 len_q=1 len_kv=900000", "_decode_m16_"},
        {"head_dim=128", "batch=64 heads=64 kv_heads=8 len_q=1 len_kv=1024", "_lazy_sections_persistent_tma_gqa1_"},
        {"head_dim=64", "batch=64 heads=64 kv_heads=8 len_q=4 len_kv=8192", "_m64_n256_s3_"},
        {"head_dim=128 layout=ragged", "batch=9 heads=32 kv_heads=8 len_q=4 len_kv=9000", "_decode_m16_"},
        {"head_dim=128 target=sm_80", "batch=9 heads=32 kv_heads=8 len_q=8 len_kv=9000", "_decode_m32_"},
        {"head_dim=64 target=sm_80", "batch=1 heads=32 kv_heads=32 len_q=512 len_kv=512", "_m64_n128_t128_s2_halves_"},
        {"head_dim=128 mask=causal", "batch=9 heads=32 kv_heads=32 len_q=1024 len_kv=1024", "_both_lazy_"},
        {"head_dim=64 mask=causal", "batch=9 heads=32 kv_heads=32 len_q=4096 len_kv=4096", NULL},
        {"head_dim=64 layout=padded", "batch=1 heads=8 kv_heads=8 len_q=512 len_kv=512", NULL},
        {"head_dim=64 fixed_len_q=4", "batch=1 heads=8 kv_heads=8 len_q=4 len_kv=512", NULL},
        {"head_dim=64 batch_invariant=1", "batch=1 heads=8 kv_heads=8 len_q=4 len_kv=512", NULL},
    };
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[256], hinted[512];
        struct request request, known;
        struct choice choice = {0}, own;
        struct failure failure = {0};
        snprintf(problem, sizeof problem, "family=attention_forward dtype=bf16 %s", cases[i].problem);
        snprintf(hinted, sizeof hinted, "%s %s", problem, cases[i].sizes);
        cr_assert_eq(choose_read(session, problem, NULL, &request, &failure), ATT_OK);
        cr_assert_eq(choose_read(session, hinted, NULL, &known, &failure), ATT_OK);
        cr_assert(choose_next(session, &request, &choice, NULL));
        known.hints.shape.sm_count = session->info.sm_count;
        bool has = choose_has_classes(&request, &choice);
        int size_class = has ? choose_class(&request, &choice.variant, &known.hints.shape, true) : -1;
        cr_assert_eq(size_class >= 0, cases[i].word != NULL, "%s: class %d", hinted, size_class);
        if (size_class < 0)
            continue;
        own = choice;
        cr_assert(choose_for_class(session, &request, size_class, &own), "%s: class %d", hinted, size_class);
        cr_expect(strstr(own.variant.name, cases[i].word), "%s: %s", hinted, own.variant.name);
        cr_expect(strstr(first(session, hinted, NULL), cases[i].word), "%s", first(session, hinted, NULL));
    }
    att_close(session);
}

enum { FEW_LEN = 4, MANY_LEN = 40 };

/* Launches `len` queries and MANY_LEN keys in two heads, with the workspace that they need or without one. `o` gets the
   first element of O. */
static enum att_status launch_in(att_session *session, att_kernel *kernel, int64_t len, bool room, float *o) {
    enum { BOTH_HEADS = 2 * MANY_LEN };
    unsigned short values[BOTH_HEADS * D];
    void *tensor[4];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < BOTH_HEADS * D; j++)
            values[j] = bf16((float)((i + j / D + 3 * (j % D)) % 7) / 8);
        cr_assert_eq(att_alloc(session, sizeof values, &tensor[i]), ATT_OK);
        att_copy_in(session, tensor[i], values, sizeof values);
    }
    struct att_tensor t[4];
    for (int i = 0; i < 4; i++)
        t[i] = (struct att_tensor){tensor[i], 2 * len * D, len * D, D};
    struct att_args args = {
        .size = sizeof args,
        .family = ATT_ATTENTION_FORWARD,
        .attention = {t[0], t[1], t[2], t[3], .batch = 1, .heads = 2, .len_q = len, .len_kv = MANY_LEN}};
    args.attention.k = args.attention.v = (struct att_tensor){tensor[1], BOTH_HEADS * D, MANY_LEN * D, D};
    cr_assert_eq(att_workspace_size(kernel, &args, &args.workspace_size), ATT_OK, "%s", att_message(session));
    if (!room)
        args.workspace_size = 0;
    if (args.workspace_size)
        cr_assert_eq(att_alloc(session, args.workspace_size, &args.workspace), ATT_OK);
    enum att_status status = att_launch(kernel, &args, NULL);
    att_copy_out(session, values, tensor[3], sizeof values);
    *o = from_bf16(values[0]);
    for (int i = 0; i < 4; i++)
        att_free(session, tensor[i]);
    if (args.workspace)
        att_free(session, args.workspace);
    return status;
}

static enum att_status launch_len(att_session *session, att_kernel *kernel, int64_t len, float *o) {
    return launch_in(session, kernel, len, true, o);
}

/* A kernel was found without sizes: a launch compiles another one when it first needs it, and only once. The host
   device has few SMs, so 40 queries are many. */
Test(choose, a_launch_compiles_the_kernel_of_its_sizes_once) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *kernel, *hinted;
    float few, many, again;
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    session->info.sm_count = 1;
    cr_expect_eq(compiles, 1);
    cr_assert_eq(launch_len(session, kernel, MANY_LEN, &many), ATT_OK, "%s", att_message(session));
    cr_expect_eq(compiles, 1);
    cr_assert_eq(launch_len(session, kernel, FEW_LEN, &few), ATT_OK, "%s", att_message(session));
    cr_assert_eq(launch_len(session, kernel, FEW_LEN, &again), ATT_OK, "%s", att_message(session));
    cr_expect_eq(compiles, 2);
    cr_expect(fabsf(few - many) < 0.004f && few == again && few > 0.1f, "%g, %g and %g", (double)few, (double)many,
              (double)again);
    /* hints find that same kernel, and it has no alternatives */
    cr_assert_eq(att_find(session, BF16 " len_q=4", NULL, &hinted), ATT_OK, "%s", att_message(session));
    cr_expect(strstr(att_kernel_name(hinted), "_decode_") && compiles == 2, "%s", att_kernel_name(hinted));
    att_release(hinted);
    att_release(kernel);
    att_close(session);
}

/* After att_prepare no launch compiles. */
Test(choose, prepared_kernels_have_those_of_all_sizes) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *kernel;
    float o;
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
    const int after = compiles;
    cr_expect_gt(after, 3);
    for (int len = 1; len <= MANY_LEN; len += 13)
        cr_assert_eq(launch_len(session, kernel, len, &o), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_prepare(kernel), ATT_OK);
    cr_expect_eq(compiles, after);
    att_close(session);
}

/* The sizes in the rows of this table: those that are assumed, and those of launch_len with MANY_LEN queries. */
static const char *write_sizes(void) {
    return write_table("best:\n  - problem: {family: attention_forward, dtype: bf16, head_dim: 16}\n    shapes:\n"
                       "      - shape: {batch: 2, heads: 16, len_q: 8192, len_kv: 8192}\n"
                       "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 128, block_n: 64}\n"
                       "      - shape: {batch: 1, heads: 2, len_q: 40, len_kv: 40}\n"
                       "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 64, block_n: 32}\n");
}

/* A kernel that was found without sizes: launches of sizes near those of a row take its schedule. */
Test(choose, a_launch_takes_the_row_of_its_sizes) {
    const char *path = write_sizes();
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    att_kernel *kernel;
    char text[16384];
    float o;
    session->info.sm_count = 1;
    session->modelled = false;
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    cr_expect(strstr(att_kernel_name(kernel), "_m128_n64_"), "%s", att_kernel_name(kernel));
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(launch_len(session, kernel, MANY_LEN, &o), ATT_OK, "%s", att_message(session));
        cr_expect(compiles == 2 && o > 0.1f, "%d compiled, %g", compiles, (double)o);
    }
    cr_assert_eq(launch_len(session, kernel, MANY_LEN - 1, &o), ATT_OK, "%s", att_message(session));
    cr_expect_eq(compiles, 2);
    cr_expect(strstr(first(session, BF16 " batch=1 heads=2 kv_heads=2 len_q=40 len_kv=40", NULL), "_m64_n32_"));
    cr_assert_eq(att_explain(session, BF16, NULL, text, sizeof text, NULL), ATT_OK, "%s", att_message(session));
    cr_expect(strstr(text, "launches of sizes near batch=1 heads=2 kv_heads=2 len_q=40 len_kv=40: "), "%s", text);
    att_release(kernel);
    att_close(session);
    unlink(path);
}

Test(choose, prepared_kernels_have_those_of_the_rows) {
    const char *path = write_sizes();
    att_session *session = open_gpu(path, "NVIDIA H200", 90);
    att_kernel *kernel;
    float o;
    session->info.sm_count = 1;
    session->modelled = false;
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
    const int after = compiles;
    cr_assert_eq(launch_len(session, kernel, MANY_LEN, &o), ATT_OK, "%s", att_message(session));
    cr_expect_eq(compiles, after);
    att_close(session);
    unlink(path);
}

/* With the tables of the library, launches take what hints find, whichever of the two ways leads there. */
Test(choose, launches_take_what_the_tables_know_of_their_sizes) {
    static const struct {
        const char *problem, *sizes;
    } cases[] = {
        {"head_dim=64 mask=causal", "batch=1 heads=8 kv_heads=8 len_q=5000 len_kv=5000"},
        {"head_dim=128 mask=causal", "batch=1 heads=6 kv_heads=6 len_q=7000 len_kv=7000"},
        {"head_dim=64", "batch=32 heads=32 kv_heads=32 len_q=512 len_kv=512"},
        {"head_dim=128 dtype=fp16", "batch=8 heads=16 kv_heads=16 len_q=2048 len_kv=2048"},
        {"head_dim=256 mask=causal", "batch=8 heads=8 kv_heads=8 len_q=2048 len_kv=2048"},
        {"head_dim=64 mask=causal", "batch=2 heads=32 kv_heads=32 len_q=8192 len_kv=8192"},
    };
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    att_session *session;
    int others = 0;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[256], hinted[512];
        struct request request, known;
        struct choice choice = {0};
        struct failure failure = {0};
        snprintf(problem, sizeof problem, "family=attention_forward %s%s",
                 strstr(cases[i].problem, "dtype") ? "" : "dtype=bf16 ", cases[i].problem);
        snprintf(hinted, sizeof hinted, "%s %s", problem, cases[i].sizes);
        cr_assert_eq(choose_read(session, problem, NULL, &request, &failure), ATT_OK);
        cr_assert_eq(choose_read(session, hinted, NULL, &known, &failure), ATT_OK);
        cr_assert(choose_next(session, &request, &choice, NULL) && choose_has_classes(&request, &choice));
        att_kernel *kernel = kernel_of_variant(session, &choice.variant, KERNEL_OF_ANY_SIZES, &request);
        cr_assert(kernel);
        known.hints.shape.sm_count = session->info.sm_count;
        char name[VARIANT_NAME];
        snprintf(name, sizeof name, "%s", choice.variant.name);
        for (int again = 0; again < 2; again++) { /* the second answer is remembered */
            const int size_class = by_sizes_class(kernel->by_sizes, &known.hints.shape, true);
            struct measured_sizes sizes;
            struct choice own;
            choose_measured_sizes(session, &request, &choice.variant, &sizes);
            cr_assert(size_class < 0 || (size_class >= RULE_CLASSES && size_class < RULE_CLASSES + sizes.count));
            if (size_class >= 0 && choose_for_sizes(session, &request, &choice.variant,
                                                    &sizes.size[size_class - RULE_CLASSES].shape, &own))
                snprintf(name, sizeof name, "%s", own.variant.name);
            others += size_class >= 0 && again;
            cr_expect_str_eq(name, first(session, hinted, NULL));
        }
        kernel_release(kernel);
    }
    cr_expect_eq(others, 5, "%d take another kernel than the found one", others);
    att_close(session);
}

/* Rows are of kernels that do not split keys, so they say nothing of launches that do. */
Test(choose, launches_in_parts_take_no_row) {
    static const struct {
        const char *problem;
        int64_t heads, len_q, len_kv;
        bool room;
        int number;
    } cases[] = {
        {"head_dim=128 mask=causal", 16, 8192, 8192, true, 0},
        {"head_dim=128 mask=causal", 16, 8192, 9000, true, -1}, /* even if they are not split */
        {"head_dim=128", 16, 8192, 9000, true, 0},
        {"head_dim=128", 16, 300, 65536, true, -1},
        {"head_dim=128", 16, 300, 65536, false, 0},
    };
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct measured_sizes sizes = {1, {{{0}, 0}}};
        struct shape *row = &sizes.size[0].shape, shape;
        struct request request;
        struct choice choice = {0};
        struct failure failure = {0};
        char problem[128];
        snprintf(problem, sizeof problem, "family=attention_forward dtype=bf16 %s", cases[i].problem);
        cr_assert_eq(choose_read(session, problem, NULL, &request, &failure), ATT_OK);
        cr_assert(choose_next(session, &request, &choice, NULL) && choice.variant.knobs.splits == 0);
        row->batch = row->heads = row->kv_heads = row->len_q = row->len_kv = 512;
        shape = *row;
        shape.batch = 1;
        shape.heads = shape.kv_heads = cases[i].heads;
        shape.len_q = cases[i].len_q;
        shape.len_kv = cases[i].len_kv;
        shape.sm_count = session->info.sm_count;
        cr_expect_eq(choose_measured_size(&choice.variant, &sizes, &shape, cases[i].room), cases[i].number, "case %zu",
                     i);
    }
    att_close(session);
}

/* The found kernel answers where the kernel for these sizes does not compile. */
Test(choose, the_found_kernel_answers_where_that_of_the_sizes_does_not_compile) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *kernel;
    float o;
    uncompilable = "_decode_";
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(launch_len(session, kernel, FEW_LEN, &o), ATT_OK, "%s", att_message(session));
        cr_expect_gt(o, 0.1f);
    }
    const char *said = strstr(text_string(&logged), " answers in place of ");
    cr_assert(said, "%s", text_string(&logged));
    cr_expect_null(strstr(said + 1, " answers in place of "), "it is said once");
    att_close(session);
}

/* ... and where it came from a bundle without the other kernel. */
Test(choose, the_kernel_of_a_bundle_has_no_others_than_those_of_bundles) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *kernel;
    float o;
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    kernel->info.from = "bundle";
    cr_assert_eq(launch_len(session, kernel, FEW_LEN, &o), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
    cr_expect(compiles == 1 && o > 0.1f, "%d compiled, %g", compiles, (double)o);
    att_close(session);
}

/* A launch makes do with the workspace that it has. */
Test(choose, launches_of_all_sizes_work_without_a_workspace) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *kernel;
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    for (int len = 1; len <= MANY_LEN; len += 13) {
        float with, without;
        cr_assert_eq(launch_in(session, kernel, len, true, &with), ATT_OK, "%s", att_message(session));
        cr_assert_eq(launch_in(session, kernel, len, false, &without), ATT_OK, "%s", att_message(session));
        cr_expect(fabsf(with - without) < 0.004f && with > 0.1f, "%d: %g and %g", len, (double)with, (double)without);
    }
    att_close(session);
}

static bool capturing(struct backend *backend, void *stream) {
    (void)backend, (void)stream;
    return true;
}

/* During graph capture, no kernel for other sizes is loaded. */
Test(choose, a_capture_needs_the_kernel_of_its_sizes_prepared) {
    att_session *session = open_gpu(NULL, "GPU", 90);
    att_kernel *kernel;
    float o;
    cr_assert_eq(att_find(session, BF16, NULL, &kernel), ATT_OK, "%s", att_message(session));
    session->info.sm_count = 1;
    cr_assert_eq(launch_len(session, kernel, MANY_LEN, &o), ATT_OK, "%s", att_message(session));
    gpu.capturing = capturing;
    cr_expect_eq(launch_len(session, kernel, MANY_LEN, &o), ATT_OK, "%s", att_message(session));
    cr_expect_eq(launch_len(session, kernel, FEW_LEN, &o), ATT_NOT_PREPARED);
    cr_expect(strstr(att_message(session), "call att_prepare before capturing"), "%s", att_message(session));
    cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
    cr_expect_eq(launch_len(session, kernel, FEW_LEN, &o), ATT_OK, "%s", att_message(session));
    att_close(session);
}
