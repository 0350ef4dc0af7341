/* The generator when memory runs out: let the first, second, third, ... allocation fail, and see an error each time,
   never a crash or a source that is not whole. The build wraps the allocators (tests/CMakeLists.txt). */
#include "helper_template.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t size);

static long left = -1; /* allocations that still succeed; negative = all */
static bool failed;

static bool deny(void) {
    bool now = left >= 0 && left-- == 0;
    failed |= now;
    return now;
}

void *__wrap_malloc(size_t size) { return deny() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return deny() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return deny() ? NULL : __real_realloc(old, size); }
char *__wrap_strdup(const char *s) { return deny() ? NULL : __real_strdup(s); }
char *__wrap_strndup(const char *s, size_t size) { return deny() ? NULL : __real_strndup(s, size); }

static const char templates[] = "//$ default block_m = 8\n"
                                "//$ let a = 2 * block_m\n"
                                "//$ launch kernel grid (len_q + block_m - 1) / block_m block 32 shared 4 * a\n"
                                "//$ workspace 4 * len_q\n"
                                "//$ for t in [q, k]\nint $t;\n//$ end\n"
                                "//$ include \"p\"\n"
                                "//$ if mask == causal\n//$ elif mask == none\n//$ end\n"
                                "int x = A + BLOCK_M;\n"
                                "@ p\nint y;\n";

/* The whole way once; false when any stage reported an error. */
static bool generate(struct text *output, struct diag *diag) {
    struct template_text text = {templates, sizeof templates - 1};
    struct template_set *set = template_text_open(&text, diag);
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    struct source source;
    if (!set)
        return false;
    bool good = variant_complete(set, &knobs, true, &variant);
    cr_assert(good, "%s", variant.reason); /* allocates nothing */
    good = source_expand(set, &variant, "spec.yaml", &source, diag);
    if (good) {
        cr_assert_eq(source.origin[source.lines - 1].line, 12);
        text_append(output, text_string(&source.text), source.text.size);
    }
    source_free(&source);
    template_set_close(set);
    return good;
}

Test(gen_memory, every_allocation_may_fail_once) {
    struct text whole = {0};
    struct diag diag = {0};
    int failures = 0;
    cr_assert(generate(&whole, &diag), "%s", text_string(&diag.text));
    for (long count = 0;; count++) {
        struct text output = {0};
        failed = false;
        left = count;
        bool good = generate(&output, &diag);
        left = -1;
        failures += failed;
        cr_assert(good || diag.errors > 0, "allocation %ld", count);
        cr_assert(!good || output.failed || strcmp(text_string(&output), text_string(&whole)) == 0, "allocation %ld",
                  count);
        diag_free(&diag);
        text_free(&output);
        if (!failed)
            break;
    }
    cr_assert_gt(failures, 50);
    text_free(&whole);
}
