/* choose_as_hinted: launches of sizes near those of a row of the tables take what hints of that row's sizes find. */
#include "choose_parts.h"
#include "session.h"

#include <math.h>
#include <string.h>

/* True if the variants are more different than in splitting keys: where the found one may do so, it need not. */
static bool differs(const struct variant *variant, const struct variant *found) {
    for (int id = 0; id < KNOB_COUNT; id++)
        if (id != KNOB_splits &&
            knob_get(&variant->knobs, (enum knob_id)id) != knob_get(&found->knobs, (enum knob_id)id))
            return true;
    return found->knobs.splits == 1 && variant->knobs.splits != 1;
}

bool choose_for_sizes(struct att_session *session, const struct request *request, const struct variant *found,
                      const struct shape *shape, struct choice *choice) {
    struct request hinted = *request;
    struct shape launched = *shape;
    hinted.hints.shape.batch = shape->batch;
    hinted.hints.shape.heads = shape->heads;
    hinted.hints.shape.kv_heads = shape->kv_heads;
    hinted.hints.shape.len_q = shape->len_q;
    hinted.hints.shape.len_kv = shape->len_kv;
    launched.sm_count = session->info.sm_count;
    *choice = (struct choice){0};
    if (choose_class(request, found, &launched, true) < 0)
        return choose_next(session, &hinted, choice, NULL);
    /* what such a class changes is not for launches of similar sizes that do not belong to it */
    const struct knobs problem = tuned_problem(&request->knobs);
    const struct table_list tables = choose_tables(session, &problem);
    return choose_measured(session, &hinted, choice) && choose_is_usable(session, &hinted, &tables, &choice->variant);
}

void choose_measured_sizes(struct att_session *session, const struct request *request, const struct variant *found,
                           struct measured_sizes *sizes) {
    char name[MEASURED_SIZES][VARIANT_NAME];
    int rows;
    const struct tuned_row *row = choose_measured_rows(session, request, &rows);
    sizes->count = 0;
    for (; rows > 0 && sizes->count < MEASURED_SIZES; row++, rows--) {
        struct choice choice;
        if (tuned_has_few_rows(&row->shape) || !choose_for_sizes(session, request, found, &row->shape, &choice))
            continue;
        int same = sizes->count;
        memcpy(name[same], choice.variant.name, sizeof name[same]);
        for (int i = 0; i < sizes->count; i++)
            if (sizes->size[i].same == i && strcmp(name[i], name[same]) == 0)
                same = i;
        sizes->size[sizes->count] = (struct measured_size){row->shape, differs(&choice.variant, found) ? same : -1};
        sizes->count++;
    }
}

int choose_measured_size(const struct variant *found, const struct measured_sizes *sizes, const struct shape *shape,
                         bool room) {
    struct shape in_parts = *shape;
    double least = INFINITY;
    int nearest = -1;
    if ((found->knobs.mask == mask_causal && shape->len_kv > shape->len_q) ||
        (room && plan_split(&found->splits, &in_parts) && in_parts.key_parts > 1))
        return -1; /* the rows are of kernels that do not split keys */
    for (int i = 0; i < sizes->count; i++) {
        const double distance = tuned_distance(found->knobs.family, &sizes->size[i].shape, shape);
        if (distance < least) {
            least = distance;
            nearest = sizes->size[i].same;
        }
    }
    return nearest;
}
