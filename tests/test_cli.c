/* The attile command as a user sees it: which stream it writes to, its exit code, and what it leaves behind. */
#include "file.h"
#include "helper_command.h"
#include "options.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTILE BUILD_DIR "/cli/attile"

static void enter(void) {
    folder_enter();
    setenv("ATTILE_CACHE_DIR", folder_path(), 1);
    cr_assert_eq(symlink(SOURCE_DIR "/specs", "specs"), 0);
    cr_assert_eq(symlink(SOURCE_DIR "/tests", "tests"), 0);
    unsetenv("NO_COLOR");
}

TestSuite(cli, .init = enter, .fini = folder_leave);

static struct outcome run(const char *arguments) { return command_run("", arguments); }

static bool holds(const struct text *text, const char *words) { return strstr(text_string(text), words) != NULL; }

static int count_lines(const struct text *text) {
    int lines = 0;
    for (const char *at = text_string(text); *at; at++)
        lines += *at == '\n';
    return lines;
}

static void write_file(const char *path, const char *content) {
    struct text error = {0};
    cr_assert(file_save(path, content, strlen(content), NULL, &error), "%s", text_string(&error));
}

static bool is_json(const struct text *text) {
    json_t *value = json_loadb(text_string(text), text->size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    json_decref(value);
    return value != NULL;
}

/* --- mistakes ----------------------------------------------------------------------------------------------------- */

Test(cli, mistakes_have_their_exit_code_and_say_what_to_do) {
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } cases[] = {
        {"", 2, "usage: attile VERB"},
        {"rum", 2, "did you mean 'run'?"},
        {"cache", 2, "cache expects stat, list"},
        {"cache stt", 2, "did you mean 'cache stat'?"},
        {"run", 2, "run expects SPEC"},
        {"version extra", 2, "takes no arguments"},
        {"run specs/quickstart.yaml --devise host", 2, "did you mean '--device'?"},
        {"run specs/quickstart.yaml --device tpu", 2, "expects auto|cuda|host, found 'tpu'"},
        {"list specs/quickstart.yaml --variant nothing_like_this", 2, "no variant of"},
        {"explain specs/quickstart.yaml --device host --variant nothing_like_this", 2, "no variant of"},
        {"list specs/quickstart.yaml --variant blok_m=3", 2, "did you mean 'block_m'?"},
        {"list nowhere.yaml", 7, "cannot open nowhere.yaml"},
        {"list specs", 7, "cannot read specs"},
        {"list softmax", 7, "did you mean the problem 'family=softmax'?"},
        {"list attention", 7, "did you mean the problem 'family=attention_forward'?"},
        {"list large.yaml", 7, "large.yaml is larger than 2097152 bytes"},
        {"list family=softmax dtype=float16", 3, "did you mean 'fp16'?"},
        {"list bad.yaml", 3, "bad.yaml:3:"},
        {"show 'family=attention_forward mask=casual'", 3, "did you mean 'causal'?"},
        {"show 'family=softmax algorithm=flash'", 3, "is not feasible"},
        {"show 'family=attention_forward dtype=bf16 algorithm=flash_async'", 3, "it is with target=sm_90a"},
        {"run 'family=softmax'", 2, "give --shape or files"},
        {"run 'family=softmax' --shape rows=3,cols=3 --variant 'threads=64'", 2, "a problem is one variant"},
        {"run 'family=softmax algorithm=flash' --device host --shape rows=1,cols=1", 3,
         "no kernel answers this problem"},
        {"run family=softmax --device host --gpu 1 --shape rows=3,cols=3", 2, "--gpu does nothing on"},
        {"run 'family=softmax' --shape rows=3", 2, "cols is missing"},
        {"run 'family=softmax' --q tests/data/minilm_q.npy", 2, "softmax has no tensor q"},
        {"run 'family=softmax' --x tests/data/paragraph.txt", 2, "not a .npy file"},
        {"run 'family=softmax' --x nowhere.npy", 7, "cannot open nowhere.npy"},
        {"run 'family=softmax' --shape rows=3,cols=3 --x x.npy", 2, "--shape is for random tensors"},
        {"run specs/softmax.yaml --out y.npy", 2, "--out needs a single variant"},
        {"run 'family=softmax' --shape rows=1,cols=1 --host-mode race --device host", 3, "attile-race"},
        {"build specs/softmax.yaml --templates nowhere", 3, "there is no folder of templates nowhere"},
        {"list specs/softmax.yaml --templates bad.yaml", 3, "there is no folder of templates bad.yaml"},
        {"cache explain ffff", 2, "no key starts with 'ffff'"},
        {"cache clear --bytes 3", 2, "use cache trim --bytes"},
        {"generate specs/softmax.yaml --json -o -", 2, "both want standard output"},
        {"explain family=softmax --svg a.svg", 2, "--svg does nothing without --tiles"},
        {"explain family=softmax --params a=3", 2, "--params does nothing without --tiles"},
        {"explain family=softmax --shapes rows=3,cols=4", 2, "does nothing without --tiles or --model"},
        {"explain family=softmax --for h200 --device host", 2, "--device does nothing with --for"},
        {"explain family=softmax --for b200", 2, "no file of devices/ is for 'b200': expected a100, h200"},
        {"explain family=softmax --model --for b200", 2, "rtx5090, or the path of a device file"},
        {"build specs/softmax.yaml --symbol int -o unmade", 2, "'int' is a keyword of C or C++"},
        {"build specs/softmax.yaml -o /dev/null/x", 7, "cannot make folder /dev/null"},
        {"build family=softmax --budget 1M", 2, "--budget does nothing without --for"},
        {"build family=softmax --for h200 --budget 12X", 2,
         "--budget expects a size, '500000', '640K' or '2M' say, found '12X'"},
        {"build family=softmax --for b200", 2, "rtx5090; leave --for out"},
        {"explore family=softmax --map threads,target", 2, "--map does nothing without --report"},
        {"tune --merge a.jsonl --budget 3s", 2, "--budget does nothing with --merge"},
        {"help nothing", 2, "unknown verb 'nothing'"},
        {"cache --help me", 2, "unknown verb 'cache --help'"},
    };
    cr_assert_eq(system("head -c 3000000 /dev/zero > large.yaml"), 0);
    write_file("bad.yaml", "family: softmax\nproblem:\n  dtyp: fp16\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = run(cases[i].arguments);
        cr_assert_eq(outcome.code, cases[i].code, "attile %s: exit code %d\n%s", cases[i].arguments, outcome.code,
                     text_string(&outcome.err));
        cr_assert(holds(&outcome.err, cases[i].says), "attile %s says:\n%s", cases[i].arguments,
                  text_string(&outcome.err));
        cr_assert_eq(outcome.out.size, 0, "attile %s writes data", cases[i].arguments);
        command_done(&outcome);
    }
}

/* The compiler does not exist: if anything were compiled, the exit code would be 4. */
Test(cli, arguments_are_checked_before_anything_is_compiled) {
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } cases[] = {
        {"run 'family=softmax' --shape rows=3,cols=3 --params x=3", 2, "softmax has neither mask nor score"},
        {"run 'family=attention_forward mask=causal' --shape len_q=3,len_kv=3 --params x=3", 2, "they take none"},
        {"run masks.yaml --params windwo=3", 2, "did you mean 'window'?"},
        {"run masks.yaml --params window=x", 2, "expected an integer"},
        {"run masks.yaml --params slopes=3", 2, "slopes: float[heads] is a tensor; expected the path of a .npy file"},
        {"run masks.yaml --params ids=ids.npy", 2, "shape (1,): ids is (1, 32) at these sizes"},
        {"run documents.yaml --params ids=ids.npy", 2, "index 1 of documents"},
        {"run bias.yaml --params values=v.npy", 2,
         "GiB, which do not fit in memory: values: float[len_q, len_kv, len_kv]"},
        {"run masks.yaml --out nowhere/o.npy", 7, "cannot write nowhere/o.npy"},
        {"run masks.yaml --out specs", 7, "cannot write specs: Is a directory"},
    };
    write_file("masks.yaml", "family: attention_forward\n"
                             "params: {window: int, slopes: 'float[heads]', ids: 'int[batch, len_kv]'}\n"
                             "problem: {head_dim: 16, mask: 'q - k < window and ids[b, k] > 0',\n"
                             "          score: 's + slopes[h]'}\n"
                             "schedule: {algorithm: flash}\n"
                             "test: {shapes: [{len_q: 32, len_kv: 32}]}\n");
    write_file("bias.yaml", "family: attention_forward\n"
                            "params: {values: 'float[len_q, len_kv, len_kv]'}\n"
                            "problem: {head_dim: 16, score: 's + values[clamp(q, 0, len_q - 1), k, k]'}\n"
                            "schedule: {algorithm: flash}\n"
                            "test: {shapes: [{len_q: 20000000, len_kv: 20000000}]}\n");
    write_file("documents.yaml", "family: attention_forward\n"
                                 "params: {ids: 'int[1]', documents: 'int[4]'}\n"
                                 "problem: {head_dim: 16, mask: 'k < documents[ids[0]]'}\n"
                                 "schedule: {algorithm: flash}\n"
                                 "test: {shapes: [{len_q: 32, len_kv: 32}]}\n");
    cr_assert_eq(system("printf '\\223NUMPY\\001\\000\\166\\000%-117s\\n\\011\\000\\000\\000' "
                        "\"{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}\" > ids.npy"),
                 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = command_run("CXX=/nowhere", cases[i].arguments);
        cr_expect_eq(outcome.code, cases[i].code, "attile %s: exit code %d\n%s", cases[i].arguments, outcome.code,
                     text_string(&outcome.err));
        cr_expect(holds(&outcome.err, cases[i].says), "attile %s says:\n%s", cases[i].arguments,
                  text_string(&outcome.err));
        cr_expect(outcome.out.size == 0 && !holds(&outcome.err, "agree with"), "attile %s prints a table",
                  cases[i].arguments);
        command_done(&outcome);
    }
}

Test(cli, a_name_of_an_earlier_version_is_noted_and_quiet_is_quiet) {
    write_file("old.yaml", "family: attention_forward\nproblem: {mask: k < len_k}\nschedule: {algorithm: flash}\n");
    struct outcome outcome = run("list old.yaml");
    cr_expect_eq(outcome.code, 0);
    cr_expect(holds(&outcome.err, "old.yaml:2: note: 'len_k' is called 'len_kv' now"), "%s", text_string(&outcome.err));
    command_done(&outcome);
    outcome = run("list old.yaml --quiet");
    cr_expect_eq(outcome.code, 0);
    cr_expect_not(holds(&outcome.err, "len_kv"), "%s", text_string(&outcome.err));
    command_done(&outcome);
}

Test(cli, a_shape_that_no_memory_holds_is_said_with_its_size) {
    struct outcome outcome = run("run 'family=attention_forward algorithm=flash' --device host --no-nvrtc --shape "
                                 "batch=2000000000,len_q=2000000000,len_kv=1");
    cr_expect_eq(outcome.code, 8);
    cr_expect(holds(&outcome.err, "GiB, which do not fit in memory; o takes most"), "%s", text_string(&outcome.err));
    cr_expect(outcome.out.size == 0 && !holds(&outcome.err, "agree with"), "%s", text_string(&outcome.out));
    command_done(&outcome);
}

Test(cli, how_much_was_compared_is_said) {
    cr_assert_eq(system("printf '\\223NUMPY\\001\\000\\166\\000%-117s\\n\\000\\000\\300\\177\\000\\000\\300\\177' "
                        "\"{'descr': '<f4', 'fortran_order': False, 'shape': (1,2)}\" > x.npy"),
                 0);
    struct outcome outcome = run("run family=softmax --device host --no-nvrtc --x x.npy");
    cr_expect_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect(holds(&outcome.err, "2 elements compared, 2 of them NaN"), "%s", text_string(&outcome.err));
    cr_expect(holds(&outcome.out, "ok, all NaN"), "%s", text_string(&outcome.out));
    command_done(&outcome);
}

Test(cli, attention_files_of_the_wrong_size_are_refused_with_both_sizes) {
    struct outcome outcome =
        run("run 'family=attention_forward head_dim=64 algorithm=flash' --q tests/data/minilm_q.npy "
            "--k tests/data/minilm_k.npy --v tests/data/minilm_v.npy");
    cr_assert_eq(outcome.code, 2);
    cr_assert(holds(&outcome.err, "the last dimension is 32, but head_dim is 64"), "%s", text_string(&outcome.err));
    command_done(&outcome);
}

Test(cli, what_is_missing_has_its_exit_code) {
    static const struct {
        const char *environment, *arguments;
        int code;
        const char *says;
    } cases[] = {
        {"ATTILE_NVRTC=/nowhere", "build specs/softmax.yaml", 4, "NVRTC was not found"},
        {"CXX=/nowhere PATH=/nowhere", "run 'family=softmax' --device host --shape rows=1,cols=1", 4, "C++"},
        {"ATTILE_NVRTC=/nowhere CXX=/nowhere PATH=/nowhere", "doctor", 4,
         "neither a GPU with NVRTC nor a C++ compiler"},
        {"ATTILE_NVRTC=/nowhere", "doctor", 4, "NVRTC is missing"},
        {"CXX=/nowhere PATH=/nowhere", "doctor", 4, "a C++ compiler"},
        {"ATTILE_CACHE_DIR=/dev/null/x", "cache stat", 7, "no cache folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = command_run(cases[i].environment, cases[i].arguments);
        cr_assert_eq(outcome.code, cases[i].code, "%s: %d\n%s", cases[i].arguments, outcome.code,
                     text_string(&outcome.err));
        cr_assert(holds(&outcome.err, cases[i].says), "%s", text_string(&outcome.err));
        cr_assert(access("built", F_OK) != 0, "something was written");
        command_done(&outcome);
    }
}

/* The GPU is the stand-in of test_driver, with compute capability 9.0. There are no rows, so nothing is computed. */
Test(cli, run_counts_variants_for_other_gpus_apart) {
    static const struct {
        const char *targets;
        int code;
        bool needs_nvrtc;
        const char *says;
    } cases[] = {
        {"[any, sm_86, sm_120]", 0, true, "1 of 1 agree with the oracle"},
        {"[any, sm_86, sm_120]", 0, true, "2 not run: their targets are for other GPUs"},
        {"[sm_86, sm_120]", 3, false, "can run none of the 2 variants"},
        {"[sm_86, sm_120]", 3, false, "target sm_120 needs a GPU of compute capability 12.0 or later"},
    };
    const char *device = "LD_LIBRARY_PATH=" BUILD_DIR "/tests/stand_in:$LD_LIBRARY_PATH";
    struct outcome doctor = command_run(device, "doctor");
    bool nvrtc = doctor.code == 0;
    command_done(&doctor);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text spec = {0};
        if (cases[i].needs_nvrtc && !nvrtc)
            continue;
        text_print(&spec,
                   "family: softmax\nschedule: {algorithm: online, threads: 128}\ntarget: %s\n"
                   "test: {shapes: [{rows: 0, cols: 4}]}\n",
                   cases[i].targets);
        write_file("targets.yaml", text_string(&spec));
        text_free(&spec);
        struct outcome outcome = command_run(device, "run targets.yaml --device cuda --no-cache --json");
        cr_expect_eq(outcome.code, cases[i].code, "%s: exit code %d", cases[i].targets, outcome.code);
        cr_expect(holds(&outcome.err, cases[i].says), "%s: %s", cases[i].targets, text_string(&outcome.err));
        cr_expect(holds(&outcome.out, "\"status\": \"unsupported\""), "%s", text_string(&outcome.out));
        command_done(&outcome);
    }
    struct outcome problem = command_run(device, "run 'family=softmax target=sm_120' --shape rows=0,cols=4");
    cr_expect_eq(problem.code, 3, "a problem is one variant: exit code %d", problem.code);
    command_done(&problem);
}

/* --- each verb ---------------------------------------------------------------------------------------------------- */

Test(cli, json_of_every_verb_is_json_with_a_schema) {
    static const char *const verbs[] = {
        "version",
        "doctor",
        "list specs/quickstart.yaml --why",
        "show specs/softmax.yaml",
        "explain specs/softmax.yaml --device host",
        "explain 'family=softmax' --device host",
        "explain specs/cookbook/streaming.yaml --tiles",
        "generate specs/softmax.yaml -o g",
        "run 'family=softmax' --device host --no-nvrtc --shape rows=2,cols=5",
        "cache stat",
        "cache list",
        "cache verify",
        "cache trim -n",
        "cache clear --dry-run",
    };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        char line[256], schema[64];
        snprintf(line, sizeof line, "%s --json", verbs[i]);
        struct outcome outcome = run(line);
        cr_assert(is_json(&outcome.out), "attile %s writes\n%s", line, text_string(&outcome.out));
        bool two = strncmp(verbs[i], "cache ", 6) == 0;
        int first = (int)strcspn(verbs[i], " "), second = two ? (int)strcspn(verbs[i] + first + 1, " ") : 0;
        snprintf(schema, sizeof schema, "\"schema\": \"attile.%.*s%s%.*s/1\"", first, verbs[i], two ? "." : "", second,
                 verbs[i] + first + 1);
        cr_assert(holds(&outcome.out, schema), "attile %s lacks %s", line, schema);
        command_done(&outcome);
    }
}

Test(cli, explain_chooses_for_a_gpu_that_is_not_here) {
    struct outcome here = run("explain 'family=attention_forward dtype=bf16 head_dim=64' --device host"),
                   there = run("explain 'family=attention_forward dtype=bf16 head_dim=64' --for h200");
    cr_assert_eq(there.code, 0, "%s", text_string(&there.err));
    cr_expect(holds(&there.out, "flash_async") && !holds(&here.out, "_flash_async_"), "%s", text_string(&there.out));
    command_done(&here), command_done(&there);
}

Test(cli, list_counts_and_gives_reasons) {
    struct outcome plain = run("list specs/quickstart.yaml"), why = run("list specs/quickstart.yaml --why");
    cr_assert_eq(plain.code, 0);
    cr_assert(count_lines(&plain.out) > 0 && !holds(&plain.out, "pruned"));
    cr_assert(holds(&why.out, "because "));
    cr_assert(count_lines(&why.out) > count_lines(&plain.out));
    struct outcome some = run("list specs/quickstart.yaml --variant '*_causal_*' -q");
    cr_assert_eq(some.err.size, 0);
    cr_assert(count_lines(&some.out) < count_lines(&plain.out) && !holds(&some.out, "_none_"));
    struct outcome knobs = run("list specs/quickstart.yaml --variant 'mask=causal' -q");
    cr_assert_str_eq(text_string(&some.out), text_string(&knobs.out));
    command_done(&plain), command_done(&why), command_done(&some), command_done(&knobs);
}

/* More than a hundred thousand variants. The first one appears at once, and nothing waits for those that
   `head` cuts off. */
Test(cli, list_streams_a_large_spec_and_says_how_large_it_is) {
    struct text spec = {0}, out = {0}, err = {0}, error = {0};
    static const char *const axes[] = {"block_m", "block_n", "thread_m", "thread_n"};
    text_print(&spec, "family: attention_forward\nproblem: {dtype: [fp32, fp16, bf16]}\nschedule:\n"
                      "  algorithm: flash_tiled\n");
    for (int axis = 0; axis < 4; axis++) {
        text_print(&spec, "  %s: [%d", axes[axis], axis < 2 ? 8 : 1);
        for (int i = 2; i <= (axis < 2 ? 32 : 6); i++)
            text_print(&spec, ", %d", axis < 2 ? 8 * i : 1 << (i - 1));
        text_print(&spec, "]\n");
    }
    write_file("large.yaml", text_string(&spec));
    cr_assert_eq(system(ATTILE " list large.yaml 2>.err | head -n 1 >.out"), 0);
    cr_assert(file_load(".out", 4096, &out, &error) && file_load(".err", 4096, &err, &error));
    cr_expect(strncmp(text_string(&out), "attention_forward_", 18) == 0, "%s", text_string(&out));
    cr_expect(holds(&err, " combinations to look at"), "%s", text_string(&err));
    text_free(&spec), text_free(&out), text_free(&err);
}

Test(cli, show_and_generate_agree_and_write_only_what_changed) {
    struct outcome outcome = run("generate specs/softmax.yaml -o a/b --variant softmax_fp32_online_t128");
    struct stat before, after;
    struct text file = {0}, error = {0};
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_assert(holds(&outcome.err, "1 written, 0 unchanged"));
    cr_assert(file_load("a/b/softmax_fp32_online_t128.cu", 1 << 20, &file, &error), "%s", text_string(&error));
    struct outcome shown = run("show specs/softmax.yaml --variant softmax_fp32_online_t128");
    cr_assert_str_eq(text_string(&shown.out), text_string(&file));
    struct outcome streamed = run("generate specs/softmax.yaml -o - --variant softmax_fp32_online_t128");
    cr_assert_str_eq(text_string(&streamed.out), text_string(&file));
    cr_assert_eq(stat("a/b/softmax_fp32_online_t128.cu", &before), 0);
    struct outcome again = run("generate specs/softmax.yaml -o a/b --variant softmax_fp32_online_t128");
    cr_assert_eq(stat("a/b/softmax_fp32_online_t128.cu", &after), 0);
    cr_assert(holds(&again.err, "0 written, 1 unchanged"));
    cr_assert_eq(before.st_ino, after.st_ino);
    struct outcome lines = run("show specs/softmax.yaml -n");
    cr_assert(holds(&lines.out, "softmax_"));
    cr_assert(holds(&lines.out, ".cu:"));
    text_free(&file);
    command_done(&outcome), command_done(&shown), command_done(&streamed), command_done(&again), command_done(&lines);
}

Test(cli, nothing_is_written_when_one_source_cannot_be_expanded) {
    cr_assert_eq(system("cp -r " SOURCE_DIR "/templates t && echo '//$ if rows ==' >> t/softmax_three_pass.cu"), 0);
    struct outcome outcome = run("generate specs/softmax.yaml --templates t -o g");
    cr_assert_eq(outcome.code, 3, "%s", text_string(&outcome.err));
    cr_assert(holds(&outcome.err, "softmax_three_pass.cu:"));
    cr_assert(access("g", F_OK) != 0);
    command_done(&outcome);
}

Test(cli, a_folder_that_cannot_be_made_is_an_io_error) {
    write_file("file", "x");
    struct outcome outcome = run("generate specs/softmax.yaml -o file/g");
    cr_assert_eq(outcome.code, 7);
    cr_assert(holds(&outcome.err, "cannot make folder"));
    command_done(&outcome);
}

Test(cli, run_checks_random_tensors_and_writes_the_output) {
    struct outcome first =
        run("run 'family=softmax dtype=fp16' --device host --no-nvrtc --shape rows=2,cols=5 -o y.npy --seed 3");
    cr_assert_eq(first.code, 0, "%s", text_string(&first.err));
    cr_assert(holds(&first.err, "1 of 1 agree with the oracle"));
    cr_assert(holds(&first.out, "softmax_fp16_online"));
    struct outcome second = run("run 'family=softmax dtype=fp16' --device host --no-nvrtc --x y.npy -o z.npy --spread");
    cr_assert_eq(second.code, 0, "%s", text_string(&second.err));
    cr_assert(holds(&second.err, "x = y.npy (2, 5)"));
    struct text y = {0}, z = {0}, error = {0};
    cr_assert(file_load("y.npy", 4096, &y, &error) && file_load("z.npy", 4096, &z, &error));
    cr_assert(y.size == 128 + 20 && z.size == y.size, "%zu %zu", y.size, z.size);
    cr_assert(memcmp(y.bytes, z.bytes, 128) == 0 && memcmp(y.bytes + 128, z.bytes + 128, 20) != 0);
    text_free(&y), text_free(&z);
    command_done(&first), command_done(&second);
}

Test(cli, a_table_of_results_says_only_what_differs_in_80_columns) {
    struct outcome outcome = command_run("COLUMNS=80", "run specs/softmax.yaml --device host --no-nvrtc --variant "
                                                       "'dtype=fp16 dtype_out=fp16'");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect(strncmp(text_string(&outcome.out), "family=softmax dtype=fp16", 25) == 0, "%s",
              text_string(&outcome.out));
    cr_expect(holds(&outcome.out, "\nthree_pass") && !holds(&outcome.out, "softmax_fp16"), "%s",
              text_string(&outcome.out));
    for (const char *row = text_string(&outcome.out); *row; row += strcspn(row, "\n") + 1)
        cr_expect_leq(strcspn(row, "\n"), 80, "%s", row);
    command_done(&outcome);
}

Test(cli, run_of_a_wrong_kernel_fails_and_shows_where) {
    cr_assert_eq(
        system("cp -r " SOURCE_DIR "/templates t && sed -i 's/y.col. = to_output(/&0.5f + /' t/softmax_online.cu"), 0);
    struct outcome outcome = run("run 'family=softmax algorithm=online' --templates t --device host --no-nvrtc "
                                 "--shape rows=2,cols=5 -o y.npy --color always");
    cr_assert_eq(outcome.code, 1, "%s", text_string(&outcome.err));
    cr_assert(holds(&outcome.err, "y[row 0, column 0]: expected"));
    cr_assert(holds(&outcome.err, "0 of 1 agree"));
    cr_assert(holds(&outcome.out, "\033[31mWRONG\033[0m"));
    cr_assert(access("y.npy", F_OK) != 0, "a wrong output was written");
    command_done(&outcome);
}

Test(cli, a_template_that_does_not_compile_is_a_compile_error_with_its_line) {
    cr_assert_eq(system("cp -r " SOURCE_DIR "/templates t && sed -i 's/y.col. = to_output(/y[colum] = to_output(/' "
                        "t/softmax_online.cu"),
                 0);
    struct outcome outcome =
        run("run 'family=softmax algorithm=online' --templates t --device host --shape rows=2,cols=5");
    cr_assert_eq(outcome.code, 6, "%s", text_string(&outcome.err));
    cr_assert(holds(&outcome.err, "comes from softmax_online.cu:"), "%s", text_string(&outcome.err));
    command_done(&outcome);
}

Test(cli, the_cache_is_listed_verified_explained_trimmed_and_cleared) {
    struct outcome outcome =
        run("run specs/softmax.yaml --variant 'dtype=fp32 dtype_out=fp32 threads=128' --device host --no-nvrtc");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    struct outcome list = run("cache list");
    cr_assert(holds(&list.out, "softmax_fp32_online_t128"));
    char key[13], line[64];
    snprintf(key, sizeof key, "%.12s", strchr(text_string(&list.out), '\n') + 1);
    snprintf(line, sizeof line, "cache explain %s", key);
    struct outcome explained = run(line);
    cr_assert_eq(explained.code, 0, "%s", text_string(&explained.err));
    cr_assert(holds(&explained.out, "source differs, first in line"), "%s", text_string(&explained.out));
    struct outcome whole = run("cache verify");
    cr_assert(whole.code == 0 && holds(&whole.err, "all whole"));
    struct outcome dry = run("cache clear -n"), after = run("cache list -q");
    cr_assert(holds(&dry.err, "would be removed"));
    cr_assert_str_eq(text_string(&after.out), text_string(&list.out));
    cr_assert_eq(system("f=$(find . -type f -size +8k -print | grep -v '^./\\.' | head -1) && "
                        "printf X | dd of=$f bs=1 seek=4000 conv=notrunc 2>/dev/null"),
                 0);
    struct outcome damaged = run("cache verify");
    cr_assert_eq(damaged.code, 1, "%s", text_string(&damaged.err));
    cr_assert(holds(&damaged.err, "1 of "));
    struct outcome clear = run("cache clear"), empty = run("cache list -q");
    cr_assert_eq(clear.code, 0);
    cr_assert_eq(empty.out.size, 0);
    command_done(&outcome), command_done(&list), command_done(&explained), command_done(&whole), command_done(&dry),
        command_done(&after), command_done(&damaged), command_done(&clear), command_done(&empty);
}

Test(cli, build_writes_a_bundle_that_compiles_and_a_manifest) {
    struct outcome outcome = run("build specs/softmax.yaml --variant 'dtype=bf16 threads=128' -o b --json -j 2");
    if (outcome.code == 4)
        cr_skip_test("no NVRTC");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_assert(is_json(&outcome.out));
    struct text manifest = {0}, error = {0};
    cr_assert(file_load("b/manifest.json", 1 << 24, &manifest, &error));
    cr_assert_str_eq(text_string(&manifest), text_string(&outcome.out));
    cr_assert(holds(&manifest, "\"arch\": \"sm_90a\"") && holds(&manifest, "\"arch\": \"sm_80\""));
    cr_assert_eq(system("cc -std=c11 -Wall -Werror -I" SOURCE_DIR "/runtime -c b/kernels.c -o b/kernels.o"), 0);
    struct outcome again = run("build specs/softmax.yaml --variant 'dtype=bf16 threads=128' -o c -j 1");
    cr_assert_eq(again.code, 0);
    cr_assert_eq(system("rm b/kernels.o && diff -r b c"), 0, "two builds differ");
    struct outcome unknown = run("build specs/softmax.yaml --arch sm_1 -o d");
    cr_assert(unknown.code == 2 && holds(&unknown.err, "does not know 'sm_1'"), "%s", text_string(&unknown.err));
    cr_assert(access("d", F_OK) != 0);
    text_free(&manifest);
    command_done(&outcome), command_done(&again), command_done(&unknown);
}

Test(cli, build_for_this_cpu_needs_no_nvrtc) {
    static const char arguments[] = "build 'family=softmax algorithm=online' --arch host,host_fast -o b";
    struct outcome outcome = command_run("ATTILE_NVRTC=/nowhere", arguments);
    struct text manifest = {0}, error = {0};
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_assert(file_load("b/manifest.json", 1 << 24, &manifest, &error) && is_json(&manifest));
    cr_expect(holds(&manifest, "\"host_compiler\": ") && !holds(&manifest, "\"compiler\": "));
    cr_expect(holds(&manifest, "host.so\"") && holds(&manifest, "host_fast.so\""), "%s", text_string(&manifest));
    text_free(&manifest);
    command_done(&outcome);
    outcome = command_run("CXX=/nowhere PATH=/nowhere", arguments);
    cr_expect(outcome.code == 4 && holds(&outcome.err, "C++17 compiler"), "%d %s", outcome.code,
              text_string(&outcome.err));
    command_done(&outcome);
}

Test(cli, help_of_cache_lists_all_its_verbs) {
    struct outcome help = run("help cache"), option = run("cache --help");
    cr_expect(option.code == 0 && holds(&option.out, "attile cache stat") && holds(&option.out, "attile cache clear"));
    cr_expect_str_eq(text_string(&option.out), text_string(&help.out));
    command_done(&help), command_done(&option);
}

Test(cli, run_is_headed_by_the_kernel_that_was_chosen) {
    struct outcome outcome =
        run("run 'family=attention_forward dtype=bf16 head_dim=16 target=sm_90a algorithm=flash_async' "
            "--device host --repeat 0 --shape len_q=20,len_kv=20");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect(holds(&outcome.out, "attention_forward_bf16_d16_none_flash_async_") &&
                  !holds(&outcome.out, "flash_tiled"),
              "%s", text_string(&outcome.out));
    command_done(&outcome);
}

/* precision is a knob of the problem, and the algorithm chosen without a schedule does not have it. */
Test(cli, run_takes_a_problem_that_only_its_own_schedule_has) {
    struct outcome outcome =
        run("run 'family=attention_forward dtype=fp32 precision=tf32x3 algorithm=flash_mma target=sm_80 "
            "head_dim=8' --device host --no-nvrtc --shape len_q=3,len_kv=5");
    cr_expect_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect(holds(&outcome.out, "flash_mma"), "%s", text_string(&outcome.out));
    command_done(&outcome);
}

Test(cli, build_makes_ptx_files_without_a_nul) {
    struct outcome outcome = run("build 'family=softmax algorithm=online' --arch compute_80 -o b");
    if (outcome.code == 4)
        cr_skip_test("no NVRTC");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect_eq(system("grep -q '^.target sm_80' b/*.compute_80.ptx && ! grep -qP '\\x00' b/*.ptx"), 0);
    command_done(&outcome);
}

Test(cli, build_makes_what_runs_on_each_architecture) {
    static const struct {
        const char *target;
        bool on[3];
    } cases[] = {{"any", {true, true, true}}, {"sm_80", {false, true, true}}};
    static const char *const archs[] = {"sm_75", "sm_80", "sm_90a"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments,
                 "build 'family=attention_forward head_dim=16 algorithm=flash_tiled target=%s' --arch "
                 "sm_75,sm_80,sm_90a -o %s -j 2",
                 cases[i].target, cases[i].target);
        struct outcome outcome = run(arguments);
        if (outcome.code == 4)
            cr_skip_test("no NVRTC");
        cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
        for (int j = 0; j < 3; j++) {
            char command[64];
            snprintf(command, sizeof command, "ls %s/*.%s.cubin >/dev/null 2>&1", cases[i].target, archs[j]);
            cr_expect_eq(system(command) == 0, cases[i].on[j], "target %s on %s", cases[i].target, archs[j]);
        }
        command_done(&outcome);
    }
}

Test(cli, build_takes_the_schedules_that_a_gpu_would_choose) {
    write_file("t.yaml", "device: NVIDIA H200\n"
                         "best:\n"
                         "  - problem: {family: attention_forward, dtype: bf16, head_dim: 16}\n"
                         "    shapes:\n"
                         "      - shape: {batch: 1, heads: 8, len_q: 512, len_kv: 512}\n"
                         "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 64, block_n: 32}\n");
    static const char arguments[] =
        "build 'family=attention_forward dtype=bf16 head_dim=16' --for h200 -o b -v "
        "--shapes 'batch=1,heads=8,len_q=512,len_kv=512; batch=1,heads=8,len_q=512,len_kv=512'";
    struct outcome outcome = command_run("ATTILE_TUNED=t.yaml", arguments);
    struct outcome wrong = run("build 'family=attention_forward head_dim=16' --for nothing");
    struct outcome given = run("build 'family=attention_forward head_dim=16 algorithm=flash' --for h200");
    struct outcome none = run("build 'family=attention_forward dtype=fp32 head_dim=512' --for h200");
    struct outcome latent =
        run(/* the default schedule, flash_tiled, cannot do this */
            "build 'family=attention_forward dtype=bf16 head_dim=576 head_dim_v=512 shared_kv=1' --for h200 -o latent");
    cr_expect(wrong.code == 2 && holds(&wrong.err, "no file of devices/"), "%s", text_string(&wrong.err));
    cr_expect(given.code == 2 && holds(&given.err, "leave algorithm out"), "%s", text_string(&given.err));
    cr_expect(none.code == 3 && holds(&none.err, "no kernel answers"), "%d: %s", none.code, text_string(&none.err));
    if (outcome.code == 4)
        cr_skip_test("no NVRTC");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect(holds(&outcome.err, "_m64_n32_") && holds(&outcome.err, "t.yaml:5 measured it best"), "%s",
              text_string(&outcome.err));
    cr_expect(holds(&outcome.err, "b: 1 kernels"), "what is chosen twice is built once: %s", text_string(&outcome.err));
    cr_expect_eq(system("ls b/*_m64_n32_*.sm_90a.cubin >/dev/null"), 0);
    cr_expect(latent.code == 0 && holds(&latent.err, "latent: 1 kernels"), "%s", text_string(&latent.err));
    cr_expect_eq(system("ls latent/*_mla_*.sm_90a.cubin >/dev/null"), 0);
    command_done(&outcome), command_done(&wrong), command_done(&given), command_done(&none), command_done(&latent);
}

Test(cli, build_keeps_what_wins_most_within_a_budget) {
    write_file("t.yaml", "device: NVIDIA H200\n"
                         "best:\n"
                         "  - problem: {family: attention_forward, dtype: fp32, head_dim: 16}\n"
                         "    shapes:\n"
                         "      - shape: {len_q: 512, len_kv: 512}\n"
                         "        schedule: {target: any, algorithm: flash, threads: 64}\n"
                         "      - shape: {len_q: 64, len_kv: 64}\n"
                         "        schedule: {target: any, algorithm: flash, threads: 32}\n");
    static const char arguments[] =
        "build 'family=attention_forward head_dim=16 dtype=fp32' --for h200 -o b "
        "--shapes 'len_q=64,len_kv=64; len_q=512,len_kv=512; batch=2,len_q=512,len_kv=512' --budget ";
    char little[400], enough[400];
    snprintf(little, sizeof little, "%s1", arguments);
    struct outcome outcome = command_run("ATTILE_TUNED=t.yaml", little);
    if (outcome.code == 4)
        cr_skip_test("no NVRTC");
    cr_assert(outcome.code == 2 && holds(&outcome.err, "--budget 1 is too little: one kernel for each problem takes"),
              "%s", text_string(&outcome.err));
    cr_expect_eq(system("ls b/*.cubin >/dev/null 2>&1") == 0, false, "nothing is written");
    const char *needed = strchr(strstr(text_string(&outcome.err), "takes"), '(');
    cr_assert(needed);
    snprintf(enough, sizeof enough, "%s%ld", arguments, strtol(needed + 1, NULL, 10));
    command_done(&outcome);
    outcome = command_run("ATTILE_TUNED=t.yaml", enough);
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_expect(holds(&outcome.err, "1 of 2 kernels") && holds(&outcome.err, "_flash_t32 ") &&
                  holds(&outcome.err, "for sm_90a, chosen at 1 shape"),
              "%s", text_string(&outcome.err));
    cr_expect_eq(system("test $(ls b/*.cubin | wc -l) = 1 && ls b/*64*.cubin >/dev/null"), 0, "%s",
                 text_string(&outcome.err));
    command_done(&outcome);
}

Test(cli, real_attention_of_a_real_model_is_right) {
    struct outcome outcome = run("run specs/quickstart.yaml --device host --no-nvrtc --variant '*flash_t*' --json");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_assert(is_json(&outcome.out) && holds(&outcome.out, "\"status\": \"ok\"") && !holds(&outcome.out, "mismatch\""));
    command_done(&outcome);
}

Test(cli, a_cache_that_cannot_be_used_is_said_and_costs_nothing_else) {
    struct outcome outcome = command_run("ATTILE_CACHE_DIR=/dev/null/x", "run family=softmax --shape rows=3,cols=5");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    cr_assert(holds(&outcome.err, "no usable directory at /dev/null/x"), "%s", text_string(&outcome.err));
    command_done(&outcome);
}

Test(cli, why_a_cache_cannot_be_made_is_said_not_that_it_is_missing) {
    if (geteuid() == 0 && mkdir("/sys/attile", 0700) == 0)
        cr_skip_test("/sys can be written to");
    struct outcome outcome = command_run("ATTILE_CACHE_DIR=/sys/attile/x", "cache stat");
    cr_assert(holds(&outcome.err, "/sys/attile/x") && !holds(&outcome.err, "No such file"), "%s",
              text_string(&outcome.err));
    command_done(&outcome);
}

Test(cli, interrupted_it_prints_finished_rows_and_exits_with_130) {
    /* interrupts as soon as two kernels are in the cache: the first one then has its row */
    int status =
        system(ATTILE " run specs/attention_ladder.yaml --device host --no-nvrtc >.out 2>.err & attile=$!; "
                      "until [ $(find . -type f -size +4k | wc -l) -gt 1 ] || ! kill -0 $attile; do sleep 0.05; done; "
                      "kill -INT $attile; wait $attile");
    struct text out = {0}, error = {0};
    cr_assert_eq(WEXITSTATUS(status), 130);
    cr_assert(file_load(".out", 1 << 20, &out, &error));
    cr_assert(holds(&out, "ok"), "%s", text_string(&out));
    text_free(&out);
}

/* --- colour, help, files ------------------------------------------------------------------------------------------ */

Test(cli, colours_are_off_unless_asked_for) {
    static const struct {
        const char *environment, *arguments;
        bool colored;
    } cases[] = {
        {"TERM=xterm", "doctor", false}, /* not a terminal */
        {"TERM=xterm", "doctor --color never", false},
        {"TERM=dumb NO_COLOR=1", "doctor --color always", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = command_run(cases[i].environment, cases[i].arguments);
        cr_assert_eq(holds(&outcome.out, "\033["), cases[i].colored, "%s", cases[i].arguments);
        command_done(&outcome);
    }
}

Test(cli, the_manual_is_what_the_tables_say) {
    struct outcome outcome = run("help --markdown");
    struct text manual = {0}, error = {0};
    cr_assert(file_load(SOURCE_DIR "/docs/cli.md", 1 << 20, &manual, &error), "%s", text_string(&error));
    cr_assert_str_eq(text_string(&manual), text_string(&outcome.out),
                     "docs/cli.md is out of date: write it with attile help --markdown > docs/cli.md");
    text_free(&manual);
    command_done(&outcome);
}

Test(cli, every_verb_has_help_in_lines_of_80_columns) {
    struct outcome overview = run("help");
    int verbs = 0;
    for (const char *row = text_string(&overview.out); *row; row += strcspn(row, "\n") + 1)
        cr_assert_leq(strcspn(row, "\n"), 80, "%s", row);
    for (const char *at = text_string(&overview.out); (at = strstr(at, "\n  ")); at++) {
        char name[32];
        if (at[3] == ' ' || sscanf(at, " %31s", name) != 1 || !islower((unsigned char)name[0]))
            continue;
        char line[64];
        snprintf(line, sizeof line, "help %s", name);
        struct outcome help = run(line);
        cr_assert_eq(help.code, 0);
        cr_assert(holds(&help.out, "usage: attile ") && holds(&help.out, "--json"));
        for (const char *row = text_string(&help.out); *row; row += strcspn(row, "\n") + 1)
            cr_assert_leq(strcspn(row, "\n"), 80, "%s", row);
        command_done(&help);
        verbs++;
    }
    cr_assert_geq(verbs, 14);
    command_done(&overview);
}

Test(cli, a_full_standard_output_is_an_error) {
    if (access("/dev/full", W_OK) != 0)
        cr_skip_test("no /dev/full");
    int status = system(ATTILE " version >/dev/full 2>/dev/null");
    cr_assert_eq(WEXITSTATUS(status), 7);
}

Test(cli, a_failed_write_leaves_the_old_file_and_no_other) {
    struct text error = {0};
    cr_assert(file_make_folder("w", &error));
    write_file("w/a", "old");
    cr_assert_eq(mkdir("w/d", 0777), 0);
    cr_assert_not(file_save("w/d", "new", 3, NULL, &error)); /* a folder is in the way */
    cr_assert(error.size > 0);
    int entries = 0;
    DIR *dir = opendir("w");
    for (const struct dirent *entry; (entry = readdir(dir));)
        entries += entry->d_name[0] != '.';
    closedir(dir);
    cr_assert_eq(entries, 2);
    text_free(&error);
}
