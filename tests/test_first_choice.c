/* The kernel that the library chooses first on a Hopper GPU is never one that the compiler has to refuse, and the one
   that it chooses on other GPUs with tensor cores does not spill. Several are within a few registers of that. There are
   too many problems for one run, so each run takes one in SHARDS of them (helper_part.h). */
#include "helper_part.h"
#include "helper_spills.h"
#include "session.h"

#include <criterion/criterion.h>
#include <string.h>

enum { DIMS = 12, MASKS = 4, SCORES = 3, DTYPES = 2, SIZES = 4 };
enum { PROBLEMS = DIMS * MASKS * SCORES * DTYPES * SIZES, SHARDS = 89 };

static const int dims[DIMS] = {40, 64, 72, 80, 96, 112, 128, 144, 160, 192, 224, 256};
static const char *const masks[MASKS] = {"mask=none", "mask=causal", "mask=\"k <= q and q - k < window\"",
                                         "mask=\"causal and document(doc)\""};
static const char *const scores[SCORES] = {"", "score=softcap(30)", "score=\"s + slope[h] * (k - q)\""};
static const char *const dtypes[DTYPES] = {"bf16", "fp16"};

/* Sizes left open, and sizes that give each SM one or two Q tiles of 64 rows, or two of 128 (choose_tiles.c). */
static const char *const sizes[SIZES] = {"", "batch=1 heads=8 len_q=512 len_kv=512",
                                         "batch=1 heads=16 len_q=1024 len_kv=1024",
                                         "batch=1 heads=32 len_q=1024 len_kv=1024"};

/* Declares the parameters that the problem reads so far. */
static void print_params(struct text *text) {
    static const struct {
        const char *read, *declared;
    } params[] = {{"< window", "window: int"},
                  {"(doc)", "doc: int[batch, len_kv]"},
                  {"slope[", "slope: float[heads]"},
                  {"values[", "values: bf16[heads, len_kv, len_kv]"}};
    struct text declared = {0};
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        if (strstr(text_string(text), params[i].read))
            text_print(&declared, "%s%s", declared.size ? ", " : "", params[i].declared);
    if (declared.size)
        text_print(text, " params=\"%s\"", text_string(&declared));
    text_free(&declared);
}

static void print_problem(int number, struct text *text) {
    int mask = number % MASKS, score = number / MASKS % SCORES, dtype = number / MASKS / SCORES % DTYPES;
    int rest = number / MASKS / SCORES / DTYPES;
    text_print(text, "family=attention_forward dtype=%s head_dim=%d %s %s %s", dtypes[dtype], dims[rest % DIMS],
               masks[mask], scores[score], sizes[rest / DIMS]);
    print_params(text);
}

/* For GPUs without Hopper's units. Head dimensions: some leave half a step of a product, some are odd, some are those
   of the default rows. */
static const struct {
    const char *name, *arch;
} gpus[] = {
    {"NVIDIA A100-SXM4-80GB", "sm_80"},
    {"NVIDIA A10", "sm_86"},
    {"NVIDIA L4", "sm_89"},
    {"NVIDIA GeForce RTX 5090", "sm_120"},
};
static const int mma_dims[] = {59, 64, 96, 111, 128, 192, 256};
static const char *const layouts[] = {"", "layout=ragged", "layout=padded page_size=16"};
enum {
    GPUS = sizeof gpus / sizeof *gpus,
    MMA_DIMS = sizeof mma_dims / sizeof *mma_dims,
    LAYOUTS = sizeof layouts / sizeof *layouts,
    MMA_MASKS = 3, /* the launches of a document mask, which take microseconds, spill 8 bytes */
    MMA_PROBLEMS = GPUS * MMA_DIMS * LAYOUTS * MMA_MASKS * SCORES * DTYPES,
    MMA_SHARDS = 127,
    ONE_REGISTER =
        8, /* stored and loaded once by the launch that combines parts, where ptxas stops at 56 or 96 registers */
};

/* False if the choice does not use Hopper's own units, which is another matter. */
static bool check_choice(att_session *session, const char *problem) {
    struct request request;
    struct choice choice = {0};
    struct failure failure = {0};
    struct att_kernel_info info = {.size = sizeof info};
    cr_assert_eq(choose_read(session, problem, NULL, &request, &failure), ATT_OK, "%s", text_string(&failure.text));
    cr_assert(choose_next(session, &request, &choice, NULL), "%s: %s", problem, choice.reason);
    if (choice.variant.knobs.algorithm != algorithm_flash_async)
        return false;
    enum att_status status = kernel_compile(session, &choice.variant, &info, &failure);
    if (status == ATT_NO_COMPILER)
        cr_skip_test("no NVRTC here: %s", text_string(&failure.text));
    cr_expect_eq(status, ATT_OK, "%s: %s: %s", problem, choice.variant.name, text_string(&failure.text));
    failure_clear(&failure);
    return true;
}

Test(first_choice, is_never_refused_by_the_compiler) {
    const struct att_options options = {.size = sizeof options, .no_disk_cache = true};
    att_session *session = NULL;
    int checked = 0;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    for (int number = 0; number < PROBLEMS; number++) {
        struct text problem = {0};
        if (!shard_has(number, SHARDS))
            continue;
        print_problem(number, &problem);
        checked += check_choice(session, text_string(&problem));
        text_free(&problem);
    }
    cr_expect_gt(checked, PROBLEMS / SHARDS / 2);
    att_close(session);
}

/* Gradients: where the compiler rejects their Hopper kernel, the library would take one that is half as fast. */
enum { GRADIENT_DIMS = 5, GRADIENT_SCORES = 4, GRADIENT_LAYOUTS = 3, SWITCHES = 4, GRADIENT_SHARDS = 257 };
enum { GRADIENTS = GRADIENT_DIMS * MASKS * GRADIENT_SCORES * GRADIENT_LAYOUTS * SWITCHES };

static void print_gradient(int number, struct text *text) {
    static const int gradient_dims[GRADIENT_DIMS] = {64, 96, 128, 192, 256};
    static const char *const gradient_scores[GRADIENT_SCORES] = {"", "score=softcap(30)",
                                                                 "score=\"s + slope[h] * (k - q)\"",
                                                                 "score=\"s + values[h, max(q, 0), k]\""},
                             *const gradient_layouts[GRADIENT_LAYOUTS] = {"dense", "padded", "ragged"},
                             *const switches[SWITCHES] = {"", "dropout=1", "deterministic=1",
                                                          "dropout=1 deterministic=1"};
    int rest = number / MASKS / GRADIENT_SCORES;
    text_print(text, "family=attention_backward dtype=bf16 head_dim=%d %s %s layout=%s %s",
               gradient_dims[rest / GRADIENT_LAYOUTS / SWITCHES], masks[number % MASKS],
               gradient_scores[number / MASKS % GRADIENT_SCORES], gradient_layouts[rest / SWITCHES % GRADIENT_LAYOUTS],
               switches[rest % SWITCHES]);
    print_params(text);
}

Test(first_choice, of_a_gradient_is_never_refused_by_the_compiler) {
    const struct att_options options = {.size = sizeof options, .no_disk_cache = true};
    att_session *session = NULL;
    int checked = 0;
    cr_assert_eq(session_open_to_choose(&options, "NVIDIA H200", "sm_90a", &session), ATT_OK, "%s",
                 att_message(session));
    for (int number = 0; number < GRADIENTS; number++) {
        struct text problem = {0};
        if (!shard_has(number, GRADIENT_SHARDS))
            continue;
        print_gradient(number, &problem);
        checked += check_choice(session, text_string(&problem));
        text_free(&problem);
    }
    cr_expect_gt(checked, 0);
    att_close(session);
}

static void check_mma(int gpu, const char *problem) {
    const struct att_options options = {.size = sizeof options, .no_disk_cache = true};
    att_session *session = NULL;
    struct request request;
    struct choice choice = {0};
    struct failure failure = {0};
    struct att_kernel_info info = {.size = sizeof info};
    cr_assert_eq(session_open_to_choose(&options, gpus[gpu].name, gpus[gpu].arch, &session), ATT_OK, "%s",
                 att_message(session));
    cr_assert_eq(choose_read(session, problem, NULL, &request, &failure), ATT_OK, "%s", text_string(&failure.text));
    cr_assert(choose_next(session, &request, &choice, NULL), "%s: %s", problem, choice.reason);
    cr_expect_eq(choice.variant.knobs.algorithm, algorithm_flash_mma, "%s on %s: %s", problem, gpus[gpu].name,
                 choice.variant.name);
    enum att_status status = kernel_compile(session, &choice.variant, &info, &failure);
    if (status == ATT_NO_COMPILER)
        cr_skip_test("no NVRTC here: %s", text_string(&failure.text));
    cr_expect_eq(status, ATT_OK, "%s: %s", choice.variant.name, text_string(&failure.text));
    cr_expect_leq(info.spill_bytes, ONE_REGISTER + spills_allowed(choice.variant.name), "%s spills %d bytes",
                  choice.variant.name, info.spill_bytes);
    failure_clear(&failure);
    att_close(session);
}

Test(first_choice, of_flash_mma_does_not_spill) {
    for (int number = 0; number < MMA_PROBLEMS; number++) {
        if (!shard_has(number, MMA_SHARDS))
            continue;
        int mask = number % MMA_MASKS, score = number / MMA_MASKS % SCORES, rest = number / MMA_MASKS / SCORES;
        struct text problem = {0};
        text_print(&problem, "family=attention_forward dtype=%s head_dim=%d %s %s %s", dtypes[rest % DTYPES],
                   mma_dims[rest / DTYPES % MMA_DIMS], masks[mask], scores[score],
                   layouts[rest / DTYPES / MMA_DIMS % LAYOUTS]);
        print_params(&problem);
        check_mma(rest / DTYPES / MMA_DIMS / LAYOUTS, text_string(&problem));
        text_free(&problem);
    }
}
