/* knobs_print: struct knobs -> "dtype=bf16 head_dim=96 mask=\"k <= q\"", as knobs_parse reads it. */
#include "knobs.h"

void knob_print(const struct knobs *knobs, enum knob_id id, struct text *text) {
    int value = knob_get(knobs, id);
    const char *formula = knob_formula(knobs, id);
    if (formula)
        text_print(text, "\"%s\"", formula);
    else if (value == AUTO || knob_table[id].words)
        text_print(text, "%s", knob_word_name(id, value));
    else
        text_print(text, "%d", value);
}

void knobs_print(const struct knobs *knobs, knob_flags which, struct text *text) {
    const char *separator = text->size ? " " : "";
    for (int id = 0; id < KNOB_COUNT; id++) {
        if (!knob_in(which, id) || knob_get(knobs, (enum knob_id)id) == AUTO)
            continue;
        text_print(text, "%s%s=", separator, knob_table[id].name);
        knob_print(knobs, (enum knob_id)id, text);
        separator = " ";
    }
    if (knob_in(which, KNOB_mask) && *knobs->formulas.params)
        text_print(text, "%sparams=\"%s\"", separator, knobs->formulas.params);
}
