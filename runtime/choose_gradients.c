/* choose_gradients: gradients of rows of 136 to 192 columns, in one launch or in three (the template's block_n of 96 or
   128, templates/attention_backward_async.cu). Measured on an H200 (docs/performance-notes.md).

   One launch multiplies five times where three multiply eight, but its items of 96 keys start more slowly, and it has no
   second launch whose blocks fill the SMs that the last items leave idle. */
#include "choose_parts.h"
#include "session.h"

#include <math.h>

/* In floating point, since hints may be of any size. */
static double cover(double size, double part) { return ceil(size / part); }

bool choose_is_one_launch(const struct knobs *found) {
    return found->family == family_attention_backward && found->algorithm == algorithm_flash_async &&
           found->block_n == 96;
}

bool choose_apart(const struct knobs *found, const struct shape *shape) {
    enum { LEAST_STEPS = 24 };
    if (!choose_is_one_launch(found) || found->layout != layout_dense || shape->batch < 1 || shape->heads < 1 ||
        shape->len_q < 1 || shape->len_kv < 1)
        return false;
    const double heads = (double)shape->heads, kv_heads = shape->kv_heads > 0 ? (double)shape->kv_heads : heads;
    const double steps = heads / kv_heads * cover((double)shape->len_q, found->block_m);
    const double items = (double)shape->batch * kv_heads * cover((double)shape->len_kv, found->block_n);
    const double rounds = cover(items, (double)shape->sm_count);
    return steps < LEAST_STEPS ||
           10 * items < 9 * rounds * (double)shape->sm_count; /* or a tenth of the SMs are idle */
}

bool choose_three_launches(const struct att_session *session, const struct request *request,
                           const struct table_list *tables, struct choice *choice) {
    struct knobs knobs = request->knobs;
    knobs.block_n = 128;
    return choose_take(session, request, tables, knobs, "few steps, or SMs that one launch would leave idle", choice);
}
