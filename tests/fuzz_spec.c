/* Reads arbitrary bytes as a spec and as inline knob text. They are read or refused, without a crash, a leak or
   a long wait. */
#include "gen.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct diag diag = {0};
    struct spec *spec = spec_read("fuzz", (const char *)data, size, &diag);
    if ((spec == NULL) != (diag.errors > 0))
        abort(); /* refused without a message, or accepted despite an error */
    for (int id = 0; spec && id < KNOB_COUNT; id++)
        for (int i = 0; i < spec->axis[id].count; i++) {
            int value = spec->axis[id].value[i];
            const struct knob_info *knob = &knob_table[id];
            if (value != knob->fallback && knob->kind == KNOB_KIND_INT && (value < knob->least || value > knob->most))
                abort();
        }
    spec_free(spec);
    diag_free(&diag);

    struct input input = {"fuzz", (const char *)data, size};
    struct knobs knobs = knobs_default();
    if (knobs_parse(&input, 7, &knobs, &diag) != (diag.errors == 0))
        abort();
    diag_free(&diag);
    return 0;
}
