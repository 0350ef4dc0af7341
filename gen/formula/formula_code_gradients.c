/* formula_code_gradients: gradients of the values that a score reads, as lines of CUDA for
   templates/backward/d_params.cuh. */
#include "formula_code.h"

#include <inttypes.h>
#include <string.h>

void formula_code_gradients(const struct formula_set *set, struct text *text) {
    for (int i = 0; i < set->scope.count; i++) {
        const struct formula_param *param = &set->scope.param[i];
        if (!(set->wants.params >> i & 1))
            continue;
        text_print(text, "__device__ __forceinline__ float *d_%s(const attention_backward_params &params", param->name);
        for (int d = 0; d < param->dims; d++)
            text_print(text, ", int i%d", d);
        text_print(text, ") {\n    return params.d_param[%d].data", i);
        for (int d = 0; d < param->dims; d++)
            text_print(text, " + i%d * params.d_param[%d].stride[%d]", d, i, d);
        text_print(text, ";\n}\n");
    }
}

void formula_code_cleared(const struct formula_set *set, struct text *text) {
    for (int i = 0; i < set->scope.count; i++)
        if (set->wants.params >> i & 1)
            text_print(text, "    clear_gradient(params.d_param[%d]); // %s\n", i, set->scope.param[i].name);
}

void formula_code_elements(const struct formula_set *set, struct text *text) {
    for (int i = 0; i < set->scope.count; i++)
        if (set->wants.params >> i & 1)
            text_print(text, "    return params.d_param[%d]; // %s\n", i, set->scope.param[i].name);
}

/* Prints "d_values(params, at.h, k)". */
static void print_place(const struct formula_set *set, const struct formula_read *read, struct text *text) {
    struct formula_spelling spelling = formula_code_spelling(set);
    spelling.indent = 0;
    text_print(text, "d_%s(params", set->scope.param[read->param].name);
    for (int d = 0; d < read->indices; d++) {
        text_print(text, ", ");
        formula_print_cuda(read->index[d], &spelling, text);
    }
    text_print(text, ")");
}

/* True if it is more than a name, a number or a call. */
static bool is_compound(const char *code) {
    int depth = 0;
    for (; *code && (depth > 0 || *code != ' '); code++)
        depth += *code == '(' ? 1 : *code == ')' ? -1 : 0;
    return *code;
}

void formula_code_element(const struct formula_set *set, struct text *text) {
    if (set->reads.count == 0)
        return;
    text_print(text, "    return ");
    print_place(set, &set->reads.read[0], text);
    text_print(text, ";\n");
}

/* Prints "d_score", or "d_score == 0 ? 0 : d_score * (k - q)": a slope may be infinite. */
static void print_share(const struct formula_set *set, const struct formula_read *read, struct text *text) {
    struct formula_spelling spelling = formula_code_spelling(set);
    struct text slope = {0};
    spelling.indent = 0;
    formula_print_cuda(read->slope, &spelling, &slope);
    bool one = strcmp(text_string(&slope), "1.0f") == 0, compound = is_compound(text_string(&slope));
    text_print(text,
               one        ? "d_score"
               : compound ? "d_score == 0 ? 0 : d_score * (%s)"
                          : "d_score == 0 ? 0 : d_score * %s",
               text_string(&slope));
    text->failed |= slope.failed;
    text_free(&slope);
}

void formula_code_head_reads(const struct formula_set *set, struct text *text) {
    for (int i = 0, number = 0; i < set->reads.count; i++) {
        if (!set->reads.read[i].of_head)
            continue;
        text_print(text, "    sum[%d] += ", number++);
        print_share(set, &set->reads.read[i], text);
        text_print(text, "; // %s\n", set->scope.param[set->reads.read[i].param].name);
    }
}

void formula_code_head_places(const struct formula_set *set, struct text *text) {
    int left = 0, number = 0;
    for (int i = 0; i < set->reads.count; i++)
        left += set->reads.read[i].of_head;
    for (int i = 0; i < set->reads.count; i++) {
        if (!set->reads.read[i].of_head)
            continue;
        if (--left > 0)
            text_print(text, "    if (read == %d)\n    ", number++);
        text_print(text, "    return ");
        print_place(set, &set->reads.read[i], text);
        text_print(text, ";\n");
    }
}

void formula_code_pair_reads(const struct formula_set *set, struct text *text) {
    for (int i = 0; i < set->reads.count; i++) {
        if (set->reads.read[i].of_head)
            continue;
        text_print(text, "    atomicAdd(");
        print_place(set, &set->reads.read[i], text);
        text_print(text, ", ");
        print_share(set, &set->reads.read[i], text);
        text_print(text, ");\n");
    }
}

/* True if the address grows by the same number of elements from each query to the next. */
static bool place_steps(const struct formula_read *read, int64_t step[FORMULA_DIMS]) {
    bool steps = true;
    for (int d = 0; d < read->indices; d++)
        steps &= formula_steps_by_query(read->index[d], &step[d]);
    return steps;
}

/* Prints "step_0 = params.d_param[0].stride[1]". */
static void print_step(int number, const struct formula_read *read, const int64_t step[FORMULA_DIMS],
                       struct text *text) {
    const char *join = "";
    text_print(text, "    const long long step_%d = ", number);
    for (int d = 0; d < read->indices; d++) {
        if (step[d] == 0)
            continue;
        text_print(text, "%s", join);
        if (step[d] != 1)
            text_print(text, "%" PRId64 " * ", step[d]);
        text_print(text, "params.d_param[%d].stride[%d]", read->param, d);
        join = " + ";
    }
    text_print(text, "%s;\n", *join ? "" : "0");
}

void formula_code_query_reads(const struct formula_set *set, struct text *text) {
    int64_t step[FORMULA_DIMS];
    for (int i = 0; i < set->reads.count; i++) {
        const struct formula_read *read = &set->reads.read[i];
        if (read->of_head || !place_steps(read, step))
            continue;
        text_print(text, "    float *const to_%d = ", i);
        print_place(set, read, text);
        text_print(text, ";\n");
        print_step(i, read, step, text);
    }
    text_print(
        text,
        "#pragma unroll\n    for (int n = 0; n < COUNT; n++, q++) {\n        const float d_score = d_scores[n];\n");
    for (int i = 0; i < set->reads.count; i++) {
        const struct formula_read *read = &set->reads.read[i];
        if (read->of_head)
            continue;
        text_print(text, "        atomicAdd(");
        if (place_steps(read, step))
            text_print(text, "to_%d + n * step_%d", i, i);
        else
            print_place(set, read, text);
        text_print(text, ", ");
        print_share(set, read, text);
        text_print(text, ");\n");
    }
    text_print(text, "    }\n");
}

void formula_code_element_step(const struct formula_set *set, struct text *text) {
    const struct formula_read *read = &set->reads.read[0];
    int64_t step = 0;
    for (int d = 0; set->reads.count > 0 && d < read->indices; d++)
        if (formula_steps_by_query(read->index[d], &step) && step == 1)
            text_print(text, "    return params.d_param[%d].stride[%d];\n", read->param, d);
}
