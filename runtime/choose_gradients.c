/* choose_gradients: gradients of rows of 136 to 192 columns, in one launch or in three (the template's block_n of 96 or
   128, templates/attention_backward_async.cu). Measured on an H200 (docs/performance-notes.md).

   One launch multiplies five times where three multiply eight, but its items of 96 keys start more slowly, and it has no
   second launch whose blocks fill the SMs that the last items leave idle. */
#include "choose_parts.h"
#include "session.h"

static int64_t cover(int64_t size, int64_t part) { return (size + part - 1) / part; }

bool choose_is_one_launch(const struct knobs *found) {
    return found->family == family_attention_backward && found->algorithm == algorithm_flash_async &&
           found->block_n == 96;
}

bool choose_apart(const struct knobs *found, const struct shape *shape) {
    enum { QUERIES = 64, LEAST_STEPS = 24 };
    if (!choose_is_one_launch(found) || found->layout != layout_dense || shape->batch < 1 || shape->heads < 1 ||
        shape->len_q < 1 || shape->len_kv < 1)
        return false;
    const int64_t kv_heads = shape->kv_heads > 0 ? shape->kv_heads : shape->heads;
    const int64_t steps = shape->heads / kv_heads * cover(shape->len_q, QUERIES);
    const int64_t items = shape->batch * kv_heads * cover(shape->len_kv, found->block_n);
    const int64_t rounds = cover(items, shape->sm_count);
    return steps < LEAST_STEPS || 10 * items < 9 * rounds * shape->sm_count; /* or a tenth of the SMs are idle */
}

bool choose_three_launches(const struct att_session *session, const struct request *request,
                           const struct table_list *tables, struct choice *choice) {
    struct knobs knobs = request->knobs;
    knobs.block_n = 128;
    return choose_take(session, request, tables, knobs, "few steps, or SMs that one launch would leave idle", choice);
}
