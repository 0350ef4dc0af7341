/* fuzz_template: takes arbitrary bytes as a template and its parts. They are parsed, completed and expanded
   without a crash and in bounded time, and the output is tidy. Parts begin at lines "@ name"; helper_template.h
   has the loader. */
#include "helper_template.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check(bool good) {
    if (!good)
        abort();
}

static void check_source(const struct source *source) {
    const char *text = text_string(&source->text);
    int lines = 0;
    for (size_t i = 0; i < source->text.size; i++)
        lines += text[i] == '\n';
    check(lines == source->lines);
    for (int i = 0; i < source->lines; i++)
        check(!source->origin[i].file || source->origin[i].line > 0);
    check(source->plan.launches >= 1 && source->plan.launches <= PLAN_LAUNCHES);
}

static void complete_and_expand(const struct template_set *set, const struct knobs *knobs) {
    struct variant variant;
    struct source source;
    struct diag diag = {0};
    check(variant_complete(set, knobs, false, &variant) == variant.feasible);
    check(variant.feasible == !variant.reason[0]);
    if (!variant.feasible)
        return;
    if (source_expand(set, &variant, "fuzz", &source, &diag))
        check_source(&source);
    else
        check(diag.errors > 0);
    source_free(&source);
    diag_free(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct template_text text = {(const char *)data, size};
    struct diag diag = {0};
    struct template_set *set = template_text_open(&text, &diag);
    check((set == NULL) == (diag.errors > 0));
    if (set) {
        struct knobs knobs = template_text_knobs();
        complete_and_expand(set, &knobs);
        knobs.mask = mask_causal;
        knobs.dtype = dtype_bf16;
        knobs.block_m = 48;
        knobs.block_n = 32;
        knobs.threads = 128;
        complete_and_expand(set, &knobs);
    }
    diag_free(&diag);
    template_set_close(set);
    return 0;
}
