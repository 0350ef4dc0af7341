#include "variant_label.h"

void variant_label_add(struct variant_label *label, const struct variant *variant) {
    if (label->count++ == 0)
        label->first = *variant;
    label->varying |= label->first.used ^ variant->used;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (!knob_same(&label->first.knobs, &variant->knobs, (enum knob_id)id))
            label->varying |= KNOB_FLAG(id);
}

void variant_label_print(const struct variant_label *label, const struct variant *variant, struct text *text) {
    const char *separator = "";
    knob_flags shown = label->varying & variant->used;
    for (int id = 0; id < KNOB_COUNT; id++) {
        if (!knob_in(shown, id) || knob_get(&variant->knobs, (enum knob_id)id) == AUTO)
            continue;
        text_print(text, "%s%s", separator, knob_table[id].words ? "" : knob_table[id].prefix);
        knob_print(&variant->knobs, (enum knob_id)id, text);
        separator = " ";
    }
    if (!*separator)
        knob_print(&variant->knobs, KNOB_algorithm, text);
}

bool variant_label_implied(const struct knobs *knobs, enum knob_id id) {
    int value = knob_get(knobs, id);
    return (id == KNOB_dtype_out && value == knobs->dtype) || (id == KNOB_head_dim_v && value == knobs->head_dim) ||
           (id == KNOB_dtype_kv && value == knobs->dtype) || (id == KNOB_score && value == score_scaled) ||
           (id == KNOB_target && value == target_any) || knob_is_open(id, value);
}

void variant_label_print_shared(const struct variant_label *label, struct text *text) {
    const struct knobs *knobs = &label->first.knobs;
    knob_flags shared = (label->first.used | KNOB_FLAG(KNOB_family)) & ~label->varying;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (variant_label_implied(knobs, (enum knob_id)id))
            shared &= ~KNOB_FLAG(id);
    if (label->count == 1)
        text_print(text, "%s", label->first.name);
    else
        knobs_print(knobs, shared, text);
}
