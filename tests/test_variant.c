#include "gen.h"
#include "helper_cases.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- templates made for these tests ---------------------------------------------------------------------------- */

/* Knobs that each uses: flash threads; materialized block_m and block_n; flash_tiled both orders and
   their own knobs. */
static const struct {
    const char *name, *text;
} templates[] = {
    {"attention_flash.cu", "//$ default threads = 128\n"
                           "//$ require head_dim <= 128\n"
                           "//$ launch f grid len_q block threads shared 0\n"
                           "//$ if mask == causal and dtype == fp32 and dtype_out == fp32\n//$ end\n"},
    {"attention_materialized.cu", "//$ default block_m = 64\n"
                                  "//$ default block_n = 64\n"
                                  "//$ require block_m <= 128\n"
                                  "//$ launch m grid len_q block block_m shared 2 * block_n * head_dim\n"},
    {"attention_flash_tiled.cu", "//$ default block_m = 32\n"
                                 "//$ launch q grid len_q block block_m shared head_dim_v\n"},
    {"attention_flash_tiled_kv.cu", "//$ default block_n = 32\n"
                                    "//$ launch kv grid len_q block block_n shared head_dim\n"},
};

static const char *load(void *context, const char *name, size_t *size) {
    (void)context;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (strcmp(templates[i].name, name) == 0) {
            *size = strlen(templates[i].text);
            return templates[i].text;
        }
    return NULL;
}

static struct template_set *open_set(template_loader *loader) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(loader, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    return set;
}

/* --- text cases ------------------------------------------------------------------------------------------------ */

static void run_case(const char *title, const char *text, size_t size, struct text *output) {
    struct diag diag = {0};
    struct template_set *set = open_set(load);
    struct spec *spec = spec_read("spec", text, size, &diag);
    cr_assert_not_null(spec, "%s: %s", title, text_string(&diag.text));
    struct variants variants;
    struct variant variant;
    for (variants_open(&variants, spec, set); variants_next(&variants, &variant);) {
        cr_assert_eq(variant.feasible, variant.reason[0] == '\0', "%s: %s", title, variant.reason);
        if (variant.feasible)
            text_print(output, "%s\n", variant.name);
        else
            text_print(output, "- %s\n", variant.reason);
    }
    spec_free(spec);
    template_set_close(set);
}

Test(variant, gives_what_the_text_cases_say) {
    int count = 0;
    cr_assert_eq(cases_check("spec/variants.txt", run_case, &count), 0);
    cr_assert_geq(count, 15);
}

/* --- the specs of this project --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

Test(variant, gives_every_kernel_of_the_specs_folder_a_name_of_its_own) {
    enum { MOST = 1000 };
    static char names[MOST][VARIANT_NAME];
    struct template_set *set = open_set(template_embedded);
    DIR *folder = opendir(SOURCE_DIR "/specs");
    int feasible = 0;
    cr_assert_not_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".yaml") != 0)
            continue;
        char path[512];
        struct text text;
        struct diag diag = {0};
        snprintf(path, sizeof path, "specs/%.300s", entry->d_name);
        cr_assert(file_read(path, &text));
        struct spec *spec = spec_read(path, text_string(&text), text.size, &diag);
        cr_assert_not_null(spec, "%s", text_string(&diag.text));
        cr_assert(spec->shapes > 0 || spec->inputs > 0, "%s tests nothing", path);
        struct variants variants;
        struct variant variant;
        int before = feasible;
        for (variants_open(&variants, spec, set); variants_next(&variants, &variant);)
            if (variant.feasible && strcmp(path, "specs/quickstart.yaml") != 0) /* which is for show */
                strcpy(names[feasible++], variant.name);
        cr_assert(feasible > before || strcmp(path, "specs/quickstart.yaml") == 0, "%s: no variant is feasible", path);
        spec_free(spec);
        text_free(&text);
    }
    closedir(folder);
    cr_assert(feasible >= 100 && feasible <= 780, "%d: the sweep compiles and runs them all", feasible);
    qsort(names, (size_t)feasible, sizeof *names, by_name);
    for (int i = 1; i < feasible; i++)
        cr_assert_str_neq(names[i - 1], names[i]);
    template_set_close(set);
}

/* --- against a plain count ------------------------------------------------------------------------------------- */

static unsigned next_random(unsigned *state) { return *state = *state * 1664525u + 1013904223u, *state >> 8; }

static void print_axis(struct text *text, const char *name, const int *value, int count) {
    text_print(text, "  %s: [", name);
    for (int i = 0; i < count; i++)
        text_print(text, "%s%d", i ? ", " : "", value[i]);
    text_print(text, "]\n");
}

/* For any axes, the feasible variants are those that a plain loop over everything finds, each once. */
Test(variant, enumerates_the_same_variants_as_a_loop_over_all_combinations) {
    static const char *const algorithms[] = {"flash", "materialized", "flash_tiled"};
    enum { MOST = 4096 };
    static char expected[MOST][VARIANT_NAME], found[MOST][VARIANT_NAME];
    struct template_set *set = open_set(load);
    unsigned state = 1;
    for (int round = 0; round < 200; round++) {
        struct text text = {0};
        struct diag diag = {0};
        const int dims[] = {16, 64, 200}, blocks[] = {32, 64, 256};
        text_print(&text, "family: attention_forward\nproblem:\n");
        print_axis(&text, "head_dim", dims, 1 + (int)(next_random(&state) % 3));
        print_axis(&text, "head_dim_v", dims, 1 + (int)(next_random(&state) % 3));
        text_print(&text, "schedule:\n  algorithm: [");
        int first = (int)(next_random(&state) % 3), count = 1 + (int)(next_random(&state) % 3);
        for (int i = 0; i < count; i++)
            text_print(&text, "%s%s", i ? ", " : "", algorithms[(first + i) % 3]);
        text_print(&text, "]\n  loop_order: %s\n", next_random(&state) % 2 ? "[kv_outer, q_outer]" : "q_outer");
        if (next_random(&state) % 2)
            print_axis(&text, "block_m", blocks, 1 + (int)(next_random(&state) % 3));
        if (next_random(&state) % 2)
            print_axis(&text, "block_n", blocks, 1 + (int)(next_random(&state) % 3));
        struct spec *spec = spec_read("spec", text_string(&text), text.size, &diag);
        cr_assert_not_null(spec, "%s", text_string(&diag.text));

        struct variants variants;
        struct variant variant;
        int found_count = 0, expected_count = 0, index[KNOB_COUNT] = {0};
        knob_flags given = 0, used = 0;
        for (variants_open(&variants, spec, set); variants_next(&variants, &variant);)
            if (variant.feasible)
                strcpy(found[found_count++], variant.name);
        for (int pass = 0; pass < 2; pass++) /* first find out which knobs matter, then collect */
            for (bool more = true; more;) {
                struct knobs knobs = knobs_default();
                for (int id = 0; id < KNOB_COUNT; id++) {
                    knob_set(&knobs, (enum knob_id)id, spec->axis[id].value[index[id]]);
                    if (spec->axis[id].place.line && knob_get(&knobs, (enum knob_id)id) != knob_table[id].fallback)
                        given |= KNOB_FLAG(id);
                }
                bool feasible = variant_complete(set, &knobs, false, &variant);
                used |= variant.used;
                bool pointless = (given & ~used) != 0;
                for (int i = 0; pass == 1 && feasible && i < expected_count; i++)
                    feasible = strcmp(expected[i], variant.name) != 0;
                if (pass == 1 && feasible && !pointless)
                    strcpy(expected[expected_count++], variant.name);
                int id = KNOB_COUNT - 1;
                while (id >= 0 && ++index[id] == spec->axis[id].count)
                    index[id--] = 0;
                more = id >= 0;
            }
        qsort(found, (size_t)found_count, sizeof *found, by_name);
        qsort(expected, (size_t)expected_count, sizeof *expected, by_name);
        cr_assert_eq(found_count, expected_count, "%d found, %d expected:\n%s", found_count, expected_count,
                     text_string(&text));
        for (int i = 0; i < found_count; i++)
            cr_assert_str_eq(found[i], expected[i], "%s", text_string(&text));
        spec_free(spec);
        text_free(&text);
    }
    template_set_close(set);
}

Test(variant, ends_once_and_stays_at_the_end) {
    struct diag diag = {0};
    struct template_set *set = open_set(load);
    struct spec *spec = spec_read("spec", "family: attention_forward", 25, &diag);
    struct variants variants;
    struct variant variant;
    variants_open(&variants, spec, set);
    cr_assert(variants_next(&variants, &variant));
    for (int again = 0; again < 3; again++)
        cr_assert_not(variants_next(&variants, &variant));
    spec_free(spec);
    template_set_close(set);
}
