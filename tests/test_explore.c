/* attile explore and explain --model as a user sees them. */
#include "file.h"
#include "helper_command.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void enter(void) {
    folder_enter();
    setenv("ATTILE_CACHE_DIR", folder_path(), 1);
}

TestSuite(explore, .init = enter, .fini = folder_leave);

static bool holds(const struct text *text, const char *words) { return strstr(text_string(text), words) != NULL; }

static int count_of(const struct text *text, const char *part) {
    int count = 0;
    for (const char *at = text_string(text); (at = strstr(at, part)); at++)
        count++;
    return count;
}

static void write_file(const char *path, const char *content) {
    struct text error = {0};
    cr_assert(file_save(path, content, strlen(content), NULL, &error), "%s", text_string(&error));
}

Test(explore, a_problem_is_predicted_without_a_compiler) {
    struct outcome o =
        command_run("ATTILE_NVRTC=/nowhere", "explore 'family=attention_forward dtype=bf16 head_dim=96' --best 0");
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    cr_expect(holds(&o.out, "not possible"));
    cr_expect(holds(&o.out, "predicted for NVIDIA H200"));
    cr_expect(holds(&o.out, "attention_forward_bf16_d96_none_flash_async_"));
    cr_expect(holds(&o.err, "candidates predicted in"));
    command_done(&o);
}

Test(explore, without_a_compiler_it_says_so) {
    struct outcome o = command_run("ATTILE_NVRTC=/nowhere", "explore family=softmax --best 1");
    cr_expect_eq(o.code, 4, "%d: %s", o.code, text_string(&o.err));
    cr_expect(holds(&o.err, "--best 0"));
    cr_expect(holds(&o.out, "family=softmax"), "what was predicted is shown all the same");
    command_done(&o);
}

Test(explore, the_best_are_compiled) {
    struct outcome o = command_run("", "explore family=softmax --best 2 --json --jobs 2");
    if (o.code == 4)
        cr_skip_test("no NVRTC here");
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    cr_expect_eq(count_of(&o.out, "\"outcome\": \"good\""), 2);
    cr_expect_eq(count_of(&o.out, "\"registers\": "), 2);
    cr_expect_eq(count_of(&o.out, "\"instructions\": "), 2);
    cr_expect_eq(count_of(&o.out, "\"instructions\": -1"), 0);
    cr_expect_geq(count_of(&o.out, "\"pareto\": true"), 1, "somebody is on the front");
    command_done(&o);
    o = command_run(
        "", "explore family=softmax --best 2 --json --jobs 2"); /* from the cache: the same except for clock times */
    cr_expect_eq(count_of(&o.out, "\"outcome\": \"good\""), 2);
    cr_expect_eq(count_of(&o.out, "\"instructions\": -1"), 0);
    command_done(&o);
}

Test(explore, csv_has_as_many_fields_in_every_row) {
    struct outcome o = command_run("", "explore 'family=attention_forward head_dim=64 algorithm=[]' --csv --best 0");
    cr_expect_neq(o.code, 0);
    command_done(&o);
    write_file("spec.yaml", "family: attention_forward\n"
                            "problem: {head_dim: [32, 64], mask: [causal, 'k <= q and q - k < 100']}\n"
                            "schedule: {algorithm: [flash, flash_tiled]}\n");
    o = command_run("", "explore spec.yaml --csv --best 0");
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    int columns = -1, rows = 0;
    for (const char *at = text_string(&o.out); *at; rows++) {
        int commas = 0;
        bool quoted = false;
        for (; *at != '\n'; at++) {
            quoted ^= *at == '"';
            commas += *at == ',' && !quoted;
        }
        at++;
        columns = columns < 0 ? commas : columns;
        cr_assert_eq(commas, columns, "row %d", rows);
    }
    cr_expect_gt(rows, 50);
    command_done(&o);
}

Test(explore, a_page_is_written_with_and_without_measurements) {
    struct outcome o =
        command_run("", "explore 'family=attention_forward dtype=bf16 algorithm=flash_async stages=2' --best 0 "
                        "--report deep/er --map block_n,stages");
    struct text page = {0}, error = {0};
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    cr_assert(file_load("deep/er/index.html", 1 << 26, &page, &error), "%s", text_string(&error));
    cr_expect(holds(&page, "</html>"));
    cr_expect(holds(&page, "<h1>Schedules explored: family=attention_forward dtype=bf16"), "it names its problem");
    command_done(&o);
    write_file("none.jsonl", "");
    o = command_run(
        "",
        "explore 'family=attention_forward dtype=bf16 algorithm=flash_async stages=2' --best 0 --measured none.jsonl");
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    cr_expect(holds(&o.err, "0 measurements used"));
    command_done(&o);
    text_free(&page);
}

Test(explore, a_filter_narrows_the_space) {
    struct outcome o = command_run(
        "", "explore 'family=attention_forward dtype=bf16' --variant 'block_m=128 stages=3' --best 0 --csv");
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    cr_expect_gt(count_of(&o.out, "_m128_"), 5);
    cr_expect_eq(count_of(&o.out, "_m192_"), 0);
    command_done(&o);
}

Test(explore, mistakes_have_clear_answers) {
    static const struct {
        const char *arguments;
        int code;
        const char *words;
    } cases[] = {
        {"explore 'family=attention_forward dtype=fp32 algorithm=flash_async'", 3, "dtype is fp32"},
        {"explore 'family=attention_forward dtype=fp32 algorithm=flash_async'", 3, "none of"},
        {"explore 'head_dim=64'", 3, "no family is named"},
        {"explore 'family=attention_forward hed_dim=64'", 3, "did you mean 'head_dim'"},
        {"explore nowhere.yaml", 7, "nowhere.yaml"},
        {"explore family=softmax --for h300", 2,
         "no file of devices/ is for 'h300': expected a100, h200, l4, l40s, rtx4090, rtx5090, "},
        {"explore family=softmax --for ./h300.yaml", 7, "h300.yaml"},
        {"explore family=softmax --shapes 'rows=3'", 2, "cols is missing"},
        {"explore family=softmax --shapes ';'", 2, "names no shape"},
        {"explore family=softmax --csv --json", 2, "choose one"},
        {"explore family=softmax --best 0 --report d --map threads", 2, "--map expects two knobs"},
        {"explore family=softmax --best 0 --report d --map blocks,threads", 2,
         "found 'blocks,threads'; knob 'blocks' is called 'scheduler' now"},
        {"explore family=softmax --best 0 --report /proc/nowhere", 7, "/proc/nowhere"},
        {"explore family=softmax --best 0 --measured nowhere.jsonl", 7, "nowhere.jsonl"},
        {"explain --tiles family=attention_forward --svg nowhere/a.svg", 7, "--svg: cannot write nowhere/a.svg"},
        {"explore family=softmax --variant 'threads=96'", 2, "passes --variant"},
        {"explore family=softmax --best x", 2, "--best"},
        {"explain --model 'family=softmax' --shapes 'rows=3,cols=x'", 2, "cols expects"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome o = command_run("", cases[i].arguments);
        cr_expect_eq(o.code, cases[i].code, "%s: %d: %s", cases[i].arguments, o.code, text_string(&o.err));
        cr_expect(holds(&o.err, cases[i].words), "%s: %s", cases[i].arguments, text_string(&o.err));
        cr_expect_eq(o.out.size, 0, "%s prints: %s", cases[i].arguments, text_string(&o.out));
        command_done(&o);
    }
}

Test(explore, explain_shows_the_terms_of_the_model) {
    struct outcome o = command_run(
        "", "explain --model 'family=attention_forward dtype=bf16 head_dim=128 algorithm=flash_async block_m=128 "
            "block_n=128' --shapes 'heads=16,len_q=4096,len_kv=4096'");
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    static const char *const words[] = {"tensor pipe in a round", "memory_seconds", "TFLOP/s", "what takes longest",
                                        "m128_n128"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_expect(holds(&o.out, words[i]), "%s", words[i]);
    command_done(&o);
    o = command_run("", "explain --model --json 'family=softmax'");
    cr_expect_eq(o.code, 0, "%s", text_string(&o.err));
    cr_expect(holds(&o.out, "\"predictions\": ["));
    cr_expect(holds(&o.out, "\"compute_seconds\": "));
    command_done(&o);
}
