/* docs/support.md: which problem runs on which GPU by which algorithm, as the library chooses. The page is generated
   from the choice itself, and this test fails when it differs. */
#include "choose.h"
#include "session.h"
#include "helper_cases.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};
enum { ARCHS = sizeof archs / sizeof *archs };

#define FORWARD "family=attention_forward "
#define BF16    FORWARD "dtype=bf16 "
static const struct {
    const char *words, *problem;
} rows[] = {
    {"fp16 or bf16", BF16 "alignment=16"},
    {"... head dimension not a multiple of 8", BF16 "head_dim=59"},
    {"... rows with any alignment", BF16 "alignment=2"},
    {"... head dimension 192, for V 128, causal", BF16 "head_dim=192 head_dim_v=128 mask=causal alignment=16"},
    {"... a custom mask and score",
     BF16 "mask='k <= q and q - k < w' score='softcap(30)' params='w: int' alignment=16"},
    {"... sinks", BF16 "sinks=1 alignment=16"},
    {"... dropout", BF16 "dropout=1 alignment=16"},
    {"... dropout, per-sequence lengths (`layout: ragged`)", BF16 "dropout=1 layout=ragged alignment=16"},
    {"... per-sequence lengths (`layout: ragged`)", BF16 "layout=ragged alignment=16"},
    {"... K and V in pages of 16", BF16 "layout=padded page_size=16 alignment=16"},
    {"... one query per head, 8192 keys", BF16 "len_q=1 len_kv=8192 alignment=16"},
    {"... new tokens appended in the same launch (`append: 1`)",
     BF16 "layout=padded page_size=16 append=1 alignment=16"},
    {"... K and V in 8 bits", BF16 "dtype_kv=e4m3 kv_scale=token alignment=16"},
    {"... K and V in 8 bits, one query per head, 8192 keys",
     BF16 "dtype_kv=e4m3 kv_scale=token len_q=1 len_kv=8192 alignment=16"},
    {"... V in K (`shared_kv: 1`), head dimension 576, for V 512",
     BF16 "head_dim=576 head_dim_v=512 shared_kv=1 alignment=16"},
    {"fp32", FORWARD "dtype=fp32"},
    {"fp32, `precision: tf32x3` or `tf32`", FORWARD "dtype=fp32 precision=tf32x3"},
    {"gradients, fp16 or bf16", "family=attention_backward dtype=bf16"},
    {"... per-sequence lengths (`layout: ragged`)", "family=attention_backward dtype=bf16 layout=ragged"},
    {"... dropout", "family=attention_backward dtype=bf16 dropout=1"},
    {"... dropout, per-sequence lengths (`layout: ragged`)",
     "family=attention_backward dtype=bf16 dropout=1 layout=ragged"},
    {"gradients, fp32", "family=attention_backward dtype=fp32"},
    {"softmax of rows", "family=softmax dtype=bf16"},
    {"merge of partial results", "family=merge"},
    {"new K and V into a cache", "family=append_kv dtype=bf16"},
};

/* Prints the algorithm and target of the first choice, or a dash. */
static void print_choice(att_session *session, const char *problem, struct text *page) {
    struct request request;
    struct failure failure = {0};
    struct choice choice = {0};
    cr_assert_eq(choose_read(session, problem, NULL, &request, &failure), ATT_OK, "%s: %s", problem,
                 text_string(&failure.text));
    if (!choose_next(session, &request, &choice, NULL)) {
        text_print(page, " - |");
        return;
    }
    text_print(page, " `%s`", knob_word_name(KNOB_algorithm, choice.variant.knobs.algorithm));
    if (choice.variant.knobs.target != target_any)
        text_print(page, " %s", knob_word_name(KNOB_target, choice.variant.knobs.target));
    text_print(page, " |");
}

Test(support, is_what_the_library_chooses) {
    struct text page = {0}, found = {0};
    att_session *session[ARCHS];
    text_print(&page, "# What runs where\n\n"
                      "The table shows the algorithm, and the target where it is not `any`, that the library chooses "
                      "first for a problem on a GPU of\n"
                      "that compute capability, unless a tuned table says otherwise. The head dimension is 64 unless "
                      "stated. A dash means that no kernel\n"
                      "supports the problem. This page is generated from templates and preferences:\n"
                      "`ATTILE_UPDATE_GOLDEN=1 build/release/tests/test_support` writes it.\n\n| problem |");
    for (int i = 0; i < ARCHS; i++) {
        const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
        cr_assert_eq(session_open_to_choose(&options, "GPU", archs[i], &session[i]), ATT_OK);
        int arch = atoi(archs[i] + 3);
        text_print(&page, " %d.%d |", arch / 10, arch % 10);
    }
    text_print(&page, "\n|---|");
    for (int i = 0; i < ARCHS; i++)
        text_print(&page, "---|");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        text_print(&page, "\n| %s |", rows[k].words);
        for (int i = 0; i < ARCHS; i++)
            print_choice(session[i], rows[k].problem, &page);
    }
    text_print(&page, "\n");
    for (int i = 0; i < ARCHS; i++)
        att_close(session[i]);
    if (cases_updating())
        cr_assert(file_write("docs/support.md", &page));
    cr_assert(file_read("docs/support.md", &found));
    cr_expect_str_eq(text_string(&found), text_string(&page), "ATTILE_UPDATE_GOLDEN=1 renews docs/support.md");
    text_free(&page);
    text_free(&found);
}
