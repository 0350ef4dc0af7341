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

bool choose_for_sizes(struct att_session *session, const struct request *request, const struct shape *shape,
                      struct choice *choice) {
    struct request hinted = *request;
    hinted.hints.shape.batch = shape->batch;
    hinted.hints.shape.heads = shape->heads;
    hinted.hints.shape.kv_heads = shape->kv_heads;
    hinted.hints.shape.len_q = shape->len_q;
    hinted.hints.shape.len_kv = shape->len_kv;
    *choice = (struct choice){0};
    return choose_next(session, &hinted, choice, NULL);
}

/* Appends sizes, unless launches of them belong to a class. `name`: of the variant of each. */
static void append(struct att_session *session, const struct request *request, const struct variant *found,
                   struct shape shape, struct measured_sizes *sizes, char (*name)[VARIANT_NAME]) {
    struct choice choice;
    shape.sm_count = session->info.sm_count;
    if (sizes->count == MEASURED_SIZES || tuned_has_few_rows(&shape) ||
        choose_class(request, found, &shape, true) >= 0 || !choose_for_sizes(session, request, &shape, &choice))
        return;
    int same = sizes->count;
    memcpy(name[same], choice.variant.name, sizeof name[same]);
    for (int i = 0; i < sizes->count; i++)
        if (sizes->size[i].same == i && strcmp(name[i], name[same]) == 0)
            same = i;
    sizes->size[sizes->count] = (struct measured_size){shape, differs(&choice.variant, found) ? same : -1};
    sizes->count++;
}

void choose_measured_sizes(struct att_session *session, const struct request *request, const struct variant *found,
                           struct measured_sizes *sizes) {
    char name[MEASURED_SIZES][VARIANT_NAME];
    int rows;
    const struct tuned_row *row = choose_measured_rows(session, request, &rows);
    sizes->count = 0;
    for (int i = 0; i < rows; i++)
        append(session, request, found, row[i].shape, sizes, name);
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
