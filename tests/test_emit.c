#include "emit.h"
#include "helper_cases.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- lines --------------------------------------------------------------------------------------------------------- */

/* Feeds the same bytes in pieces of every size: the lines must not depend on how they arrive. */
static void expect_lines(const char *bytes, const char *expected) {
    size_t size = strlen(bytes);
    for (size_t piece = 1; piece <= size; piece++) {
        struct emitter emitter = {0};
        for (size_t at = 0; at < size; at += piece)
            emit_bytes(&emitter, bytes + at, size - at < piece ? size - at : piece, "f", 1);
        emit_finish(&emitter);
        cr_expect_str_eq(text_string(&emitter.text), expected, "in pieces of %zu", piece);
        emit_free(&emitter);
    }
}

Test(emit, lines_do_not_depend_on_how_they_arrive) {
    expect_lines("a\nb\n", "a\nb\n");
    expect_lines("a", "a\n");
    expect_lines("\n\n a \t\n\n \n\t\nb\r\n\n\n", " a\n\nb\n");
    expect_lines("\n \n\n", "");
    expect_lines("a\n\n  ", "a\n");
}

Test(emit, each_line_keeps_the_place_of_its_first_byte) {
    struct emitter emitter = {0};
    emit_bytes(&emitter, "one\ntwo\n\n\nthree = ", 18, "a", 10);
    emit_bytes(&emitter, "64;\n", 4, "b", 99);
    emit_print(&emitter, "made\n");
    emit_bytes(&emitter, "four", 4, "b", 100);
    emit_finish(&emitter);
    static const struct line_origin expected[] = {{"a", 10}, {"a", 11}, {"a", 12}, {"a", 14}, {NULL, 0}, {"b", 100}};
    cr_assert_eq(emitter.lines, 6);
    for (int i = 0; i < 6; i++) {
        cr_expect(!expected[i].file == !emitter.origin[i].file, "line %d", i + 1);
        cr_expect(!expected[i].file || strcmp(expected[i].file, emitter.origin[i].file) == 0, "line %d", i + 1);
        cr_expect(!expected[i].file || expected[i].line == emitter.origin[i].line, "line %d", i + 1);
    }
    emit_free(&emitter);
}

/* --- golden kernels: what the templates become, for a person to read in review ----------------------------------- */

static const char *const golden[] = {
    "family=softmax algorithm=three_pass dtype=fp16 dtype_out=fp32",
    "family=softmax algorithm=online",
    "family=attention_forward algorithm=materialized head_dim=32 mask=causal",
    "family=attention_forward algorithm=multi_pass head_dim=40 head_dim_v=72 dtype=bf16",
    "family=attention_forward algorithm=flash head_dim=32 mask=causal",
    "family=attention_forward algorithm=flash_tiled loop_order=kv_outer head_dim=80 mask=causal",
    "family=attention_forward algorithm=flash_tiled loop_order=q_outer head_dim=64",
    "family=attention_forward algorithm=flash_tiled loop_order=q_outer head_dim=128 mask=causal dtype=fp16",
    "family=attention_backward algorithm=materialized head_dim=32 mask=causal",
    "family=attention_backward algorithm=flash_mma head_dim=128 mask=causal dtype=bf16 target=sm_80",
    "family=attention_backward algorithm=flash_async head_dim=128 mask=causal dtype=bf16 target=sm_90a",
    "family=attention_backward algorithm=flash_async head_dim=64 mask=causal layout=ragged dtype=bf16 target=sm_90a",
    "family=attention_backward algorithm=flash_async head_dim=64 mask=none dropout=1 dtype=bf16 target=sm_90a",
    "family=attention_forward algorithm=flash_async head_dim=128 mask=causal dtype=bf16 target=sm_90a",
    "family=attention_forward algorithm=flash_async head_dim=64 mask='causal and document(doc)' params='doc: "
    "int[batch, len_kv]' "
    "dtype=bf16 target=sm_90a",
    "family=attention_forward algorithm=flash_async head_dim=64 mask='k <= q and q - k < window' score=softcap(30) "
    "params='window: int' dtype=bf16 target=sm_90a",
    "family=attention_forward algorithm=flash_async head_dim=128 cluster=2 block_m=128 block_n=128 dtype=bf16 "
    "target=sm_90a",
    "family=attention_forward algorithm=flash_async head_dim=64 mask=causal pack_gqa=1 dtype=bf16 "
    "target=sm_90a",
    "family=attention_forward algorithm=flash_mma head_dim=128 mask=causal dtype=bf16 target=sm_80",
    "family=attention_forward algorithm=flash_mma head_dim=64 mask=causal dtype=bf16 target=sm_80 rescale=from_sum",
    "family=attention_forward algorithm=flash_mma head_dim=59 mask='causal and document(doc)' score=softcap(30) "
    "params='doc: int[batch, len_kv]' dtype=fp16 target=sm_86",
    "family=attention_forward algorithm=decode head_dim=128 dtype=bf16 target=sm_90",
    "family=attention_forward algorithm=mla head_dim=576 head_dim_v=512 shared_kv=1 dtype=bf16 mask=causal "
    "layout=padded "
    "page_size=64 target=sm_90a",
    "family=attention_forward algorithm=decode head_dim=80 mask='causal and q - k < windows[h]' score=softcap(30) "
    "params='windows: int[heads]' sinks=1 dtype=fp16 block_m=32 target=sm_80",
    "family=attention_forward algorithm=decode head_dim=128 dtype=bf16 dtype_kv=e4m3 kv_scale=token layout=padded "
    "page_size=16 "
    "target=sm_90",
    "family=attention_forward algorithm=decode head_dim=128 mask=causal dtype=bf16 append=1 rope=halves layout=ragged "
    "page_size=16 target=sm_90",
    "family=attention_forward algorithm=flash_mma head_dim=64 mask=causal dtype=bf16 layout=ragged page_size=16 "
    "target=sm_80",
    "family=attention_forward algorithm=flash_async head_dim=128 dtype=bf16 layout=ragged target=sm_90a",
    "family=merge head_dim_v=64",
    "family=append_kv dtype=bf16 head_dim=128 rope=halves layout=ragged page_size=16 target=sm_80",
    "family=append_kv dtype=fp16 head_dim=96 dtype_kv=int8 kv_scale=token rope=interleaved rope_dim=32 "
    "rope_from=tables slots=1 "
    "page_size=64",
};

static bool first_difference(const char *a, const char *b, int *line) {
    for (*line = 1; *a && *a == *b; a++, b++)
        *line += *a == '\n';
    return *a != *b;
}

static void check_golden(const struct template_set *set, const char *text) {
    struct input input = {"golden", text, strlen(text)};
    struct knobs knobs = knobs_default();
    struct diag diag = {0};
    struct variant variant;
    struct source source;
    struct text expected = {0};
    char path[VARIANT_NAME + 32];
    int line;
    unsigned groups = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    cr_assert(knobs_parse(&input, groups, &knobs, &diag), "%s", text_string(&diag.text));
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s: %s", text, variant.reason);
    cr_assert(source_expand(set, &variant, "tests/golden", &source, &diag), "%s", text_string(&diag.text));
    snprintf(path, sizeof path, "tests/golden/%s.cu", variant.name);
    if (cases_updating())
        cr_assert(file_write(path, &source.text), "cannot write %s", path);
    cr_expect(file_read(path, &expected), "%s is not there; ATTILE_UPDATE_GOLDEN=1 writes it", path);
    cr_expect_not(first_difference(text_string(&expected), text_string(&source.text), &line),
                  "%s differs from line %d on; if that is meant, ATTILE_UPDATE_GOLDEN=1 rewrites it", path, line);
    text_free(&expected);
    source_free(&source);
    diag_free(&diag);
}

Test(emit, golden_kernels) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        check_golden(set, golden[i]);
    template_set_close(set);
}
