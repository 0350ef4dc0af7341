/* choose_preferred: the default schedule for a problem on a kind of device, without measurements; and which targets can run. */
#include "choose_parts.h"
#include "session.h"

#include <stdio.h>

enum { ANY = AUTO, BOX_ALIGNMENT = 16 };

/* First come the kernels made for a kind of device, then the instruction set that suits most kernels. The defaults of the
   first suit the masks and scores that we know; kernels that spill with another expression get smaller tiles. */
static const struct preference {
    int family, algorithm, target; /* ANY: of every family; the family's first algorithm */
    int block_m, block_n, overlap; /* ANY: as the template has it */
    bool gpu_only;                 /* unless requested: on a CPU it costs and gains nothing */
    const char *with;              /* ... which of the template's defaults it departs from, for people */
} preferences[] = {
    {family_attention_forward, algorithm_flash_async, target_sm_90a, ANY, ANY, ANY, true, ""},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, 128, 64, ANY, true, ", with small tiles"},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, ANY, ANY, overlap_off, true,
     ", with the fewest registers"},
    {family_attention_forward, algorithm_flash_mma, target_sm_120, ANY, ANY, ANY, true, ""},
    {family_attention_forward, algorithm_flash_mma, target_sm_90, ANY, ANY, ANY, true, ""},
    {family_attention_forward, algorithm_flash_mma, target_sm_89, ANY, ANY, ANY, true, ""},
    {family_attention_forward, algorithm_flash_mma, target_sm_86, ANY, ANY, ANY, true, ""},
    {family_attention_forward, algorithm_flash_mma, target_sm_80, ANY, ANY, ANY, true, ""},
    {family_attention_forward, algorithm_flash_mma, target_sm_80, 64, 32, ANY, true, ", with the smallest tiles"},
    {ANY, ANY, target_sm_120, ANY, ANY, ANY, true, ""},
    {ANY, ANY, target_sm_89, ANY, ANY, ANY, true, ""},
    {ANY, ANY, target_sm_86, ANY, ANY, ANY, true, ""},
    {ANY, ANY, target_sm_80, ANY, ANY, ANY, false, ""},
    {ANY, ANY, target_any, ANY, ANY, ANY, false, ""},
    {ANY, ANY, target_sm_90a, ANY, ANY, ANY, false, ""},
};

enum { PREFERENCES = sizeof preferences / sizeof *preferences };

int choose_preferences(void) { return PREFERENCES; }

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
        (host && row->gpu_only && knobs.target == AUTO && knobs.algorithm == AUTO))
        return false;
    choice->by_rule = knobs.target == AUTO ? KNOB_FLAG(KNOB_target) : 0;
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

/* The first preference that can be used: the template's defaults. */
bool choose_default(const struct att_session *session, const struct request *request, const struct table_list *tables,
                    struct choice *choice) {
    for (int i = 0; i < PREFERENCES; i++)
        if (choose_preferred(session, request, i, choice) &&
            choose_is_usable(session, request, tables, &choice->variant))
            return true;
    return false;
}
