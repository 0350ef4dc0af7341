/* choose_preferred: the default schedule for a problem on a kind of device, without measurements; and which targets can
   run. */
#include "choose_parts.h"
#include "session.h"

#include <math.h>
#include <stdio.h>

enum { ANY = AUTO };

/* First the kernels made for one kind of device, then the instruction set that suits most kernels. The defaults of the
   former suit the known masks and scores; kernels that spill with another expression get smaller tiles. */
static const struct preference {
    int family, algorithm, target;       /* ANY: every family; the family's first algorithm */
    int block_m, block_n, overlap;       /* ANY: the template's choice */
    bool gpu_only;                       /* unless requested: on a CPU it brings cost and no gain */
    const char *with;                    /* how it departs from the template's defaults, for people */
    enum { ALL_ROWS, PACKED, FEW } rows; /* rows of Q that share a K/V head */
} preferences[] = {
    {family_attention_forward, algorithm_mla, target_sm_90a, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, ANY, ANY, ANY, true, "", PACKED},
    {family_attention_forward, algorithm_decode, target_sm_120, ANY, ANY, ANY, true, "", FEW},
    {family_attention_forward, algorithm_decode, target_sm_90, ANY, ANY, ANY, true, "", FEW},
    {family_attention_forward, algorithm_decode, target_sm_89, ANY, ANY, ANY, true, "", FEW},
    {family_attention_forward, algorithm_decode, target_sm_86, ANY, ANY, ANY, true, "", FEW},
    {family_attention_forward, algorithm_decode, target_sm_80, ANY, ANY, ANY, true, "", FEW},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, 128, 64, ANY, true, ", with small tiles",
     ALL_ROWS},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, ANY, ANY, overlap_off, true,
     ", with the fewest registers", ALL_ROWS},
    {family_attention_forward, algorithm_flash_mma, target_sm_120, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_forward, algorithm_flash_mma, target_sm_90, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_forward, algorithm_flash_mma, target_sm_89, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_forward, algorithm_flash_mma, target_sm_86, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_forward, algorithm_flash_mma, target_sm_80, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_forward, algorithm_flash_mma, target_sm_80, 64, 32, ANY, true, ", with the smallest tiles",
     ALL_ROWS},
    {family_attention_backward, algorithm_flash_async, target_sm_90a, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_backward, algorithm_flash_mma, target_sm_120, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_backward, algorithm_flash_mma, target_sm_90, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_backward, algorithm_flash_mma, target_sm_89, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_backward, algorithm_flash_mma, target_sm_86, ANY, ANY, ANY, true, "", ALL_ROWS},
    {family_attention_backward, algorithm_flash_mma, target_sm_80, ANY, ANY, ANY, true, "", ALL_ROWS},
    {ANY, ANY, target_sm_120, ANY, ANY, ANY, true, "", ALL_ROWS},
    {ANY, ANY, target_sm_89, ANY, ANY, ANY, true, "", ALL_ROWS},
    {ANY, ANY, target_sm_86, ANY, ANY, ANY, true, "", ALL_ROWS},
    {ANY, ANY, target_sm_80, ANY, ANY, ANY, false, "", ALL_ROWS},
    {ANY, ANY, target_any, ANY, ANY, ANY, false, "", ALL_ROWS},
    {ANY, ANY, target_sm_90a, ANY, ANY, ANY, false, "", ALL_ROWS},
};

enum { PREFERENCES = sizeof preferences / sizeof *preferences };

int choose_preferences(void) { return PREFERENCES; }

/* --- few rows ---------------------------------------------------------------------------------------------------- */

enum { FEW_ROWS = TUNED_FEW_ROWS, SMALL_HEAD_DIM = 64, USUAL_HEAD_DIM = 256 };

/* The sizes that the request states or pins. */
static struct shape sizes_of(const struct request *request) {
    struct shape shape = request->hints.shape;
    for (int i = 0; i < FIXED_SIZES; i++)
        if (knob_get(&request->knobs, fixed_sizes[i].knob) > 0)
            shape_set(&shape, fixed_sizes[i].shape, knob_get(&request->knobs, fixed_sizes[i].knob));
    return shape;
}

/* True if the head dimensions exceed those of the other tensor-core kernels. */
static bool is_wide(const struct knobs *knobs) {
    return knobs->head_dim > USUAL_HEAD_DIM || knobs->head_dim_v > USUAL_HEAD_DIM;
}

enum few_rows choose_few(const struct knobs *problem, const struct shape *shape) {
    enum { TILE_BYTES = 512 << 10, QUICKLY_READ = 80000000, SHORT = 4096, MANY_GROUPS = 64, GROUPS = 4 };
    const int64_t rows = tuned_few_rows(shape), tiles_of_group = (rows + LEAST_ROWS - 1) / LEAST_ROWS;
    if (rows < 1 || rows > FEW_ROWS || problem->dtype == dtype_fp32 || problem->layout != layout_dense ||
        problem->mask == mask_custom_mask || problem->score != score_scaled || problem->sinks != 0 ||
        problem->batch_invariant == 1 || problem->append > 0 || knobs_quantised(problem) || is_wide(problem))
        return FEW_AT_ONCE;
    const int head_dim_v = problem->head_dim_v > 0 ? problem->head_dim_v : problem->head_dim;
    const double kv_heads = (double)(shape->kv_heads > 0 ? shape->kv_heads : shape->heads > 0 ? shape->heads : 1);
    const double groups = kv_heads * (double)(shape->batch > 0 ? shape->batch : 1);
    const double keys = shape->len_kv >= 0 ? (double)shape->len_kv : INFINITY;
    const double read = (double)tiles_of_group * groups * (2.0 * (problem->head_dim + head_dim_v) * keys + TILE_BYTES);
    if (read <= QUICKLY_READ)
        return rows > LEAST_ROWS ? FEW_BY_EIGHT : FEW_AT_ONCE;
    const bool wide = problem->head_dim > SMALL_HEAD_DIM || head_dim_v > SMALL_HEAD_DIM;
    const bool packed = rows <= LEAST_ROWS       ? wide && groups >= MANY_GROUPS && keys <= SHORT
                        : rows <= 2 * LEAST_ROWS ? groups >= GROUPS
                                                 : true;
    return packed ? FEW_PACKED : FEW_AT_ONCE;
}

void choose_packed_few(const struct att_session *session, const struct request *request, bool grouped,
                       struct choice *choice) {
    struct knobs knobs = request->knobs;
    const bool narrow = knobs.head_dim <= SMALL_HEAD_DIM && choose_agrees(knobs.head_dim_v, knobs.head_dim);
    const struct {
        enum knob_id knob;
        int value;
    } wishes[] = {{KNOB_algorithm, algorithm_flash_async},
                  {KNOB_block_m, PACKED_ROWS},
                  {KNOB_block_n, narrow ? 256 : AUTO}, /* short rows: large tiles keep enough bytes in flight */
                  {KNOB_stages, narrow ? 3 : AUTO},
                  {KNOB_rescale, rescale_lazy},
                  {KNOB_pack_gqa, grouped},
                  {KNOB_splits, 0}};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        if (wishes[i].value != AUTO) {
            knob_set(&knobs, wishes[i].knob, wishes[i].value);
            choice->by_rule |= KNOB_FLAG(wishes[i].knob);
        }
    choose_complete(session->templates, knobs, target_sm_90a, &choice->variant);
    choice->fits = true;
    snprintf(choice->rule, sizeof choice->rule,
             "few rows of Q share a K/V head, and K and V are large: tiles of %d rows by wgmma, K and V by TMA",
             PACKED_ROWS);
}

/* decode: uses the smallest Q tile that holds all rows, or the largest that the template supports; or tiles of eight
   rows. */
static bool complete_few(const struct att_session *session, const struct request *request, const struct preference *row,
                         struct knobs knobs, struct choice *choice) {
    const struct shape shape = sizes_of(request);
    const int64_t rows = tuned_few_rows(&shape);
    /* other tensor-core kernels support none of these */
    bool only = is_wide(&knobs) || knobs_quantised(&knobs) || knobs.append > 0;
    if (knobs.algorithm == AUTO && (rows < 1 || rows > FEW_ROWS) && !only)
        return false;
    knobs.algorithm = row->algorithm;
    int block_m = LEAST_ROWS;
    const bool eights = row->target == target_sm_90 && choose_few(&knobs, &shape) == FEW_BY_EIGHT; /* measured there */
    while (block_m < rows && block_m < FEW_ROWS && !eights)
        block_m *= 2;
    bool open = knobs.block_m == AUTO && rows > 0;
    do {
        if (open)
            knobs.block_m = block_m;
        choose_complete(session->templates, knobs, row->target, &choice->variant);
        block_m /= 2;
    } while (open && !choice->variant.feasible && block_m >= LEAST_ROWS);
    choice->by_rule |= open ? KNOB_FLAG(KNOB_block_m) : 0;
    if (is_wide(&knobs))
        snprintf(choice->rule, sizeof choice->rule, "the algorithm on tensor cores for head dimensions above %d",
                 USUAL_HEAD_DIM);
    else if (request->knobs.algorithm == AUTO && (rows < 1 || rows > FEW_ROWS) && knobs.append > 0)
        snprintf(choice->rule, sizeof choice->rule, "the algorithm that writes new tokens to the cache");
    else if (request->knobs.algorithm == AUTO && (rows < 1 || rows > FEW_ROWS))
        snprintf(choice->rule, sizeof choice->rule, "the algorithm on tensor cores for K and V of 8 bits");
    else
        snprintf(choice->rule, sizeof choice->rule,
                 rows ? "the algorithm for few queries: %lld rows of Q share a K/V head, up to %d are few%s"
                      : "the algorithm that is asked for, with the template's defaults",
                 (long long)rows, FEW_ROWS, eights ? "; by eight while L2 has K and V" : "");
    return true;
}

/* --- a row ------------------------------------------------------------------------------------------------------- */

bool choose_complete(const struct template_set *set, struct knobs knobs, int target, struct variant *variant) {
    if (knobs.target != AUTO)
        return variant_complete(set, &knobs, true, variant);
    knobs.target = target;
    variant_complete(set, &knobs, false, variant);
    if (!knob_in(variant->used, KNOB_target))
        knobs.target = target_any;
    return variant_complete(set, &knobs, true, variant);
}

bool choose_preferred(const att_session *session, const struct request *request, int number, struct choice *choice) {
    const struct preference *row = &preferences[number];
    struct knobs knobs = request->knobs;
    bool host = session->type == &backend_host;
    if (!choose_agrees(row->family, knobs.family) || !choose_agrees(knobs.algorithm, row->algorithm) ||
        !choose_agrees(knobs.target, row->target) || !choose_agrees(knobs.overlap, row->overlap) ||
        !choose_agrees(knobs.block_m, row->block_m) || !choose_agrees(knobs.block_n, row->block_n) ||
        choose_missing(session, row->target) ||
        (host && row->gpu_only && knobs.target == AUTO && knobs.algorithm == AUTO &&
         !(row->rows == FEW && knobs.append > 0)))
        return false;
    choice->fits = false;
    choice->by_rule = knobs.target == AUTO ? KNOB_FLAG(KNOB_target) : 0;
    if (row->rows == PACKED) {
        const struct shape shape = sizes_of(request);
        if (!request->any_schedule || choose_few(&knobs, &shape) != FEW_PACKED)
            return false;
        choose_packed_few(session, request, shape.heads < 1 || tuned_shape(&shape).kv_heads != shape.heads, choice);
        return true;
    }
    if (row->rows == FEW) {
        choice->by_rule |= knobs.algorithm == AUTO ? KNOB_FLAG(KNOB_algorithm) : 0;
        return complete_few(session, request, row, knobs, choice);
    }
    const struct {
        enum knob_id knob;
        int value;
    } wishes[] = {{KNOB_algorithm, row->algorithm},
                  {KNOB_block_m, row->block_m},
                  {KNOB_block_n, row->block_n},
                  {KNOB_overlap, row->overlap}};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        if (wishes[i].value != ANY && knob_get(&knobs, wishes[i].knob) == AUTO) {
            knob_set(&knobs, wishes[i].knob, wishes[i].value);
            choice->by_rule |= KNOB_FLAG(wishes[i].knob);
        }
    choose_complete(session->templates, knobs, row->target, &choice->variant);
    snprintf(choice->rule, sizeof choice->rule, "%s%s, with the template's defaults%s",
             request->knobs.algorithm != AUTO ? "the algorithm that is asked for"
             : row->algorithm != ANY          ? "the algorithm for this kind of GPU"
                                              : "the family's first algorithm",
             row->with, request->any_schedule ? "" : " where the schedule leaves them open");
    return true;
}

/* --- what can be used ------------------------------------------------------------------------------------------ */

bool choose_is_usable(const struct att_session *session, const struct request *request, const struct table_list *tables,
                      struct variant *variant) {
    if (!variant->feasible)
        return false;
    if (variant->boxed && request->hints.alignment && request->hints.alignment < BOX_ALIGNMENT) {
        snprintf(variant->reason, sizeof variant->reason,
                 "it copies in boxes, which takes an alignment of %d bytes; %d is all that is promised", BOX_ALIGNMENT,
                 request->hints.alignment);
        return false;
    }
    for (int i = 0; i < tables->count; i++) {
        const struct tuned *table = tables->table[i];
        const struct tuned_denial *denial = tuned_denies(table, variant, GEN_VERSION);
        if (!denial)
            continue;
        snprintf(variant->reason, sizeof variant->reason, "out of service on %s: %s (%s:%d)", session->info.device_name,
                 denial->because, table->name, denial->line);
        return false;
    }
    return true;
}

/* Chooses the first preference that can be used: the template's defaults. */
bool choose_default(const struct att_session *session, const struct request *request, const struct table_list *tables,
                    struct choice *choice) {
    for (int i = 0; i < PREFERENCES; i++)
        if (choose_preferred(session, request, i, choice) &&
            choose_is_usable(session, request, tables, &choice->variant))
            return true;
    return false;
}
