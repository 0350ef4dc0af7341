/* choose_request: reads the two texts of a request and checks them against the device. */
#include "choose_parts.h"
#include "session.h"

#include <string.h>

const char *choose_missing(const att_session *session, int target) {
    const struct target_info *info = target_info(target);
    int arch = session->info.arch_number;
    if (session->type == &backend_host || (arch >= info->first && arch <= info->last))
        return NULL;
    return info->gpus;
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
    if (diag.text.size) /* notes, the last one without its newline */
        session_log(session, ATT_LOG_WARNING, "%.*s", (int)diag.text.size - 1, text_string(&diag.text));
    diag_free(&diag);
    if (request->knobs.batch_invariant == 1)
        request->hints.shape.batch = -1; /* another kernel gives other bits */
    if (request->knobs.family == AUTO) {
        refuse_without_family(failure);
        return failure->status;
    }
    const char *missing = choose_missing(session, request->knobs.target);
    if (missing)
        return failure_set(failure, ATT_UNSUPPORTED, "target %s needs a GPU of %s; %s is %s",
                           knob_word_name(KNOB_target, request->knobs.target), missing, session->info.device_name,
                           session->info.arch);
    return ATT_OK;
}

struct shape choose_shape(const struct request *request) {
    enum { LENGTH = 8192, TOKENS = 16384, HEADS = 16, PARTS = 4 };
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
    if (shape.total_q < 0)
        shape.total_q = shape.batch * shape.len_q;
    if (shape.parts < 0)
        shape.parts = PARTS;
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_get(&shape, (enum shape_id)id) < 0)
            shape_set(&shape, (enum shape_id)id, id == SHAPE_kv_heads ? 0 : LENGTH);
    return tuned_shape(&shape);
}
