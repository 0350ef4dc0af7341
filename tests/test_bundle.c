#include "bundle.h"
#include "params_layout.h"
#include "plan_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char good_plan[] = "launch attention_flash 128 16384 len_q 63 + 64 / heads * batch *\n"
                                "cluster 2\n"
                                "dependent\n"
                                "launch finish 32 0 sm_count len_q min 4 max\n"
                                "params attention_params\n"
                                "fills tables\n"
                                "map queries q 128 64\n"
                                "map o o 64 64 packed\n"
                                "workspace batch heads * len_q * 4 *\n";

/* --- plans as text ------------------------------------------------------------------------------------------------ */

Test(plan_text, comes_back_as_it_went) {
    struct plan plan;
    struct text text = {0};
    cr_assert(plan_read(good_plan, &plan));
    cr_expect_eq(plan.launches, 2);
    cr_expect_str_eq(plan.launch[0].entry, "attention_flash");
    cr_expect_eq(plan.launch[0].block, 128);
    cr_expect_eq(plan.launch[0].shared, 16384);
    cr_expect_eq(plan.maps, 2);
    cr_expect_eq(plan.map[0].rows, 128);
    cr_expect_eq(plan.map[1].tensor, PLAN_O);
    cr_expect(plan.map[1].packed && !plan.map[0].packed);
    cr_expect_eq(plan.launch[0].cluster, 2);
    cr_expect_eq(plan.launch[1].cluster, 0);
    cr_expect(plan.launch[0].dependent && !plan.launch[1].dependent);
    cr_expect(plan.launch[1].fills_tables && !plan.launch[0].fills_tables);
    cr_expect(plan_with_maps(&plan, 0) && !plan_with_maps(&plan, 1));
    cr_expect_str_eq(plan.map[0].name, "queries");
    struct shape shape = {.batch = 2, .heads = 3, .len_q = 65, .sm_count = 7};
    int64_t value;
    cr_expect(plan_eval(&plan.launch[0].grid, &shape, &value) && value == 2 * 3 * 2);
    cr_expect(plan_eval(&plan.launch[1].grid, &shape, &value) && value == 7);
    cr_expect(plan_eval(&plan.workspace, &shape, &value) && value == 2 * 3 * 65 * 4);
    plan_write(&plan, &text);
    cr_expect_str_eq(text_string(&text), good_plan);
    text_free(&text);
}

Test(plan_text, anything_else_is_refused) {
    static const char *const cases[] = {
        "",
        "workspace 0\n",                                     /* nothing to launch */
        "launch k 32 0 1\n",                                 /* no workspace */
        "launch k 32 0 1\nworkspace 0",                      /* cut short */
        "launch k 32 0 1\nworkspace 0\nx",                   /* something after the end */
        "launch k 0 0 1\nworkspace 0\n",                     /* threads below 1 */
        "launch k 1025 0 1\nworkspace 0\n",                  /* and above the most */
        "launch k 32 -1 1\nworkspace 0\n",                   /* negative shared memory */
        "launch k 32 0\nworkspace 0\n",                      /* no grid */
        "launch k 32 0 +\nworkspace 0\n",                    /* operator without operands */
        "launch k 32 0 1 + 2\nworkspace 0\n",                /* operator with one operand */
        "launch k 32 0 1 2\nworkspace 0\n",                  /* two values left */
        "launch k 32 0 1 len_x +\nworkspace 0\n",            /* unknown size */
        "launch k 32 0 99999999999999999999\nworkspace 0\n", /* overflow */
        "launch k-1 32 0 1\nworkspace 0\n",                  /* not an identifier */
        "launch 1k 32 0 1\nworkspace 0\n",

        "launch k 32 0 1 1+1\nworkspace 0\n",
        "workspace 0\nlaunch k 32 0 1\n",
        "launch k 32 0 1\nmap q 64 64\nworkspace 0\n",    /* a name alone */
        "launch k 32 0 1\nmap 1q q 64 64\nworkspace 0\n", /* not an identifier */
        "launch k 32 0 1\nparams nothing\nworkspace 0\n", /* no such struct */
        "launch k 32 0 1\nparams attention_params x\nworkspace 0\n",
        "launch k 32 0 1\nfills\nworkspace 0\n",
        "launch k 32 0 1\nfills tables\nfills tables\nworkspace 0\n",
        "params attention_params\nlaunch k 32 0 1\nworkspace 0\n",
        "map q q 64 64\nlaunch k 32 0 1\nworkspace 0\n",
        "launch k 32 0 1\nmap x x 64 64\nworkspace 0\n",
        "launch k 32 0 1\nmap q q 64\nworkspace 0\n",
        "launch k 32 0 1\nmap q q 0 64\nworkspace 0\n",
        "launch k 32 0 1\nmap q q 257 64\nworkspace 0\n",
        "launch k 32 0 1\nmap q q 64 64 1\nworkspace 0\n",
        "launch k 32 0 1\nmap q q 64 64 packed packed\nworkspace 0\n",
        "launch k 32 0 1\nmap q q 64 64 backed\nworkspace 0\n",
        "cluster 2\nlaunch k 32 0 1\nworkspace 0\n",
        "launch k 32 0 1\ncluster 2\ncluster 2\nworkspace 0\n",
        "launch k 32 0 1\ncluster 0\nworkspace 0\n",
        "dependent\nlaunch k 32 0 1\nworkspace 0\n",
        "launch k 32 0 1\ndependent\ndependent\nworkspace 0\n",
        "launch k 32 0 1\ndependent 1\nworkspace 0\n",
        "launch k 32 0 1\ncluster 9\nworkspace 0\n",
        "launch k 32 0 1\ncluster 2 2\nworkspace 0\n",
        "launch k 32 0 1\nmap q q 64 64\ncluster 2\nworkspace 0\n",
        "launch k 32 0 1 minimum\nworkspace 0\n",
        "launch k 32 0 min\nworkspace 0\n",
    };
    struct plan plan;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_not(plan_read(cases[i], &plan), "accepted: %s", cases[i]);
    struct text text = {0};
    text_print(&text, "launch k 32 0 1");
    for (int i = 0; i < PLAN_STEPS; i++)
        text_print(&text, " 1 +");
    text_print(&text, "\nworkspace 0\n");
    cr_expect_not(plan_read(text_string(&text), &plan), "more steps than a plan holds");
    text_free(&text);
    text_print(&text, "launch ");
    for (int i = 0; i < PLAN_ENTRY; i++)
        text_print(&text, "k");
    text_print(&text, " 32 0 1\nworkspace 0\n");
    cr_expect_not(plan_read(text_string(&text), &plan), "an entry name longer than a plan holds");
    text_free(&text);
    for (int launches = PLAN_LAUNCHES; launches <= PLAN_LAUNCHES + 1; launches++)
        for (int maps = PLAN_MAPS; maps <= PLAN_MAPS + 1; maps++) {
            for (int i = 0; i < launches; i++)
                text_print(&text, "launch k 32 0 1\n");
            for (int i = 0; i < maps; i++)
                text_print(&text, "map map_%d q 64 64\n", i);
            text_print(&text, "workspace 0\n");
            cr_expect_eq(plan_read(text_string(&text), &plan), launches == PLAN_LAUNCHES && maps == PLAN_MAPS,
                         "%d launches, %d maps", launches, maps);
            text_free(&text);
        }
}

Test(plan_text, every_truncation_is_refused) {
    for (size_t size = 0; size + 1 < sizeof good_plan; size++) {
        char part[sizeof good_plan] = "";
        struct plan plan;
        memcpy(part, good_plan, size);
        cr_expect_not(plan_read(part, &plan), "cut to %zu bytes", size);
    }
}

/* --- bundles ------------------------------------------------------------------------------------------------------ */

static const unsigned char binary[] = {0x7f, 'E', 'L', 'F', 1, 2, 3, 4, 5, 6, 7};

static struct att_bundle_kernel kernel_for(const char *name, const char *variant, const char *arch) {
    return (struct att_bundle_kernel){.name = name,
                                      .variant = variant,
                                      .arch = arch,
                                      .plan = good_plan,
                                      .binary = binary,
                                      .size = sizeof binary,
                                      .registers = 40};
}

#define PROBLEM "family: attention_forward, dtype: fp32, dtype_out: fp32, head_dim: 64, head_dim_v: 64, mask: causal"

static struct variant variant_of(int block_m) {
    struct variant variant = {.knobs = knobs_default(), .feasible = true};
    variant.knobs.family = family_attention_forward;
    variant.knobs.dtype_out = dtype_out_fp32;
    variant.knobs.head_dim_v = 64;
    variant.knobs.mask = mask_causal;
    variant.knobs.algorithm = algorithm_flash;
    variant.knobs.loop_order = AUTO;
    variant.knobs.block_m = block_m;
    variant.knobs.target = AUTO;
    variant.used = KNOB_FLAG(KNOB_family) | KNOB_FLAG(KNOB_dtype) | KNOB_FLAG(KNOB_dtype_out) |
                   KNOB_FLAG(KNOB_head_dim) | KNOB_FLAG(KNOB_head_dim_v) | KNOB_FLAG(KNOB_mask) |
                   KNOB_FLAG(KNOB_algorithm) | KNOB_FLAG(KNOB_block_m);
    return variant;
}

Test(bundle, finds_equal_knobs_first_and_equal_problems_when_the_schedule_is_open) {
    const struct att_bundle_kernel kernels[] = {
        kernel_for("other",
                   "family: attention_forward, dtype: bf16, dtype_out: bf16, head_dim: 64, head_dim_v: 64, "
                   "mask: causal, algorithm: flash, block_m: 16",
                   "sm_90a"),
        kernel_for("m32", PROBLEM ", algorithm: flash, block_m: 32", "sm_90a"),
        kernel_for("m16", PROBLEM ", algorithm: flash, block_m: 16", "sm_90a"),
    };
    const struct att_bundle bundle = {ATT_BUNDLE_FORMAT, 3, kernels, NULL};
    const struct att_bundle *const bundles[] = {&bundle, NULL};
    struct variant m16 = variant_of(16), m64 = variant_of(64);
    const struct att_bundle_kernel *found = bundle_find(bundles, &m16, "sm_90a", true);
    cr_assert_not_null(found);
    cr_expect_str_eq(found->name, "m16");
    found = bundle_find(bundles, &m64, "sm_90a", true);
    cr_assert_not_null(found);
    cr_expect_str_eq(found->name, "m32");
    cr_expect_null(bundle_find(bundles, &m64, "sm_90a", false), "an explicit schedule is not replaced");
    cr_expect_null(bundle_find(bundles, &m16, "sm_80", true));
    cr_expect_null(bundle_find(bundles, &m16, "host", true));
    cr_expect_null(bundle_find(NULL, &m16, "sm_90a", true));
}

/* A kernel with one more knob is a different kernel, even if all other knobs are equal. */
Test(bundle, a_knob_that_the_variant_does_not_use_must_not_be_there) {
    const struct att_bundle_kernel kernels[] = {
        kernel_for("schedule", PROBLEM ", algorithm: flash, block_m: 16, block_n: 32", "sm_90a"),
        kernel_for("problem", PROBLEM ", sinks: 1, algorithm: flash, block_m: 16", "sm_90a"),
        kernel_for("equal", PROBLEM ", algorithm: flash, block_m: 16", "sm_90a"),
    };
    struct variant variant = variant_of(16);
    for (int last = 0; last < 3; last++) {
        const struct att_bundle bundle = {ATT_BUNDLE_FORMAT, last + 1, kernels, NULL};
        const struct att_bundle *const bundles[] = {&bundle, NULL};
        const struct att_bundle_kernel *found = bundle_find(bundles, &variant, "sm_90a", false);
        cr_expect_eq(found, last < 2 ? NULL : &kernels[2], "%s", found ? found->name : "none");
    }
    const struct att_bundle sinks = {ATT_BUNDLE_FORMAT, 1, &kernels[1], NULL};
    const struct att_bundle *const bundles[] = {&sinks, NULL};
    cr_expect_null(bundle_find(bundles, &variant, "sm_90a", true), "sinks are another problem");
}

Test(bundle, binaries_run_on_their_own_and_compatible_architectures) {
    static const struct {
        const char *built, *device;
        bool runs;
    } cases[] = {{"sm_80", "sm_80", true},       {"sm_80", "sm_86", true},
                 {"sm_80", "sm_89", true},       {"sm_86", "sm_80", false},
                 {"sm_80", "sm_90a", false},     {"sm_90", "sm_90a", true},
                 {"sm_90a", "sm_90a", true},     {"sm_90a", "sm_100a", false},
                 {"sm_100", "sm_103a", true},    {"sm_100a", "sm_103a", false},
                 {"host", "host", true},         {"sm_80", "host", false},
                 {"", "sm_80", false},           {"sm_75", "sm_80", false},
                 {"compute_80", "sm_80", true},  {"compute_80", "sm_100a", true},
                 {"compute_80", "sm_75", false}, {"compute_90a", "sm_90a", false},
                 {"compute_80", "host", false},  {"host", "host_fast", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(bundle_arch_runs(cases[i].built, cases[i].device), cases[i].runs, "%s on %s", cases[i].built,
                     cases[i].device);
}

Test(bundle, incomplete_tables_are_refused) {
    struct failure failure = {0};
    struct att_bundle_kernel kernel = kernel_for("k", PROBLEM, "sm_80");
    char layout[PARAMS_LAYOUT];
    cr_assert(params_layout(embedded_templates, layout));
    struct att_bundle bundle = {ATT_BUNDLE_FORMAT + 1, 1, &kernel, layout};
    cr_expect_eq(bundle_check(&bundle, 2, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "bundles[2]: format is 3, expected 2"), "%s",
              text_string(&failure.text));
    bundle.format = ATT_BUNDLE_FORMAT;
    failure_clear(&failure);
    cr_expect_eq(bundle_check(&bundle, 0, &failure), ATT_OK);
    kernel.plan = "workspace 0\n";
    cr_expect_eq(bundle_check(&bundle, 0, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "the plan of k cannot be read"));
    kernel = kernel_for("k", PROBLEM, "sm_80");
    kernel.variant = "family=attention_forward blocks=per_tile";
    cr_expect_eq(bundle_check(&bundle, 0, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "the knobs of k cannot be read") &&
                  strstr(text_string(&failure.text), "knob 'blocks' is called 'scheduler' now"),
              "%s", text_string(&failure.text));
    kernel = kernel_for("k", PROBLEM, "sm_80");
    kernel.binary = NULL;
    cr_expect_eq(bundle_check(&bundle, 0, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "kernel 0 is incomplete"));
    failure_clear(&failure);
}

/* A kernel that reads its parameters elsewhere than this library puts them must not be started. */
Test(bundle, tables_for_other_parameter_structs_are_refused) {
    struct failure failure = {0};
    struct att_bundle_kernel kernel = kernel_for("k", PROBLEM, "sm_80");
    struct att_bundle bundle = {ATT_BUNDLE_FORMAT, 1, &kernel, "0123456789abcdef"};
    cr_expect_eq(bundle_check(&bundle, 1, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "bundles[1]: its kernels take parameters of layout 0123456789abcdef"),
              "%s", text_string(&failure.text));
    cr_expect(strstr(text_string(&failure.text), "`attile build`"));
    bundle.params = NULL;
    cr_expect_eq(bundle_check(&bundle, 1, &failure), ATT_INVALID_ARGUMENT);
    failure_clear(&failure);
}

Test(bundle, the_layout_is_what_the_compiler_sees_of_the_structs) {
    static const char before[] = "/* about */\nstruct p {\n    int a; // first\n    //$ if x\n    float b;\n};\n";
    static const struct {
        const char *name, *text;
        bool same;
    } cases[] = {
        {"params/p.h", before, true},
        {"params/p.h", "struct p {\n    int a;\n\n//$ if x\n    /* second */ float b;\n};\n", true},
        {"params/p.h", "struct p {\n    int a;\n    //$ if y\n    float b;\n};\n", false},
        {"params/p.h", "struct p {\n    int a;\n    //$ if x\n    double b;\n};\n", false},
        {"params/p.h", "struct p {\n    //$ if x\n    float b;\n    int a;\n};\n", false},
        {"params/q.h", before, false},
        {"part/p.h", before, false},
    };
    char expected[PARAMS_LAYOUT], found[PARAMS_LAYOUT];
    params_layout((const struct embedded_file[]){{"params/p.h", before, 0}, {"part/x.h", "int", 0}, {NULL, NULL, 0}},
                  expected);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params_layout((const struct embedded_file[]){{cases[i].name, cases[i].text, 0}, {NULL, NULL, 0}}, found);
        cr_expect_eq(strcmp(found, expected) == 0, cases[i].same, "case %zu", i);
    }
    int structs = 0;
    for (const struct embedded_file *file = embedded_templates; file->name; file++)
        structs += strncmp(file->name, "params/", 7) == 0;
    cr_expect_geq(structs, 4, "the structs are among the files that the library carries");
}

/* Only a C compiler can prove a C file: builds a program around it and compares what the program sees. */
Test(bundle, written_file_compiles_and_carries_every_byte) {
    const struct att_bundle_kernel kernels[] = {kernel_for("one", PROBLEM, "sm_80"),
                                                kernel_for("two", PROBLEM, "sm_90a")};
    struct text file = {0}, again = {0};
    struct failure failure = {0};
    cr_assert_eq(bundle_write_c("my_kernels", kernels, 2, &file, &failure), ATT_OK, "%s", text_string(&failure.text));
    cr_assert_eq(bundle_write_c("my_kernels", kernels, 2, &again, &failure), ATT_OK);
    cr_expect_str_eq(text_string(&file), text_string(&again), "equal tables give equal bytes");

    char folder[] = "/tmp/attile-bundle-XXXXXX", path[64], command[512];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/program.c", folder);
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out);
    fputs(text_string(&file), out);
    fputs("#include <stdio.h>\n#include <string.h>\n"
          "int main(void) {\n"
          "    const struct att_bundle_kernel *k = my_kernels.kernels + 1;\n"
          "    static const unsigned char expected[] = {0x7f, 'E', 'L', 'F', 1, 2, 3, 4, 5, 6, 7};\n"
          "    if (my_kernels.count != 2 || my_kernels.format != ATT_BUNDLE_FORMAT || !my_kernels.params || "
          "k->registers != 40) return 1;\n"
          "    if (k->size != sizeof expected || memcmp(k->binary, expected, sizeof expected)) return 2;\n"
          "    if (strcmp(k->name, \"two\") || strcmp(k->arch, \"sm_90a\")) return 3;\n"
          "    fputs(k->plan, stdout);\n"
          "    return 0;\n}\n",
          out);
    fclose(out);
    snprintf(command, sizeof command, "cc -std=c11 -Wall -Wextra -Werror -I%s/runtime %s -o %s/program", SOURCE_DIR,
             path, folder);
    cr_assert_eq(system(command), 0, "%s", command);
    snprintf(command, sizeof command, "%s/program", folder);
    FILE *program = popen(command, "r");
    char plan[sizeof good_plan + 16] = "";
    cr_assert_gt(fread(plan, 1, sizeof plan - 1, program), 0);
    cr_expect_eq(pclose(program), 0);
    cr_expect_str_eq(plan, good_plan);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
    text_free(&file);
    text_free(&again);
}

Test(bundle, writing_refuses_bad_symbols_and_kernels) {
    struct att_bundle_kernel kernel = kernel_for("one", PROBLEM, "sm_80");
    struct text file = {0};
    struct failure failure = {0};
    static const char *const symbols[] = {"", "1kernels", "my-kernels", "x;int y", "int", "new"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        cr_expect_eq(bundle_write_c(symbols[i], &kernel, 1, &file, &failure), ATT_INVALID_ARGUMENT);
    cr_expect_eq(bundle_write_c("kernels", &kernel, 0, &file, &failure), ATT_INVALID_ARGUMENT);
    kernel.plan = "nonsense";
    cr_expect_eq(bundle_write_c("kernels", &kernel, 1, &file, &failure), ATT_INVALID_ARGUMENT);
    cr_expect_eq(file.size, 0, "nothing is written on bad input");
    failure_clear(&failure);
}
