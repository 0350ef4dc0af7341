#include "choose_parts.h"
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SM_80 = 80, SM_90 = 90, BOX_ALIGNMENT = 16 };

/* --- reading --------------------------------------------------------------------------------------------------- */

static const char *missing_from_gpu(const att_session *session, int target) {
    int arch = session->info.arch_number;
    if (session->type == &backend_host)
        return NULL;
    if (target == target_sm_80 && arch < SM_80)
        return "compute capability 8.0 or later";
    return target == target_sm_90a && arch != SM_90 ? "compute capability 9.0" : NULL;
}

static void refuse_without_family(struct failure *failure) {
    failure_set(failure, ATT_INVALID_TEXT, "<problem>: error: no family is named; expected family= with one of");
    for (int i = 0; knob_table[KNOB_family].words[i]; i++)
        failure_add(failure, "%s %s", i ? "," : "", knob_table[KNOB_family].words[i]);
}

enum att_status choose_read(const struct att_session *session, const char *problem, const char *schedule,
                            struct request *request, struct failure *failure) {
    struct diag diag = {0};
    *request = (struct request){.knobs = knobs_default(), .any_schedule = !schedule || !*schedule};
    request->knobs.target = AUTO; /* to see whether the caller names one */
    if (!problem)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "problem is null, expected a text such as "
                           "\"family=attention_forward dtype=bf16 head_dim=64\"");
    const struct input what = {"<problem>", problem, strlen(problem)};
    const struct input how = {"<schedule>", schedule ? schedule : "", schedule ? strlen(schedule) : 0};
    if (!problem_parse(&what, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &request->knobs, &request->hints,
                       &diag) ||
        !knobs_parse(&how, 1u << KNOB_GROUP_SCHEDULE, &request->knobs, &diag))
        return failure_take(failure, ATT_INVALID_TEXT, &diag);
    if (request->knobs.family == AUTO) {
        refuse_without_family(failure);
        return failure->status;
    }
    const char *missing = missing_from_gpu(session, request->knobs.target);
    if (missing)
        return failure_set(failure, ATT_UNSUPPORTED, "target %s needs a GPU of %s; %s is %s",
                           knob_word_name(KNOB_target, request->knobs.target), missing, session->info.device_name,
                           session->info.arch);
    return ATT_OK;
}

struct shape choose_shape(const struct request *request) {
    enum { LENGTH = 8192, TOKENS = 16384, HEADS = 16 };
    struct shape shape = request->hints.shape;
    for (int i = 0; i < FIXED_SIZES; i++)
        if (knob_get(&request->knobs, fixed_sizes[i].knob) > 0)
            shape_set(&shape, fixed_sizes[i].shape, knob_get(&request->knobs, fixed_sizes[i].knob));
    if (shape.len_q < 0)
        shape.len_q = shape.len_kv < 0 ? LENGTH : shape.len_kv;
    if (shape.len_kv < 0)
        shape.len_kv = shape.len_q;
    if (shape.heads < 0)
        shape.heads = HEADS;
    if (shape.batch < 0)
        shape.batch = shape.len_q < TOKENS / 2 ? TOKENS / (shape.len_q ? shape.len_q : 1) : 2;
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_get(&shape, (enum shape_id)id) < 0)
            shape_set(&shape, (enum shape_id)id, id == SHAPE_kv_heads ? 0 : LENGTH);
    return tuned_shape(&shape);
}

/* --- candidates ------------------------------------------------------------------------------------------------ */

enum { ANY = AUTO };

/* First come the kernels made for a kind of device, then the instruction set that suits most kernels. The defaults of the
   first suit the masks and scores that we know; what spills with one of somebody's own gets smaller tiles. */
static const struct preference {
    int family, algorithm, target; /* ANY: of every family; the family's first algorithm */
    int block_m, block_n, overlap; /* ANY: as the template has it */
    bool gpu_only;                 /* unless asked for: on a CPU its price buys nothing */
    const char *with;              /* ... which of the template's defaults it departs from, for people */
} preferences[] = {
    {family_attention_forward, algorithm_flash_async, target_sm_90a, ANY, ANY, ANY, true, ""},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, 128, 64, ANY, true, ", with small tiles"},
    {family_attention_forward, algorithm_flash_async, target_sm_90a, ANY, ANY, overlap_off, true,
     ", with the fewest registers"},
    {ANY, ANY, target_sm_80, ANY, ANY, ANY, false, ""},
    {ANY, ANY, target_any, ANY, ANY, ANY, false, ""},
    {ANY, ANY, target_sm_90a, ANY, ANY, ANY, false, ""},
};

enum { PREFERENCES = sizeof preferences / sizeof *preferences };

bool choose_complete(const struct template_set *set, struct knobs knobs, int target, struct variant *variant) {
    if (knobs.target != AUTO)
        return variant_complete(set, &knobs, true, variant);
    knobs.target = target;
    variant_complete(set, &knobs, false, variant);
    if (!(variant->used >> KNOB_target & 1))
        knobs.target = target_any;
    return variant_complete(set, &knobs, true, variant);
}

/* False, without a reason, when this preference has nothing to do with the request. */
static bool try_preference(const att_session *session, const struct request *request, const struct preference *row,
                           struct choice *choice) {
    struct knobs knobs = request->knobs;
    bool host = session->type == &backend_host;
    if (!choose_agrees(row->family, knobs.family) || !choose_agrees(knobs.algorithm, row->algorithm) ||
        !choose_agrees(knobs.target, row->target) || !choose_agrees(knobs.overlap, row->overlap) ||
        !choose_agrees(knobs.block_m, row->block_m) || !choose_agrees(knobs.block_n, row->block_n) ||
        missing_from_gpu(session, row->target) ||
        (host && row->gpu_only && knobs.target == AUTO && knobs.algorithm == AUTO))
        return false;
    choice->by_rule = knobs.target == AUTO ? 1u << KNOB_target : 0;
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
            choice->by_rule |= 1u << wishes[i].knob;
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
    for (const struct preference *row = preferences; row < preferences + PREFERENCES; row++)
        if (try_preference(session, request, row, choice) &&
            choose_is_usable(session, request, tables, &choice->variant))
            return true;
    return false;
}

/* --- choosing -------------------------------------------------------------------------------------------------- */

/* Several preferences may come to the same kernel: it is said once. */
static void pass_over(const struct choice *choice, struct text *passed) {
    struct text line = {0};
    if (!passed)
        return;
    if (*choice->variant.name)
        text_print(&line, "  passed over: %s: %s\n", choice->variant.name, choice->variant.reason);
    else
        text_print(&line, "  passed over: %s for %s: %s\n",
                   knob_word_name(KNOB_algorithm, choice->variant.knobs.algorithm),
                   knob_word_name(KNOB_target, choice->variant.knobs.target), choice->variant.reason);
    if (!strstr(text_string(passed), text_string(&line)))
        text_append(passed, text_string(&line), line.size);
    passed->failed |= line.failed;
    text_free(&line);
}

bool choose_next(struct att_session *session, const struct request *request, struct choice *choice,
                 struct text *passed) {
    char last[VARIANT_NAME] = "";
    bool general = false; /* the reason kept is of a kernel for any device */
    const struct knobs problem = tuned_problem(&request->knobs);
    struct table_list tables = choose_tables(session, &problem);
    if (choice->next > 0)
        snprintf(last, sizeof last, "%s", choice->variant.name);
    while (choice->next <= PREFERENCES) {
        const struct preference *row = choice->next ? &preferences[choice->next - 1] : NULL;
        choice->next++;
        if (!(row ? try_preference(session, request, row, choice) : choose_measured(session, request, choice)))
            continue;
        if (!choose_is_usable(session, request, &tables, &choice->variant)) {
            bool plain = row && row->algorithm == ANY && request->knobs.algorithm == AUTO;
            if (!*choice->reason || (plain && !general))
                snprintf(choice->reason, sizeof choice->reason, "%s", choice->variant.reason);
            general = general || plain;
            pass_over(choice, passed);
        } else if (strcmp(choice->variant.name, last) != 0) { /* a tuned row may say what the template says */
            return true;
        }
    }
    return false;
}
