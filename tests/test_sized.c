/* Structs of callers that were compiled with another version's attile.h. */
#include "sized.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MORE = 16 }; /* bytes that a later version adds */

struct newer {
    struct att_options options;
    char more[MORE];
};

static enum att_status read_options(const void *callers, struct att_options *known, const char *words) {
    struct failure failure = {0};
    enum att_status status = sized_read(SIZED_OPTIONS, "options", callers, known, &failure);
    cr_expect(strstr(text_string(&failure.text), words), "%s", text_string(&failure.text));
    failure_clear(&failure);
    return status;
}

Test(sized, a_struct_without_its_size_is_refused) {
    struct att_options options = {0}, known;
    cr_expect_eq(read_options(&options, &known, "options.size is 0, expected sizeof(struct att_options), which is"),
                 ATT_INVALID_ARGUMENT);
    options.size = offsetof(struct att_options, log_context); /* smaller than in any version */
    cr_expect_eq(read_options(&options, &known, "write {.size = sizeof options}"), ATT_INVALID_ARGUMENT);
    options = (struct att_options){.size = sizeof options, .ordinal = 3};
    cr_expect_eq(read_options(&options, &known, ""), ATT_OK);
    cr_expect_eq(known.ordinal, 3);
}

Test(sized, a_newer_struct_is_read_when_it_asks_for_nothing_new) {
    struct newer newer = {.options = {.size = sizeof newer, .ordinal = 3}};
    struct att_options known;
    cr_expect_eq(read_options(&newer, &known, ""), ATT_OK);
    cr_expect(known.ordinal == 3 && known.size == sizeof known);
    newer.more[MORE - 1] = 1;
    cr_expect_eq(read_options(&newer, &known, "that attile 0.1.0 knows are set"), ATT_INVALID_ARGUMENT);
}

Test(sized, a_newer_struct_is_filled_as_far_as_is_known) {
    struct {
        struct att_counters counters;
        char more[MORE];
    } newer = {.counters = {.size = sizeof newer}};
    struct {
        struct att_counters counters;
        char behind[MORE];
    } known = {.counters = {.global_read = 5, .shared_written = 7}};
    struct failure failure = {0};
    memset(newer.more, 1, MORE);
    memset(known.behind, 1, MORE);
    cr_expect_eq(sized_write(SIZED_COUNTERS, "counters", &known.counters, &newer, &failure), ATT_OK);
    cr_expect(newer.counters.global_read == 5 && newer.counters.shared_written == 7);
    cr_expect_eq(newer.counters.size, sizeof newer);
    cr_expect_arr_eq(newer.more, (char[MORE]){0}, MORE);
    newer.counters.size = 8;
    cr_expect_eq(sized_write(SIZED_COUNTERS, "counters", &known.counters, &newer, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "counters.size is 8, expected sizeof(struct att_counters)"));
    failure_clear(&failure);
}

/* A later version must not append members where an earlier one had padding, which nobody sets. */
Test(sized, structs_end_with_their_last_member) {
#define END(type, last) (offsetof(struct type, last) + sizeof((struct type *)0)->last)
    cr_expect_eq(sizeof(struct att_options), END(att_options, quick_first));
    cr_expect_eq(sizeof(struct att_attention_args), END(att_attention_args, rope_rows));
    cr_expect_eq(sizeof(struct att_append_args), END(att_append_args, rope_rows));
    cr_expect_eq(sizeof(struct att_shared_prefix), END(att_shared_prefix, v_scale_row_stride));
    cr_expect_eq(sizeof(struct att_softmax_args), END(att_softmax_args, cols));
    cr_expect_eq(sizeof(struct att_merge_args), END(att_merge_args, len_q));
    cr_expect_eq(sizeof(struct att_kernel_info), END(att_kernel_info, from));
    cr_expect_eq(sizeof(struct att_session_info), END(att_session_info, cache_dir));
    cr_expect_eq(sizeof(struct att_counters), END(att_counters, shared_conflicts));
}
