/* variant_print: a variant -> the words that ask for it. */
#include "gen.h"

void variant_print_problem(const struct variant *variant, struct text *problem, struct text *schedule) {
    unsigned top = 1u << KNOB_family | 1u << KNOB_target, schedule_knobs = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_SCHEDULE)
            schedule_knobs |= 1u << id;
    knobs_print(&variant->knobs, (variant->used | top) & ~schedule_knobs, problem);
    knobs_print(&variant->knobs, variant->used & schedule_knobs, schedule);
}
