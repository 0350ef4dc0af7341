/* The gradient of a tensor whose elements are added to the scores of single pairs, where it is set and not added to. */
#include "check.h"
#include "helper_run.h"
#include "session.h"
#include "workload.h"

#include <criterion/criterion.h>

#define HOPPER "family=attention_backward target=sm_90a dtype=bf16 head_dim=8 wants=\"dq, dk, dv, d_values\" "

static void check_elements(const char *problem, struct shape shape) {
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, problem, "algorithm=flash_async");
    struct workload workload;
    struct check_result result;
    struct check_options options = {.layout = LAYOUT_PACKED, .shown = 3};
    struct text error = {0};
    cr_assert(workload_make(&workload, &kernel->variant.knobs, &shape, NULL, 1, &error), "%s", text_string(&error));
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s, batch %d:\n%s", problem, (int)shape.batch,
              text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

#define OF_HEAD "params=\"values: bf16[heads, len_q, len_kv]\" score=\"s + values[h, q, k]\""

/* The host device has four multiprocessors. */
Test(backward_elements, of_a_head_are_set_by_its_first_batch) {
    check_elements(HOPPER OF_HEAD, (struct shape){.batch = 3, .heads = 2, .kv_heads = 2, .len_q = 200, .len_kv = 200});
    check_elements(HOPPER OF_HEAD, (struct shape){.batch = 2, .heads = 8, .kv_heads = 4, .len_q = 128, .len_kv = 128});
    check_elements(HOPPER "params=\"values: float[len_q, heads, len_kv]\" score=\"s + values[q, h, k]\"",
                   (struct shape){.batch = 2, .heads = 4, .kv_heads = 4, .len_q = 70, .len_kv = 70});
}

Test(backward_elements, of_a_head_are_added_to_where_one_block_would_have_too_much) {
    check_elements(HOPPER OF_HEAD, (struct shape){.batch = 9, .heads = 1, .kv_heads = 1, .len_q = 100, .len_kv = 100});
}

Test(backward_elements, without_a_pair_are_zero) {
    check_elements(HOPPER "params=\"values: bf16[heads, 150, 270]\" score=\"s + values[h, q, k]\"",
                   (struct shape){.batch = 2, .heads = 4, .kv_heads = 4, .len_q = 128, .len_kv = 128});
}

Test(backward_elements, of_a_batch_are_set) {
    check_elements(HOPPER "params=\"values: bf16[batch, heads, len_q, len_kv]\" score=\"s + values[b, h, q, k]\"",
                   (struct shape){.batch = 9, .heads = 1, .kv_heads = 1, .len_q = 150, .len_kv = 150});
    check_elements(HOPPER "params=\"values: float[batch, heads, 160, 260]\" score=\"s + values[b, h, q, k]\"",
                   (struct shape){.batch = 2, .heads = 2, .kv_heads = 1, .len_q = 150, .len_kv = 150});
}
