#include "helper_sequences.h"
#include "check.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void sequences_draw(float *values, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

static enum att_status launch_now(att_kernel *kernel, const struct att_args *args) {
    return att_launch(kernel, args, NULL);
}

void sequences_expect_refusal(att_session *session, att_kernel *kernel, const struct att_args *args,
                              const char *message) {
    static enum att_status (*const checks[])(att_kernel *, const struct att_args *) = {launch_now, att_check};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        cr_expect_eq(checks[i](kernel, args), ATT_INVALID_ARGUMENT, "%s", message);
        cr_expect(strstr(att_message(session), message), "expected %s, found %s", message, att_message(session));
    }
}

void sequences_expect_no_kernel(att_session *session, const char *family, const char *problem, const char *message) {
    char text[256];
    att_kernel *kernel = NULL;
    snprintf(text, sizeof text, "family=%s head_dim=8 %s", family, problem);
    cr_expect_neq(att_find(session, text, NULL, &kernel), ATT_OK, "%s", text);
    cr_expect(strstr(att_message(session), message), "%s: expected %s, found %s", text, message, att_message(session));
}

void sequences_check_nan_stays(att_session *session, const char *family, const char *problem, const char *schedule,
                               const struct shape *shape) {
    enum { DIM = 64 };
    const struct check_options options = {.layout = LAYOUT_SPREAD, .shown = 3};
    char text[256];
    att_kernel *kernel = NULL;
    struct workload workload;
    struct check_result result;
    struct text error = {0};
    int spoiled = 0;
    snprintf(text, sizeof text, "family=%s head_dim=%d %s", family, DIM, problem);
    cr_assert_eq(att_find(session, text, schedule, &kernel), ATT_OK, "%s", att_message(session));
    cr_assert(workload_make(&workload, &kernel->variant.knobs, shape, NULL, 6, &error), "%s", text_string(&error));
    for (int64_t b = 0; b < shape->batch; b++) {
        if (workload.lengths.len_q[b] > 0 || workload.lengths.len_kv[b] == 0)
            continue;
        spoiled++;
        for (int tensor = 1; tensor <= 2; tensor++)
            for (int64_t e = 0; e < shape->len_kv * DIM; e++)
                workload.input[tensor].value[b * shape->len_kv * DIM + e] = NAN;
    }
    cr_assert_gt(spoiled, 0, "a sequence without queries has keys");
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s %s\n%s", text, schedule,
              text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    text_free(&error);
}
