/* Merging is associative, takes any number of parts in any order, and a part that saw no key changes nothing. So
   attention over keys in random chunks, or appended one by one, equals attention over all of them. */
#include "helper_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 5, KEYS = 41, DIM = 12, DIM_V = 20, PARTS = 12 };

static float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM_V];

/* Attention of all rows over some of the keys, with bounds on its error. */
struct partial {
    float o[ROWS * DIM_V], lse[ROWS];
    double o_slack[ROWS * DIM_V], lse_slack[ROWS];
};

/* Partial results side by side, as the kernel expects them. */
struct stack {
    int64_t parts;
    float o[PARTS * ROWS * DIM_V], lse[PARTS * ROWS];
    double o_slack[PARTS * ROWS * DIM_V], lse_slack[PARTS * ROWS];
};

struct kernels {
    att_session *session;
    att_kernel *attend, *merge;
};

static struct kernels open_kernels(void) {
    unsigned seed = 8;
    run_fill(q, ROWS * DIM, TOLERANCE_FP32, &seed);
    run_fill(k, KEYS * DIM, TOLERANCE_FP32, &seed);
    run_fill(v, KEYS * DIM_V, TOLERANCE_FP32, &seed);
    struct kernels kernels = {.session = run_open()};
    kernels.attend =
        run_find(kernels.session, "family=attention_forward dtype=fp32 head_dim=12 head_dim_v=20", "algorithm=flash");
    kernels.merge = run_find(kernels.session, "family=merge dtype=fp32 head_dim_v=20", NULL);
    return kernels;
}

static unsigned pick(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static struct oracle_attention chunk(int first, int count) {
    return (struct oracle_attention){q,   k + first * DIM, v + first * DIM_V, 1, 1, 1, ROWS, count, DIM, DIM_V,
                                     0.5, .causal = false};
}

static void attend(const struct kernels *kernels, int first, int count, struct partial *part) {
    struct oracle_attention p = chunk(first, count);
    double o[ROWS * DIM_V], lse[ROWS];
    run_attention(kernels->session, kernels->attend, TOLERANCE_FP32, TOLERANCE_FP32, &p, part->o, part->lse, NULL);
    cr_assert(oracle_attention(&p, o, lse));
    cr_assert(tolerance_attention(&p, TOLERANCE_FP32, TOLERANCE_FP32, o, lse, part->o_slack, part->lse_slack));
}

static void push(struct stack *stack, const struct partial *part) {
    int64_t at = stack->parts++;
    memcpy(stack->o + at * ROWS * DIM_V, part->o, sizeof part->o);
    memcpy(stack->lse + at * ROWS, part->lse, sizeof part->lse);
    memcpy(stack->o_slack + at * ROWS * DIM_V, part->o_slack, sizeof part->o_slack);
    memcpy(stack->lse_slack + at * ROWS, part->lse_slack, sizeof part->lse_slack);
}

/* Pushes a part that saw no key. It is neutral, so the contents of its output must not matter. */
static void push_neutral(struct stack *stack, float output) {
    struct partial part = {0};
    for (int i = 0; i < ROWS * DIM_V; i++)
        part.o[i] = output;
    for (int r = 0; r < ROWS; r++)
        part.lse[r] = -INFINITY;
    push(stack, &part);
}

/* Merges with the kernel. The errors of the parts propagate to first order: o changes by weight * (o's own error, and
   (o_part - o) times the error of lse), lse by weight * the error of lse. */
static void merge(const struct kernels *kernels, const struct stack *stack, struct partial *out) {
    double o[ROWS * DIM_V], lse[ROWS];
    run_merge(kernels->session, kernels->merge, TOLERANCE_FP32, TOLERANCE_FP32, stack->o, stack->lse, stack->parts,
              ROWS, DIM_V, out->o, out->lse);
    oracle_merge(stack->o, stack->lse, stack->parts, ROWS, DIM_V, o, lse);
    cr_assert(tolerance_merge(stack->o, stack->lse, stack->parts, ROWS, DIM_V, TOLERANCE_FP32, o, lse, out->o_slack,
                              out->lse_slack));
    for (int64_t i = 0; i < stack->parts * ROWS; i++) {
        int64_t row = i % ROWS;
        double weight = exp((double)stack->lse[i] - lse[row]);
        if (!(weight > 0))
            continue;
        out->lse_slack[row] += weight * stack->lse_slack[i];
        for (int d = 0; d < DIM_V; d++)
            out->o_slack[row * DIM_V + d] +=
                weight * (stack->o_slack[i * DIM_V + d] +
                          fabs((double)stack->o[i * DIM_V + d] - o[row * DIM_V + d]) * stack->lse_slack[i]);
    }
}

static void assert_is_attention_over(int keys, const struct partial *found) {
    struct oracle_attention p = chunk(0, keys);
    double o[ROWS * DIM_V], lse[ROWS];
    cr_assert(oracle_attention(&p, o, lse));
    for (int i = 0; i < ROWS * DIM_V; i++) {
        cr_assert(tolerance_accepts(TOLERANCE_FP32, o[i], (double)found->o[i], found->o_slack[i]),
                  "%d keys: o[%d] is %.9g, not %.9g within %.2g", keys, i, (double)found->o[i], o[i],
                  found->o_slack[i]);
        cr_assert_lt(found->o_slack[i], 1e-3);
    }
    for (int r = 0; r < ROWS; r++)
        cr_assert(tolerance_accepts(TOLERANCE_FP32, lse[r], (double)found->lse[r], found->lse_slack[r]),
                  "%d keys: lse[%d] is %.9g, not %.9g", keys, r, (double)found->lse[r], lse[r]);
}

Test(merge, random_chunks_in_random_order_give_the_whole) {
    struct kernels kernels = open_kernels();
    for (unsigned seed = 1; seed <= 20; seed++) {
        unsigned dice = seed;
        struct partial parts[PARTS];
        int count = 0, first = 0;
        while (first < KEYS && count < PARTS - 3) {
            int size = count == PARTS - 4 ? KEYS - first : 1 + (int)pick(&dice, 12);
            size = size < KEYS - first ? size : KEYS - first;
            attend(&kernels, first, size, &parts[count++]);
            first += size;
        }
        attend(&kernels, 0, 0,
               &parts[count++]); /* a chunk of no keys: what the attention kernel makes of it is neutral */
        for (int i = count - 1; i > 0; i--) {
            int j = (int)pick(&dice, (unsigned)i + 1);
            struct partial swap = parts[i];
            parts[i] = parts[j];
            parts[j] = swap;
        }
        struct stack stack = {0};
        push_neutral(&stack, NAN);
        for (int i = 0; i < count; i++)
            push(&stack, &parts[i]);
        push_neutral(&stack, INFINITY);
        struct partial whole;
        merge(&kernels, &stack, &whole);
        assert_is_attention_over(KEYS, &whole);
    }
    att_close(kernels.session);
}

Test(merge, keys_appended_one_by_one_give_the_whole) {
    struct kernels kernels = open_kernels();
    struct stack nothing = {0};
    struct partial so_far;
    push_neutral(&nothing, NAN);
    merge(&kernels, &nothing, &so_far);
    for (int key = 0; key < KEYS; key++) {
        struct partial one, next;
        struct stack both = {0};
        attend(&kernels, key, 1, &one);
        push(&both, &so_far);
        push(&both, &one);
        merge(&kernels, &both, &next);
        so_far = next;
        assert_is_attention_over(key + 1, &so_far);
    }
    att_close(kernels.session);
}

Test(merge, grouping_does_not_matter) {
    struct kernels kernels = open_kernels();
    struct partial a, b, c, ab, bc, left, right;
    attend(&kernels, 0, 7, &a);
    attend(&kernels, 7, 20, &b);
    attend(&kernels, 27, KEYS - 27, &c);
    struct stack s = {0};
    push(&s, &a);
    push(&s, &b);
    merge(&kernels, &s, &ab);
    s.parts = 0;
    push(&s, &b);
    push(&s, &c);
    merge(&kernels, &s, &bc);
    s.parts = 0;
    push(&s, &ab);
    push(&s, &c);
    merge(&kernels, &s, &left);
    s.parts = 0;
    push(&s, &a);
    push(&s, &bc);
    merge(&kernels, &s, &right);
    assert_is_attention_over(KEYS, &left);
    assert_is_attention_over(KEYS, &right);
    att_close(kernels.session);
}

Test(merge, one_part_comes_back_and_none_is_nothing) {
    struct kernels kernels = open_kernels();
    struct partial part, out;
    struct stack s = {0};
    attend(&kernels, 0, KEYS, &part);
    push(&s, &part);
    push_neutral(&s, NAN);
    merge(&kernels, &s, &out);
    cr_assert(!memcmp(part.o, out.o, sizeof out.o), "a neutral part changed the bits of the other");
    cr_assert(!memcmp(part.lse, out.lse, sizeof out.lse));
    for (int parts = 0; parts <= 2; parts += 2) { /* no part, or two that saw nothing */
        s.parts = 0;
        for (int i = 0; i < parts; i++)
            push_neutral(&s, NAN);
        merge(&kernels, &s, &out);
        for (int i = 0; i < ROWS * DIM_V; i++)
            cr_assert_eq(out.o[i], 0);
        for (int r = 0; r < ROWS; r++)
            cr_assert_eq(out.lse[r], -INFINITY);
    }
    att_close(kernels.session);
}

Test(merge, agrees_with_the_oracle_in_every_type) {
    enum { N = 3, R = 6, D = 33 };
    static const char *const types[] = {"fp32", "fp16", "bf16"};
    att_session *session = run_open();
    for (int type = TOLERANCE_FP32; type <= TOLERANCE_BF16; type++) {
        float parts[N * R * D], lse_parts[N * R], o[R * D], lse[R];
        double right[R * D], right_lse[R], slack[R * D], slack_lse[R];
        unsigned seed = 21;
        char problem[96];
        snprintf(problem, sizeof problem, "family=merge dtype=%s dtype_out=%s head_dim_v=%d", types[type],
                 types[(type + 1) % 3], D);
        run_fill(parts, N * R * D, (enum tolerance_type)type, &seed);
        run_fill(lse_parts, N * R, TOLERANCE_FP32, &seed);
        lse_parts[1] = NAN;           /* row 1: spreads to the whole row */
        lse_parts[R + 2] = INFINITY;  /* row 2: outweighs everything by a factor that is NaN */
        lse_parts[R + 3] = -INFINITY; /* row 3: one part saw nothing */
        parts[(R + 3) * D] = NAN;     /* and its contents do not matter */
        parts[(2 * R + 4) * D] = NAN; /* row 4: a NaN with weight stays in its column */
        att_kernel *kernel = run_find(session, problem, NULL);
        enum tolerance_type output = (enum tolerance_type)((type + 1) % 3);
        run_merge(session, kernel, (enum tolerance_type)type, output, parts, lse_parts, N, R, D, o, lse);
        oracle_merge(parts, lse_parts, N, R, D, right, right_lse);
        cr_assert(tolerance_merge(parts, lse_parts, N, R, D, output, right, right_lse, slack, slack_lse));
        for (int i = 0; i < R * D; i++)
            cr_assert(tolerance_accepts(output, right[i], (double)o[i], slack[i]), "%s: o[%d][%d] is %.9g, not %.9g",
                      problem, i / D, i % D, (double)o[i], right[i]);
        for (int r = 0; r < R; r++)
            cr_assert(tolerance_accepts(TOLERANCE_FP32, right_lse[r], (double)lse[r], slack_lse[r]),
                      "%s: lse[%d] is %.9g, not %.9g", problem, r, (double)lse[r], right_lse[r]);
    }
    att_close(session);
}
