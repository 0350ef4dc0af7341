/* att_explain: describes the choice that att_find would make. */
#include "bundle.h"
#include "choose_parts.h"
#include "defaults.h"
#include "session.h"

#include <inttypes.h>
#include <string.h>

/* True if this text names the knob. */
static bool is_given(const char *text, unsigned group, enum knob_id id) {
    struct input input = {"", text, strlen(text)};
    struct knobs knobs = knobs_filled(AUTO);
    struct diag diag = {0};
    struct hints hints;
    bool good = problem_parse(&input, group, &knobs, &hints, &diag);
    diag_free(&diag);
    return good && knob_get(&knobs, id) != AUTO;
}

static const char by_row[] = "by the row of defaults below";

static const char *explain_origin(const struct choice *choice, const struct default_row *row, enum knob_id id,
                                  const char *problem, const char *schedule) {
    const struct variant *variant = &choice->variant;
    if (is_given(problem, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, id) ||
        is_given(schedule, 1u << KNOB_GROUP_SCHEDULE, id))
        return "given";
    if (knob_in(choice->by_rule, id))
        return "by the rule above";
    if (row && knob_get(&row->schedule, id) != AUTO)
        return by_row;
    if (id == KNOB_algorithm)
        return "the family's default";
    if (knob_get(&variant->knobs, id) == knob_table[id].fallback)
        return "default";
    return knob_table[id].group == KNOB_GROUP_SCHEDULE ? "the template's choice" : "derived";
}

/* Origins in the order of precedence: given, the rule (a tuned row, say), the template's table of defaults, the
   template. */
static void print_knobs(const struct choice *choice, const struct default_row *row, const char *problem,
                        const char *schedule, struct text *text) {
    const struct variant *variant = &choice->variant;
    bool row_taken = false;
    for (int i = 0; i < KNOB_COUNT; i++) {
        enum knob_id id = (enum knob_id)i;
        if (!knob_in(variant->used, id) || knob_is_open(id, knob_get(&variant->knobs, id)))
            continue;
        const char *origin = explain_origin(choice, row, id, problem, schedule);
        row_taken |= origin == by_row;
        text_print(text, "  %-11s = ", knob_table[id].name);
        knob_print(&variant->knobs, id, text);
        text_print(text, "  (%s): %s\n", origin, knob_table[id].about);
    }
    if (row_taken)
        text_print(text, "  row of defaults: %s:%d: %s%s%s\n", row->place.input->name, row->place.line, row->name,
                   row->because ? ": " : "", row->because ? row->because : "");
}

static void print_plan(const struct plan *plan, struct shape shape, struct text *text) {
    for (int i = 0; i < plan->launches; i++) {
        const struct plan_launch *launch = &plan->launch[i];
        text_print(text, "  launch %d: %s on ", i + 1, launch->entry);
        plan_print(&launch->grid, text);
        text_print(text, " blocks of %d threads, %d bytes of shared memory each", launch->block, launch->shared);
        if (launch->cluster)
            text_print(text, ", in clusters of %d", launch->cluster);
        if (launch->dependent)
            text_print(text, ", may start before the launch ahead has ended");
        text_print(text, "\n");
    }
    if (plan->splits.expr[PLAN_SPLIT_MOST].count) {
        text_print(text, "  splits:");
        plan_print_splits(&plan->splits, text);
        if (plan_split(&plan->splits, &shape))
            text_print(text, ": %" PRId64 " for these launches", shape.key_parts);
        text_print(text, "\n");
    }
    text_print(text, "  workspace: ");
    plan_print(&plan->workspace, text);
    text_print(text, " bytes\n");
}

static void print_shape(const struct request *request, struct text *text) {
    struct shape shape = choose_shape(request);
    text_print(text, "  for launches of");
    for (int i = 0; i < SHAPE_COUNT; i++)
        if (shape_table[i].families >> request->knobs.family & 1)
            text_print(text, " %s=%" PRId64 "%s", shape_table[i].name, shape_get(&shape, (enum shape_id)i),
                       shape_get(&request->hints.shape, (enum shape_id)i) < 0 ? " (assumed)" : "");
    text_print(text, "\n");
}

/* If the session has a lock file: does the choice agree with it, and if not, why not? */
static void print_lock(att_session *session, const struct request *request, const struct choice *choice,
                       struct text *text) {
    const struct tuned *own = session->tables.own;
    const struct tuned_row *row = choose_pinned(session, request);
    const struct table_list tables = {.count = 1, .table = {own}};
    const struct knobs defaults = knobs_default();
    struct request open = *request;
    struct variant pinned;
    if (!own || !own->lock)
        return;
    if (!tuned_is_for(own, session->info.device_name)) {
        text_print(text, "  lock: %s is for %s and pins nothing here\n", own->name, own->device);
    } else if (!row) {
        text_print(text, "  lock: %s has no row for this problem, so it is not pinned\n", own->name);
    } else if (choice->pinned) {
        text_print(text, "  lock: as %s:%d says\n", own->name, row->line);
    } else {
        for (int id = 0; id < KNOB_COUNT; id++)
            if (knob_table[id].group == KNOB_GROUP_SCHEDULE)
                knob_set(&open.knobs, (enum knob_id)id, knob_get(&defaults, (enum knob_id)id));
        bool usable = choose_complete_pinned(session, &open, row, &pinned) &&
                      choose_is_usable(session, request, &tables, &pinned);
        if (usable && strcmp(pinned.name, choice->variant.name) == 0)
            text_print(text, "  lock: as %s:%d says\n", own->name, row->line);
        else if (usable)
            text_print(text, "  lock: differs from %s:%d, which pins %s, because the request names a %s\n", own->name,
                       row->line, pinned.name, request->any_schedule ? "target" : "schedule");
        else
            text_print(text, "  lock: differs from %s:%d, which cannot be followed: %s\n", own->name, row->line,
                       pinned.reason);
    }
}

/* The kernels that launches of some sizes use in place of the choice. */
static void print_classes(att_session *session, const struct request *request, const struct choice *choice,
                          struct text *text) {
    for (int size_class = 0; choose_has_classes(request, choice) && size_class < RULE_CLASSES; size_class++) {
        struct choice own = {.variant = choice->variant};
        if (!choose_for_class(session, request, size_class, &own) ||
            strcmp(own.variant.name, choice->variant.name) == 0)
            continue;
        text_print(text, "  launches of ");
        choose_print_class(size_class, text);
        text_print(text, ": %s\n", own.variant.name);
    }
}

/* The kernels that launches use whose sizes are nearest to those of a row of the tables. */
static void print_measured_sizes(att_session *session, const struct request *request, const struct choice *choice,
                                 struct text *text) {
    struct measured_sizes sizes = {0};
    if (choose_has_classes(request, choice))
        choose_measured_sizes(session, request, &choice->variant, &sizes);
    for (int i = 0; i < sizes.count; i++) {
        struct choice own;
        if (sizes.size[i].same != i ||
            !choose_for_sizes(session, request, &choice->variant, &sizes.size[i].shape, &own))
            continue;
        text_print(text, "  launches of sizes near");
        choose_print_sizes(&sizes.size[i].shape, choice->variant.knobs.family, text);
        text_print(text, ": %s\n", own.variant.name);
    }
}

/* The candidates after the chosen one, which are used if it does not compile. */
static void print_others(att_session *session, const struct request *request, struct choice choice, struct text *text) {
    while (choose_next(session, request, &choice, text))
        text_print(text, "  would be next: %s (%s)\n", choice.variant.name, choice.rule);
}

static enum att_status explain(att_session *session, const char *problem, const char *schedule, struct text *text,
                               struct failure *failure) {
    struct request request;
    struct choice choice = {0};
    struct source source = {0};
    struct diag diag = {0};
    struct text passed = {0};
    enum att_status status = choose_read(session, problem, schedule, &request, failure);
    if (status != ATT_OK)
        return status;
    struct shape shape = choose_shape(&request);
    shape.sm_count = session->info.sm_count;
    if (choose_next(session, &request, &choice, &passed)) {
        const struct variant *variant = &choice.variant;
        const struct att_bundle_kernel *bundled =
            bundle_find(session->bundles, variant, session->info.built_for, request.any_schedule);
        text_print(text, "%s on %s (%s)\n  chosen by: %s\n", variant->name, session->info.device_name,
                   session->info.arch, choice.rule);
        print_lock(session, &request, &choice, text);
        print_shape(&request, text);
        print_knobs(&choice, variant_default_row(session->templates, variant), problem, schedule ? schedule : "", text);
        if (!source_expand(session->templates, variant, "<problem>", &source, &diag))
            status = failure_take(failure, ATT_INTERNAL, &diag);
        else
            print_plan(&source.plan, shape, text);
        print_classes(session, &request, &choice, text);
        print_measured_sizes(session, &request, &choice, text);
        if (bundled)
            text_print(text, "  a bundle holds %s for this problem, built for %s\n", bundled->name, bundled->arch);
        text_print(text, "%s", text_string(&passed));
        if (request.any_schedule) /* a requested schedule has no substitute */
            print_others(session, &request, choice, text);
    } else {
        status = failure_set(failure, ATT_UNSUPPORTED, "no kernel answers this problem: %s", choice.reason);
        if (passed.size)
            failure_add(failure, "\n%s", text_string(&passed));
    }
    text_free(&passed);
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
