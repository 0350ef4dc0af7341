/* Masks that are expressions: a warp finds which tiles of queries see an item's keys, 32 at a time, ahead of their use. */
#include "check.h"
#include "helper_run.h"
#include "session.h"
#include "workload.h"

#include <criterion/criterion.h>

#define HOPPER "family=attention_backward target=sm_90a dtype=bf16 head_dim=8 "

static void check_mask(const char *problem, struct shape shape) {
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, problem, "algorithm=flash_async");
    struct workload workload;
    struct check_result result;
    struct check_options options = {.layout = LAYOUT_PACKED, .shown = 3};
    struct text error = {0};
    cr_assert(workload_make(&workload, &kernel->variant.knobs, &shape, NULL, 1, &error), "%s", text_string(&error));
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s:\n%s", problem,
              text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

Test(backward_tiles, of_one_item_may_be_more_than_32) {
    check_mask(HOPPER "mask=\"q // 47 == k // 47 or k < 9\"",
               (struct shape){.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 2300, .len_kv = 260});
}

Test(backward_tiles, may_be_none) {
    check_mask(HOPPER "mask=\"k < 100 or k > 400\"",
               (struct shape){.batch = 2, .heads = 2, .kv_heads = 2, .len_q = 130, .len_kv = 500});
}

/* Of more than 1536 tiles, those of the last heads come in another order. */
Test(backward_tiles, of_all_heads_are_visited) {
    check_mask(HOPPER "mask=\"k <= q and q - k < 2\"",
               (struct shape){.batch = 1, .heads = 770, .kv_heads = 770, .len_q = 20, .len_kv = 140});
    check_mask(HOPPER "mask=\"k <= q and q - k < 2\"",
               (struct shape){.batch = 1, .heads = 900, .kv_heads = 900, .len_q = 20, .len_kv = 140});
}

/* What the mask reads for a query is loaded by one lane for all; what it reads through another read is not. */
Test(backward_tiles, are_tested_with_what_tensors_say_of_queries_and_keys) {
    const struct shape shape = {.batch = 2, .heads = 2, .kv_heads = 1, .len_q = 150, .len_kv = 200};
    check_mask(HOPPER "mask=\"k <= q and d[b, q] == d[b, k]\" params=\"d: int[batch, len_kv]\"", shape);
    check_mask(HOPPER
               "mask=\"x[h, q - 50] < 0.5 or x[h, q // 2] * x[h, k // 2] < 0.1\" params=\"x: float[heads, len_kv]\"",
               shape);
    check_mask(HOPPER "mask=\"d[b, clamp(d[b, q], 0, 9)] <= d[b, k]\" params=\"d: int[batch, len_kv]\"", shape);
}
