/* att_explain: the choice that att_find would make, in words. */
#include "bundle.h"
#include "session.h"

#include <string.h>

static void print_value(enum knob_id id, int value, struct text *text) {
    if (knob_table[id].kind == KNOB_KIND_WORD)
        text_print(text, "%s", knob_word_name(id, value));
    else
        text_print(text, "%d", value);
}

/* Was the knob named in this text? */
static bool is_given(const char *text, unsigned group, enum knob_id id) {
    struct input input = {"", text, strlen(text)};
    struct knobs knobs;
    struct diag diag = {0};
    for (int i = 0; i < KNOB_COUNT; i++)
        knob_set(&knobs, (enum knob_id)i, AUTO);
    bool good = knobs_parse(&input, group, &knobs, &diag);
    diag_free(&diag);
    return good && knob_get(&knobs, id) != AUTO;
}

static const char *explain_origin(const struct variant *variant, enum knob_id id, const char *problem,
                                  const char *schedule) {
    if (is_given(problem, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, id) ||
        is_given(schedule, 1u << KNOB_GROUP_SCHEDULE, id))
        return "given";
    if (id == KNOB_target)
        return "the library's choice for this device";
    if (id == KNOB_algorithm)
        return "the family's default";
    if (knob_get(&variant->knobs, id) == knob_table[id].fallback)
        return "default";
    return knob_table[id].group == KNOB_GROUP_SCHEDULE ? "the template's choice" : "derived";
}

static void print_knobs(const struct variant *variant, const char *problem, const char *schedule, struct text *text) {
    for (int i = 0; i < KNOB_COUNT; i++) {
        enum knob_id id = (enum knob_id)i;
        if (!(variant->used >> id & 1))
            continue;
        text_print(text, "  %-11s = ", knob_table[id].name);
        print_value(id, knob_get(&variant->knobs, id), text);
        text_print(text, "  (%s): %s\n", explain_origin(variant, id, problem, schedule), knob_table[id].about);
    }
}

static void print_plan(const struct plan *plan, struct text *text) {
    for (int i = 0; i < plan->launches; i++) {
        const struct plan_launch *launch = &plan->launch[i];
        text_print(text, "  launch %d: %s on ", i + 1, launch->entry);
        plan_print(&launch->grid, text);
        text_print(text, " blocks of %d threads, %d bytes of shared memory each", launch->block, launch->shared);
        if (launch->cluster)
            text_print(text, ", in clusters of %d", launch->cluster);
        text_print(text, "\n");
    }
    text_print(text, "  workspace: ");
    plan_print(&plan->workspace, text);
    text_print(text, " bytes\n");
}

static enum att_status explain(const att_session *session, const char *problem, const char *schedule, struct text *text,
                               struct failure *failure) {
    struct variant variant;
    struct source source = {0};
    struct diag diag = {0};
    enum att_status status = find_variant(session, problem, schedule, &variant, failure);
    if (status != ATT_OK)
        return status;
    const struct att_bundle_kernel *bundled = bundle_find(session->bundles, &variant, session->info.arch, !schedule);
    text_print(text, "%s on %s (%s)\n", variant.name, session->info.device_name, session->info.arch);
    print_knobs(&variant, problem, schedule ? schedule : "", text);
    if (!source_expand(session->templates, &variant, "<problem>", &source, &diag))
        status = failure_take(failure, ATT_INTERNAL, &diag);
    else
        print_plan(&source.plan, text);
    if (bundled)
        text_print(text, "  a bundle holds %s for this problem, built for %s\n", bundled->name, bundled->arch);
    source_free(&source);
    diag_free(&diag);
    return status;
}

enum att_status att_explain(att_session *session, const char *problem, const char *schedule, char *text, size_t size,
                            size_t *needed) {
    struct failure failure = {0};
    struct text paragraph = {0};
    enum att_status status = session_enter(session);
    if (status != ATT_OK)
        return status;
    if (size && !text)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "text is null, expected room for %zu bytes", size);
    else if (explain(session, problem, schedule, &paragraph, &failure) == ATT_OK && paragraph.failed)
        failure_set(&failure, ATT_OUT_OF_MEMORY, "out of memory while explaining");
    const struct text *answer = failure.status == ATT_OK ? &paragraph : &failure.text;
    if (needed)
        *needed = answer->size + 1;
    if (text && size) {
        size_t shown = answer->size < size ? answer->size : size - 1;
        memcpy(text, text_string(answer), shown);
        text[shown] = '\0';
    }
    text_free(&paragraph);
    return failure.status == ATT_OK ? ATT_OK : session_fail(session, &failure);
}
