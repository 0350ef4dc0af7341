/* Tests the check itself: it passes right kernels in every layout and family, and catches every kind of wrong
   result. */
#include "check.h"
#include "inputs.h"
#include "shape_text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct check_options packed = {.layout = LAYOUT_PACKED, .shown = 3};

static att_session *open_host(const char *templates) {
    att_session *session;
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .template_dir = templates};
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    return session;
}

static att_kernel *find(att_session *session, const char *problem) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, problem, NULL, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

/* Returns the knobs of a problem, completed as far as a workload needs them. */
static struct knobs knobs_of(const char *problem) {
    struct knobs knobs = knobs_default();
    struct input input = {"problem", problem, strlen(problem)};
    struct diag diag = {0};
    cr_assert(knobs_parse(&input, ~0u, &knobs, &diag), "%s", text_string(&diag.text));
    if (knobs.head_dim_v == AUTO)
        knobs.head_dim_v = knobs.head_dim;
    return knobs;
}

static struct workload make(const char *problem, const char *sizes) {
    struct knobs knobs = knobs_of(problem);
    struct workload workload;
    struct shape shape;
    struct text error = {0};
    cr_assert(shape_parse(sizes, knobs.family, &shape, &error), "%s", text_string(&error));
    cr_assert(workload_make(&workload, &knobs, &shape, NULL, 5, &error), "%s", text_string(&error));
    return workload;
}

static const char softmax[] = "family=softmax dtype=fp16";

Test(check, right_kernels_pass_in_every_family_and_layout) {
    static const struct {
        const char *problem, *sizes;
    } cases[] = {
        {"family=softmax dtype=fp16", "rows=3,cols=37"},
        {"family=merge dtype=bf16 head_dim_v=8", "parts=5,heads=2,len_q=9"},
        {"family=attention_forward dtype=fp32 head_dim=8 mask=causal", "heads=4,kv_heads=2,len_q=9,len_kv=5"},
    };
    att_session *session = open_host(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct workload workload = make(cases[i].problem, cases[i].sizes);
        for (int layout = LAYOUT_PACKED; layout <= LAYOUT_SPREAD; layout++)
            for (int without = 0; without < 2; without++) {
                struct check_options options = {
                    .layout = (enum tensor_layout)layout, .without_lse = without, .shown = 3};
                struct check_result result;
                bool right = check_run(session, find(session, cases[i].problem), &workload, &options, &result);
                cr_assert(right, "%s: %s", cases[i].problem, text_string(&result.report));
                cr_assert(result.worst <= 1 && result.counters.global_read > 0 && result.counters.global_written > 0);
                check_free(&result);
            }
        workload_free(&workload);
    }
    att_close(session);
}

Test(check, numbers_on_the_device_are_checked_where_that_is_asked_for) {
    const struct check_options options = {.layout = LAYOUT_PACKED, .shown = 3, .numbers = true};
    static const char padded[] = "family=attention_forward dtype=fp32 head_dim=8 layout=padded";
    att_session *session = open_host(NULL);
    struct workload workload = make(padded, "batch=3,heads=1,len_q=2,len_kv=9");
    struct check_result result;
    cr_expect(check_run(session, find(session, padded), &workload, &options, &result), "%s",
              text_string(&result.report));
    check_free(&result);
    workload.shape.len_kv = 1; /* less than the lengths */
    cr_expect_not(check_run(session, find(session, padded), &workload, &options, &result));
    cr_expect_eq(result.status, ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&result.report), "checking the arguments: ") == text_string(&result.report), "%s",
              text_string(&result.report));
    cr_expect(strstr(text_string(&result.report), "expected 0 to 1 (len_kv is the most)"), "%s",
              text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

/* Not even the oracle goes there. */
Test(check, indices_outside_of_a_gradient_are_refused) {
    static const char problem[] = "family=attention_backward dtype=bf16 head_dim=16 score=\"s + bias[q, k]\" "
                                  "params=\"bias: float[len_q, len_kv]\" wants=\"dq, d_bias\"";
    att_session *session = open_host(NULL);
    struct workload workload = make(problem, "heads=2,len_q=5,len_kv=900");
    struct check_result result;
    cr_expect_not(check_run(session, find(session, problem), &workload, &packed, &result));
    cr_expect(strstr(text_string(&result.report), "q, may run from 895 to 899"), "%s", text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

Test(check, a_wrong_element_is_reported_with_its_place_and_values) {
    att_session *session = open_host(NULL);
    struct workload workload = make(softmax, "rows=3,cols=37");
    struct check_result result;
    workload.output[0].expected[2 * 37 + 5] += 0.25;
    cr_assert_not(check_run(session, find(session, softmax), &workload, &packed, &result));
    cr_assert_eq(result.status, ATT_OK);
    cr_assert_eq(result.mismatches, 1);
    cr_assert(strstr(text_string(&result.report), "y[row 2, column 5]: expected 0.2"), "%s",
              text_string(&result.report));
    cr_assert(strstr(text_string(&result.report), "allowed error"));
    cr_assert(result.worst > 1 && fabs(result.error - 0.25) < 1e-3);
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

Test(check, nan_and_infinity_are_never_near_a_number) {
    static const double wrong[] = {NAN, INFINITY, -INFINITY};
    att_session *session = open_host(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct workload workload = make(softmax, "rows=1,cols=3");
        struct check_result result;
        workload.output[0].expected[1] = wrong[i];
        cr_assert_not(check_run(session, find(session, softmax), &workload, &packed, &result));
        cr_assert_eq(result.mismatches, 1);
        check_free(&result);
        workload_free(&workload);
    }
    att_close(session);
}

Test(check, the_report_stops_but_the_count_does_not) {
    att_session *session = open_host(NULL);
    struct workload workload = make(softmax, "rows=3,cols=37");
    struct check_result result;
    for (int i = 0; i < 3 * 37; i++)
        workload.output[0].expected[i] += 1;
    cr_assert_not(check_run(session, find(session, softmax), &workload, &packed, &result));
    cr_assert_eq(result.mismatches, 3 * 37);
    int lines = 0;
    for (const char *at = text_string(&result.report); *at; at++)
        lines += *at == '\n';
    cr_assert_eq(lines, packed.shown);
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

/* --- kernels that are wrong --------------------------------------------------------------------------------------- */

/* Copies the templates, with one text of one file replaced by another. */
static void change_template(const char *folder, const char *file, const char *from, const char *to) {
    static char text[1 << 16];
    char command[1024], path[512];
    snprintf(command, sizeof command, "cp -r '" SOURCE_DIR "/templates/.' '%s'", folder);
    cr_assert_eq(system(command), 0);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "r");
    cr_assert(stream);
    size_t size = fread(text, 1, sizeof text - 1, stream);
    fclose(stream);
    text[size] = '\0';
    char *at = strstr(text, from);
    cr_assert(at, "%s no longer holds '%s'", file, from);
    cr_assert((stream = fopen(path, "w")));
    fprintf(stream, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(stream);
}

Test(check, wrong_kernels_are_caught) {
    static const char store[] = "y[col] = to_output(", three_pass[] = "family=softmax dtype=fp32";
    static const struct {
        const char *what, *file, *from, *to, *problem, *sizes, *report;
    } cases[] = {
        {"an element left unwritten", "softmax_online.cu", store, "if (col != 3) y[col] = to_output(", three_pass,
         "rows=2,cols=9", "y[row 0, column 3]"},
        {"a write between rows", "softmax_online.cu", store, "y[col == 8 ? 9 : col] = to_output(", three_pass,
         "rows=2,cols=9", "bytes outside of the tensor were written"},
        {"one key too many under the mask", "walk/keys_seen_causal.cuh", "p.len_kv + 1", "p.len_kv + 2",
         "family=attention_forward dtype=fp32 head_dim=8 mask=causal", "len_q=9,len_kv=12", "o[row "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[] = "/tmp/attile-check-XXXXXX", command[64];
        cr_assert(mkdtemp(folder));
        change_template(folder, cases[i].file, cases[i].from, cases[i].to);
        att_session *session = open_host(folder);
        struct workload workload = make(cases[i].problem, cases[i].sizes);
        struct check_options options = {.layout = LAYOUT_SPREAD, .shown = 3};
        struct check_result result;
        cr_assert_not(check_run(session, find(session, cases[i].problem), &workload, &options, &result), "%s",
                      cases[i].what);
        cr_assert(strstr(text_string(&result.report), cases[i].report), "%s: %s", cases[i].what,
                  text_string(&result.report));
        check_free(&result);
        workload_free(&workload);
        att_close(session);
        snprintf(command, sizeof command, "rm -r %s", folder);
        cr_assert_eq(system(command), 0);
    }
}

/* --- workloads and shapes ----------------------------------------------------------------------------------------- */

Test(workload, inputs_are_rounded_and_repeat) {
    struct workload a = make("family=softmax dtype=bf16", "rows=2,cols=100"),
                    b = make("family=softmax dtype=bf16", "rows=2,cols=100");
    cr_assert(memcmp(a.input[0].value, b.input[0].value, 200 * sizeof(float)) == 0);
    for (int i = 0; i < 200; i++) {
        uint16_t bits;
        element_encode(NPY_BF16, a.input[0].value[i], &bits);
        cr_assert_eq(element_decode(NPY_BF16, &bits), a.input[0].value[i]);
    }
    workload_free(&a);
    workload_free(&b);
}

Test(workload, is_shared_by_variants_of_one_problem_only) {
    struct workload workload = make("family=softmax dtype=bf16", "rows=2,cols=10");
    struct knobs same = workload.problem, other = workload.problem;
    struct shape shape = workload.shape;
    same.threads = 256;
    other.dtype = dtype_fp32;
    cr_assert(workload_fits(&workload, &same, &shape));
    cr_assert_not(workload_fits(&workload, &other, &shape));
    shape.cols++;
    cr_assert_not(workload_fits(&workload, &same, &shape));
    workload_free(&workload);
}

Test(workload, merges_have_parts_that_saw_nothing) {
    struct workload workload = make("family=merge head_dim_v=4", "parts=8,len_q=50");
    int empty = 0;
    for (int64_t i = 0; i < workload.input[1].count; i++)
        empty += isinf(workload.input[1].value[i]) != 0;
    cr_assert(empty > 40 && empty < 200, "%d", empty);
    workload_free(&workload);
}

static struct npy array(int dims, int64_t a, int64_t b, int64_t c, int64_t d) {
    static char data[8];
    return (struct npy){.dims = dims, .dim = {a, b, c, d}, .data = data};
}

Test(workload, sizes_follow_from_files_and_contradictions_are_named) {
    struct knobs knobs = knobs_of("family=attention_forward head_dim=64");
    const struct {
        struct npy q, k, v;
        const char *reason; /* null = good */
    } cases[] = {
        {array(4, 2, 8, 5, 64), array(4, 2, 4, 7, 64), array(4, 2, 4, 7, 64), NULL},
        {array(3, 8, 5, 64, 0), array(3, 8, 7, 64, 0), array(3, 8, 7, 64, 0), NULL},
        {array(4, 2, 8, 5, 32), array(4, 2, 8, 7, 64), array(4, 2, 8, 7, 64),
         "q.npy: shape (2, 8, 5, 32): the last dimension is 32, but head_dim is 64"},
        {array(4, 2, 8, 5, 64), array(4, 2, 8, 7, 64), array(4, 2, 8, 6, 64),
         "v.npy: shape (2, 8, 6, 64): len_kv is 6 here, but 7"},
        {array(4, 2, 8, 5, 64), array(4, 1, 8, 7, 64), array(4, 1, 8, 7, 64), "batch is 1 here, but 2"},
        {array(4, 2, 8, 5, 64), array(3, 8, 7, 64, 0), array(3, 8, 7, 64, 0), "batch is 1 here, but 2"},
        {array(2, 5, 64, 0, 0), array(3, 8, 7, 64, 0), array(3, 8, 7, 64, 0),
         "q has dimensions (batch, heads, len_q, head_dim)"},
        {array(4, 1, 8, 5, 64), array(4, 1, 3, 7, 64), array(4, 1, 3, 7, 64), "kv_heads must divide heads"},
        {array(4, 1, 8, 5, 64), array(4, 1, 8, 7, 64), {0}, "no file for v"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct workload_files files = {{cases[i].q, cases[i].k, cases[i].v}, {"q.npy", "k.npy", "v.npy"}, NULL};
        struct shape shape;
        struct text error = {0};
        bool good = workload_shape(&knobs, &files, &shape, &error);
        cr_assert_eq(good, !cases[i].reason, "case %zu: %s", i, text_string(&error));
        if (good)
            cr_assert(shape.heads == 8 && shape.len_q == 5 && shape.len_kv == 7);
        else
            cr_assert(strstr(text_string(&error), cases[i].reason), "case %zu says: %s", i, text_string(&error));
        text_free(&error);
    }
}

Test(inputs, shapes_are_parsed_by_the_table_and_mistakes_named) {
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"len_q=3,len_kv=4", NULL},
        {"batch=2, heads=4 kv_heads=2,len_q=0,len_kv=0", NULL},
        {"len_q=3", "len_kv is missing"},
        {"len_q=3,len_vk=4", "has no size 'len_vk'; did you mean 'len_kv'?"},
        {"len_q=3,rows=4", "has no size 'rows'"},
        {"len_q=3,len_q=4,len_kv=1", "len_q is given twice"},
        {"len_q=-3,len_kv=1", "found '-3'"},
        {"len_q=99999999999999999999,len_kv=1", "len_q expects a whole number"},
        {"len_q=4294967296,len_kv=1", "len_q expects a whole number"},
        {"len_q=,len_kv=1", "found ''"},
        {"len_q", "expected name=value"},
        {"heads=4,kv_heads=3,len_q=1,len_kv=1", "kv_heads must divide heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape shape;
        struct text error = {0};
        bool good = shape_parse(cases[i].text, family_attention_forward, &shape, &error);
        cr_assert_eq(good, !cases[i].reason, "case %zu: %s", i, text_string(&error));
        cr_assert(good || strstr(text_string(&error), cases[i].reason), "case %zu says: %s", i, text_string(&error));
        text_free(&error);
    }
}
