/* variant_print: a variant -> the text of its knobs. */
#include "gen.h"

void variant_print_problem(const struct variant *variant, struct text *problem, struct text *schedule) {
    knob_flags top = KNOB_FLAG(KNOB_family) | KNOB_FLAG(KNOB_target), schedule_knobs = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_SCHEDULE)
            schedule_knobs |= KNOB_FLAG(id);
    knobs_print(&variant->knobs, (variant->used | top) & ~schedule_knobs, problem);
    knobs_print(&variant->knobs, variant->used & schedule_knobs, schedule);
}
