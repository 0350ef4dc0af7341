/* NaN and infinity in one row of an input of the backward pass appear in the outputs where the definition has them, and
   nowhere else. The oracle goes over pairs, and an unseen pair adds nothing to it. An infinity in Q or K under a cap
   appears in no output, not even in the forward pass. */
#include "check.h"
#include "helper_run.h"
#include "session.h"
#include "tensor.h"
#include "workload.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { INPUTS = 4, HEADS = 2, LEN_Q = 70, LEN_KV = 100 };
static const struct shape small = {.batch = 1, .heads = HEADS, .kv_heads = 1, .len_q = LEN_Q, .len_kv = LEN_KV};

static const char *const names[INPUTS] = {"q", "k", "v", "d_o"};

/* Makes random tensors, with `value` at one place of a row of input `which`. */
static void make_files(struct workload_files *files, const struct shape *shape, int inputs, int which, int64_t row,
                       float value, int dim) {
    for (int i = 0; i < inputs; i++) {
        bool of_keys = i == 1 || i == 2;
        int64_t heads = of_keys ? shape->kv_heads : shape->heads, rows = of_keys ? shape->len_kv : shape->len_q,
                count = heads * rows * dim;
        float *data = malloc(sizeof *data * (size_t)count);
        cr_assert(data);
        tensor_random((uint64_t)(i + 1), data, count);
        if (i == which)
            data[row * dim + 3] = value;
        files->file[i] =
            (struct npy){.type = NPY_FP32, .dims = 4, .dim = {1, heads, rows, dim}, .count = count, .data = data};
        files->path[i] = names[i];
    }
}

static void check_row(att_session *session, att_kernel *kernel, const struct shape *shape, int which, int64_t row,
                      float value, bool nans) {
    const struct knobs *knobs = &kernel->variant.knobs;
    struct workload_files files = {0};
    struct workload workload;
    struct check_result result;
    struct check_options options = {.layout = LAYOUT_PACKED, .shown = 3};
    struct text error = {0};
    make_files(&files, shape, knobs->family == family_attention_forward ? 3 : INPUTS, which, row, value,
               knobs->head_dim);
    cr_assert(workload_make(&workload, knobs, shape, &files, 1, &error), "%s", text_string(&error));
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s, %g in %s:\n%s", att_kernel_name(kernel),
              (double)value, names[which], text_string(&result.report));
    cr_expect((result.nans > 0) == nans && result.nans < result.compared, "%s, %g in %s: %d of %d are NaN",
              att_kernel_name(kernel), (double)value, names[which], (int)result.nans, (int)result.compared);
    check_free(&result);
    workload_free(&workload);
    for (int i = 0; i < INPUTS; i++)
        npy_free(&files.file[i]);
}

/* The same with `value` in a middle row. */
static void check_input(att_session *session, att_kernel *kernel, const struct shape *shape, int which, float value,
                        bool nans) {
    check_row(session, kernel, shape, which, (which == 1 || which == 2 ? shape->len_kv : shape->len_q) / 2, value,
              nans);
}

static void check_inputs(const char *problem, const char *schedule) {
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, problem, schedule);
    for (int which = 0; which < INPUTS; which++) {
        check_input(session, kernel, &small, which, NAN, true);
        check_input(session, kernel, &small, which, which % 2 ? INFINITY : -INFINITY, true);
    }
    att_close(session);
}

#define DOCUMENTS " mask='document(ids) and causal' params='ids: int[batch, len_kv]'"

Test(backward_nonfinite, reach_no_other_rows_on_tensor_cores) {
    check_inputs("family=attention_backward dtype=bf16 head_dim=64 mask=causal target=sm_80", "algorithm=flash_mma");
    check_inputs("family=attention_backward dtype=fp16 head_dim=136 target=sm_80" DOCUMENTS, "algorithm=flash_mma");
}

#define HOPPER "family=attention_backward target=sm_90a dtype="

Test(backward_nonfinite, reach_no_other_rows_on_hopper) {
    check_inputs(HOPPER "bf16 head_dim=64 mask=causal", "algorithm=flash_async");
    check_inputs(HOPPER "fp16 head_dim=72 mask=causal deterministic=1", "algorithm=flash_async");
    check_inputs(HOPPER "bf16 head_dim=96 mask=causal", "algorithm=flash_async");
    check_inputs(HOPPER "bf16 head_dim=128 mask=causal", "algorithm=flash_async");
    check_inputs(HOPPER "fp16 head_dim=64 mask=causal deterministic=1", "algorithm=flash_async");
}

/* A warpgroup whose keys see all queries of a step meets the NaN in dO, or finds it already taken out for another one, whose keys do not. */
Test(backward_nonfinite, reach_keys_that_see_a_whole_step) {
    static const struct shape shape = {.batch = 1, .heads = HEADS, .kv_heads = 1, .len_q = 210, .len_kv = 210};
    static const char *const problems[] = {
        HOPPER "bf16 head_dim=128 mask=causal", HOPPER "fp16 head_dim=64 mask=causal",
        HOPPER "bf16 head_dim=96 mask=causal",  HOPPER "bf16 head_dim=192 mask=causal",
        HOPPER "bf16 head_dim=208 mask=causal", HOPPER "fp16 head_dim=256 mask=causal"};
    att_session *session = run_open();
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check_input(session, run_find(session, problems[i], "algorithm=flash_async"), &shape, 3, NAN, true);
    att_close(session);
}

/* The last step has queries that do not exist, which see no key of any tile. */
Test(backward_nonfinite, reach_all_keys_that_see_the_last_step) {
    static const struct shape shape = {.batch = 1, .heads = HEADS, .kv_heads = 1, .len_q = 200, .len_kv = 200};
    att_session *session = run_open();
    check_row(session, run_find(session, HOPPER "bf16 head_dim=64 mask=causal", "algorithm=flash_async"), &shape, 3,
              150, NAN, true);
    check_row(session, run_find(session, HOPPER "bf16 head_dim=96 mask=causal", "algorithm=flash_async"), &shape, 3,
              198, NAN, true);
    att_close(session);
}

Test(backward_nonfinite, reach_no_other_rows_on_hopper_through_expressions) {
    check_inputs(HOPPER "bf16 head_dim=96" DOCUMENTS, "algorithm=flash_async");
    check_inputs(HOPPER "fp16 head_dim=64 mask=\"k <= q and q - k < 40\" score=\"s + 0.1 * (k - q)\"",
                 "algorithm=flash_async");
    check_inputs(HOPPER "bf16 head_dim=136" DOCUMENTS, "algorithm=flash_async");
}

Test(backward_nonfinite, reach_no_other_rows_on_hopper_through_dropout) {
    check_inputs(HOPPER "bf16 head_dim=64 mask=causal dropout=1", "algorithm=flash_async");
    check_inputs(HOPPER "fp16 head_dim=72 mask=causal dropout=1 deterministic=1", "algorithm=flash_async");
    check_inputs(HOPPER "bf16 head_dim=256 mask=causal dropout=1", "algorithm=flash_async");
}

Test(backward_nonfinite, reach_no_other_rows_on_hopper_in_long_rows) {
    check_inputs(HOPPER "bf16 head_dim=192 mask=causal", "algorithm=flash_async");
    check_inputs(HOPPER "fp16 head_dim=136 head_dim_v=128 mask=causal", "algorithm=flash_async");
    check_inputs(HOPPER "bf16 head_dim=208 mask=causal", "algorithm=flash_async");
    check_inputs(HOPPER "bf16 head_dim=256 mask=causal", "algorithm=flash_async dq_in=dq_memory");
}

/* Without a mask, every row of a head that reads such a value has it. */
Test(backward_nonfinite, reach_no_other_head_on_hopper_in_clusters) {
    static const struct shape shape = {.batch = 1, .heads = 2 * HEADS, .kv_heads = 2, .len_q = LEN_Q, .len_kv = LEN_KV};
    att_session *session = run_open();
    att_kernel *kernel =
        run_find(session, HOPPER "bf16 head_dim=256 mask=none", "algorithm=flash_async dq_in=dq_memory");
    for (int which = 0; which < INPUTS; which++) {
        check_input(session, kernel, &shape, which, NAN, true);
        check_input(session, kernel, &shape, which, which % 2 ? INFINITY : -INFINITY, true);
    }
    att_close(session);
}

Test(backward_nonfinite, reach_no_other_rows_without_tensor_cores) {
    check_inputs("family=attention_backward head_dim=8" DOCUMENTS, "algorithm=flash_tiled");
    check_inputs("family=attention_backward head_dim=8 mask=causal", "algorithm=materialized");
}

/* Scores are at the cap, where their derivative is 0. */
static void check_caps(const char *problem, const char *schedule) {
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, problem, schedule);
    for (int which = 0; which < 2; which++) {
        check_input(session, kernel, &small, which, INFINITY, false);
        check_input(session, kernel, &small, which, -INFINITY, false);
    }
    att_close(session);
}

#define CAPPED "head_dim=64 mask=causal score='softcap(30)'"

Test(backward_nonfinite, infinities_under_a_cap_come_out_nowhere) {
    check_caps("family=attention_backward " CAPPED, "algorithm=materialized");
    check_caps("family=attention_backward " CAPPED, "algorithm=flash_tiled");
    check_caps("family=attention_backward dtype=fp16 target=sm_80 " CAPPED, "algorithm=flash_mma");
    check_caps(HOPPER "bf16 " CAPPED, "algorithm=flash_async");
}

Test(backward_nonfinite, infinities_under_a_cap_come_out_of_no_forward_pass) {
    check_caps("family=attention_forward " CAPPED, "algorithm=materialized");
    check_caps("family=attention_forward " CAPPED, "algorithm=flash_tiled");
    check_caps("family=attention_forward dtype=fp16 target=sm_80 " CAPPED, "algorithm=flash_mma");
    check_caps("family=attention_forward dtype=fp16 target=sm_80 " CAPPED, "algorithm=decode");
    check_caps("family=attention_forward dtype=bf16 target=sm_90a " CAPPED, "algorithm=flash_async");
}

/* Returns how many bytes of global memory the gradients read if the last element of a row of an input is `value`. */
static uint64_t bytes_read(att_session *session, att_kernel *kernel, int which, int row, float value) {
    int dim = kernel->variant.knobs.head_dim;
    struct workload_files files = {0};
    struct workload workload;
    struct check_result result;
    struct check_options options = {.layout = LAYOUT_PACKED, .shown = 3};
    struct text error = {0};
    make_files(&files, &small, INPUTS, -1, 0, 0, dim);
    ((float *)files.file[which].data)[row * dim + dim - 1] = value;
    cr_assert(workload_make(&workload, &kernel->variant.knobs, &small, &files, 1, &error), "%s", text_string(&error));
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s", text_string(&result.report));
    uint64_t bytes = result.counters.global_read;
    check_free(&result);
    workload_free(&workload);
    for (int i = 0; i < INPUTS; i++)
        npy_free(&files.file[i]);
    return bytes;
}

/* Returns that number in times of what finite inputs take. */
static double times_read(att_session *session, const char *problem, int which, int row) {
    att_kernel *kernel = run_find(session, problem, "algorithm=flash_async");
    return (double)bytes_read(session, kernel, which, row, NAN) / (double)bytes_read(session, kernel, which, row, 0);
}

/* The last key is seen by the last query alone. Rows of dQ of others in its tile would be summed again from global memory, were its NaN
   not taken out of the tile (templates/backward/clear_nan.cuh). All of dK and dV is NaN, and warps look once or twice where from. */
Test(backward_nonfinite, a_nan_in_k_makes_no_row_of_dq_be_summed_again) {
    static const struct {
        const char *problem;
        double most; /* without clear_nan.cuh: 5.1, 4.6, 5.4, 5.4, 6.1, 2.9, 8.9, 4.8, 6.2 */
    } cases[] = {
        {HOPPER "bf16 head_dim=64 mask=causal", 2.3},
        {HOPPER "bf16 head_dim=96 mask=causal", 2.9},
        {HOPPER "fp16 head_dim=128 mask=causal", 3},
        {HOPPER "fp16 head_dim=128 mask=causal deterministic=1", 3},
        {HOPPER "fp16 head_dim=96 mask=causal deterministic=1", 3.5},
        {HOPPER "bf16 head_dim=192 mask=causal", 2.5},
        {HOPPER "bf16 head_dim=208 mask=causal", 7.2},
        {HOPPER "bf16 head_dim=256 mask=causal", 3.1},
        {HOPPER "bf16 head_dim=256 mask=causal deterministic=1", 3.9},
    };
    att_session *session = run_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double times = times_read(session, cases[i].problem, 1, LEN_KV - 1);
        cr_expect_leq(times, cases[i].most, "%s: %.2f times as many bytes", cases[i].problem, times);
    }
    att_close(session);
}

/* The keys of a tile that do not see the query would have their rows of dK or dV summed again. */
Test(backward_nonfinite, a_nan_in_q_or_d_o_makes_no_row_be_summed_again) {
    static const struct {
        const char *problem;
        double most_q, most_d_o; /* without clear_nan.cuh: 2.1 to 4.1 */
    } cases[] = {
        {HOPPER "bf16 head_dim=64 mask=causal", 2, 2},
        {HOPPER "bf16 head_dim=96 mask=causal", 2, 2},
        {HOPPER "fp16 head_dim=128 mask=causal", 2, 2.2},
        {HOPPER "fp16 head_dim=128 mask=causal deterministic=1", 2, 2.2},
        {HOPPER "fp16 head_dim=96 mask=causal deterministic=1", 2, 2.2},
        {HOPPER "bf16 head_dim=192 mask=causal", 2, 2.2},
        {HOPPER "bf16 head_dim=208 mask=causal", 3.2, 2.9},
        {HOPPER "bf16 head_dim=256 mask=causal", 2, 2},
    };
    att_session *session = run_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double q = times_read(session, cases[i].problem, 0, LEN_Q + 1); /* of the second head */
        double d_o = times_read(session, cases[i].problem, 3, LEN_Q + 1);
        cr_expect_leq(q, cases[i].most_q, "%s: %.2f times as many bytes", cases[i].problem, q);
        cr_expect_leq(d_o, cases[i].most_d_o, "%s: %.2f times as many bytes", cases[i].problem, d_o);
    }
    att_close(session);
}
