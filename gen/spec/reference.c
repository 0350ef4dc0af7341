/* reference: the tables of this library -> specs/README.md, the field reference of specs. All information in a table is
   printed from it, so the page cannot become outdated; a test compares the two. */
#include "gen.h"
#include "spec_test.h"

#include <string.h>

static const char *const group_titles[] = {
    [KNOB_GROUP_TOP] = "Family and target",
    [KNOB_GROUP_PROBLEM] = "Problem knobs",
    [KNOB_GROUP_SCHEDULE] = "Schedule knobs",
};

static void print_intro(struct text *text) {
    text_print(
        text,
        "# Specs\n"
        "\n"
        "<!-- Printed from gen/knobs/knobs.def and the tables beside it. Change those, then run test_reference with\n"
        "     ATTILE_UPDATE_GOLDEN=1. -->\n"
        "\n"
        "A spec is a YAML file that says which knobs may take which values. Every combination is a variant, and\n"
        "every variant becomes one kernel. [docs/spec.md](../docs/spec.md) introduces specs; this page lists\n"
        "every field.\n"
        "\n"
        "```yaml\n"
        "family: attention_forward\n"
        "problem:                     # a list is an axis: one variant per value\n"
        "  dtype: [fp32, bf16]\n"
        "  head_dim: [64, 96]\n"
        "schedule:\n"
        "  algorithm: flash_tiled\n"
        "  block_m: [32, 64]\n"
        "require:\n"
        "  - head_dim != 96 or block_m == 32\n"
        "test:\n"
        "  shapes: [{heads: 4, kv_heads: 2, len_q: 20, len_kv: 33}]\n"
        "```\n");
}

static void print_keys(struct text *text) {
    text_print(text, "\n## Keys\n\n| key | takes | meaning |\n|---|---|---|\n");
#define KEY(name, takes, about) text_print(text, "| `%s` | %s | %s |\n", #name, takes, about);
#include "spec_keys.def"
}

static void print_values(const struct knob_info *knob, struct text *text) {
    if (knob->kind == KNOB_KIND_INT)
        text_print(text, "%d to %d", knob->least, knob->most);
    bool formula = knob->kind == KNOB_KIND_FORMULA; /* whose last word stands for an expression */
    for (int i = 0; knob->words && knob->words[i] && (!formula || knob->words[i + 1]); i++)
        text_print(text, "%s`%s`", i ? ", " : "", knob->words[i]);
    text_print(text, !formula         ? ""
                     : knob->optional ? " or a list of names"
                                      : " or [an expression](../docs/expressions.md)");
}

static void print_default(enum knob_id id, struct text *text) {
    const struct knob_info *knob = &knob_table[id];
    if (id == KNOB_family)
        text_print(text, "required");
    else if (knob->fallback == AUTO)
        text_print(text, knob->group == KNOB_GROUP_SCHEDULE ? "chosen" : "derived");
    else if (knob->kind == KNOB_KIND_INT)
        text_print(text, "%d", knob->fallback);
    else
        text_print(text, "`%s`", knob_word_name(id, knob->fallback));
}

static void print_knobs(enum knob_group group, struct text *text) {
    text_print(text, "\n## %s\n\n| knob | values | default | meaning |\n|---|---|---|---|\n", group_titles[group]);
    for (int id = 0; id < KNOB_COUNT; id++) {
        const struct knob_info *knob = &knob_table[id];
        if (knob->group != group)
            continue;
        text_print(text, "| `%s` | ", knob->name);
        print_values(knob, text);
        text_print(text, " | ");
        print_default((enum knob_id)id, text);
        text_print(text, " | %s |\n", knob->about);
    }
}

static void print_algorithms(struct text *text) {
    text_print(text, "\nThe algorithms of each family, its default first, and the template of each:\n\n"
                     "| family | algorithm | loop_order | template |\n|---|---|---|---|\n");
#define TEMPLATE(family, algorithm, loop_order, file)                                                                  \
    text_print(text, "| `%s` | `%s` | %s | [%s](../templates/%s) |\n", #family, #algorithm,                            \
               strcmp(#loop_order, "ANY") == 0 ? "" : "`" #loop_order "`", file, file);
#include "templates.def"
}

static void print_targets(struct text *text) {
    text_print(text, "\nWhat one thread block may use on each target:\n\n"
                     "| target | shared memory | threads | compiled for |\n|---|---|---|---|\n");
    for (int i = 0; knob_table[KNOB_target].words[i]; i++)
        text_print(text, "| `%s` | %d bytes | %d | `%s` |\n", target_info(i)->name, target_info(i)->shared_bytes,
                   target_info(i)->threads, target_info(i)->arch);
}

static void print_sizes(struct text *text) {
    text_print(text,
               "\n## Test shapes\n\n"
               "Run-time sizes under `test: shapes:`. They are arguments of a launch and never part of a variant.\n\n"
               "| size | families | least | when left out | meaning |\n|---|---|---|---|---|\n");
    for (int id = 0; id < SHAPE_COUNT; id++) {
        const struct shape_info *size = &shape_table[id];
        if (size->families == SHAPE_OF_DEVICE)
            continue;
        text_print(text, "| `%s` |", size->name);
        for (int i = 0, n = 0; knob_table[KNOB_family].words[i]; i++)
            if (size->families & 1u << i)
                text_print(text, "%s `%s`", n++ ? "," : "", knob_table[KNOB_family].words[i]);
        text_print(text, " | %lld | ", (long long)size->least);
        if (size->fallback < 0)
            text_print(text, "required");
        else
            text_print(text, "%lld", (long long)size->fallback);
        text_print(text, " | %s |\n", size->about);
    }
}

static void print_inputs(struct text *text) {
    text_print(
        text,
        "\n## Test inputs\n\n"
        "NumPy files under `test: inputs:`, all tensors of the family or none; paths start at the spec's folder.\n\n"
        "| family | tensors |\n|---|---|\n");
    for (int family = 0; knob_table[KNOB_family].words[family]; family++) {
        text_print(text, "| `%s` |", knob_table[KNOB_family].words[family]);
        for (const char *const *name = spec_test_tensors(family); *name; name++)
            text_print(text, "%s `%s`", name == spec_test_tensors(family) ? "" : ",", *name);
        text_print(text, " |\n");
    }
}

static void print_limits(struct text *text) {
    text_print(
        text,
        "\n## Limits\n\n"
        "At most %d bytes, %d levels, %d YAML events, %d bytes in one value, %d keys in one map, %d test shapes.\n"
        "Integers are decimal digits and nothing else. Anchors, aliases, tags, directives, merge keys, repeated and\n"
        "unknown keys are errors.\n",
        YAML_BYTES, YAML_DEPTH, YAML_EVENTS, YAML_SCALAR, YAML_KEYS, SPEC_SHAPES);
}

void spec_reference(struct text *text) {
    print_intro(text);
    print_keys(text);
    print_knobs(KNOB_GROUP_TOP, text);
    print_targets(text);
    print_knobs(KNOB_GROUP_PROBLEM, text);
    print_knobs(KNOB_GROUP_SCHEDULE, text);
    print_algorithms(text);
    print_sizes(text);
    print_inputs(text);
    print_limits(text);
}
