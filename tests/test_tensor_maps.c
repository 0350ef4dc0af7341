/* Kernels that copy in boxes require more of their arguments than others, and say so. */
#include "attile.h"
#include "tensor_maps.h"

#include <criterion/criterion.h>
#include <string.h>

enum { B = 2, H = 4, KV = 2, LQ = 9, LK = 13, D = 40 };
#define PROBLEM  "family=attention_forward dtype=bf16 head_dim=40 target=sm_90a"
#define SCHEDULE "algorithm=flash_async block_m=64 block_n=16"

static att_session *session;
static att_kernel *kernel;
static char *memory; /* zeros */

static struct att_attention_args good(void) {
    return (struct att_attention_args){.q = {memory + 40000, H * LQ * D, LQ * D, D},
                                       .k = {memory + 20000, KV * LK * D, LK * D, D},
                                       .v = {memory + 20000, KV * LK * D, LK * D, D},
                                       .o = {memory, H * LQ * D, LQ * D, D},
                                       .batch = B,
                                       .heads = H,
                                       .kv_heads = KV,
                                       .len_q = LQ,
                                       .len_kv = LK};
}

static void open_all(void) {
    static const char zeros[64000];
    struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1};
    cr_assert_eq(att_open(&options, &session), ATT_OK);
    cr_assert_eq(att_find(session, PROBLEM, SCHEDULE, &kernel), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_alloc(session, sizeof zeros, (void **)&memory), ATT_OK);
    cr_assert_eq(att_copy_in(session, memory, zeros, sizeof zeros), ATT_OK);
}

static void close_all(void) {
    cr_expect_eq(att_free(session, memory), ATT_OK, "%s", att_message(session));
    att_close(session);
}

static void check(const char *name, const struct att_attention_args *attention, const char *const words[3]) {
    struct att_args args = {.size = sizeof args, .family = ATT_ATTENTION_FORWARD, .attention = *attention};
    enum att_status status = att_launch(kernel, &args, NULL);
    cr_expect_eq(status, words[0] ? ATT_INVALID_ARGUMENT : ATT_OK, "%s: %s", name, att_message(session));
    for (int i = 0; i < 3 && words[i]; i++)
        cr_expect(strstr(att_message(session), words[i]), "%s: expected \"%s\" in: %s", name, words[i],
                  att_message(session));
}
#define EXPECT(name, args, ...) check(name, &(args), (const char *const[3]){__VA_ARGS__})

Test(tensor_maps, addresses_strides_and_scale_are_checked, .init = open_all, .fini = close_all) {
    struct att_attention_args args = good();
    EXPECT("good", args, NULL);
    args.q.data = memory + 40008;
    EXPECT("q address", args, "q: address", "not aligned to 16 bytes", "alignment=1 in a problem");
    args = good();
    args.k.row_stride = D + 4;
    EXPECT("k row stride", args, "k: row_stride is 44 elements of 2 bytes", "multiple of 16 bytes");
    args = good();
    args.v.head_stride = LK * D + 1;
    EXPECT("v head stride", args, "v: head_stride is 521", "multiple of 16 bytes");
    args = good();
    args.o.batch_stride += 4;
    EXPECT("o batch stride", args, "o: batch_stride");
    args = good();
    args.k.batch_stride = 0; /* one K for the whole batch */
    EXPECT("broadcast", args, NULL);
    args = good();
    args.scale = -1;
    EXPECT("negative scale", args, NULL);
}

Test(tensor_maps, what_is_not_used_may_be_anything, .init = open_all, .fini = close_all) {
    struct att_attention_args args = good();
    args.batch = args.heads = args.kv_heads = 1;
    args.q.batch_stride = args.k.head_stride = 3; /* strides of dimensions with one element */
    EXPECT("strides of one element", args, NULL);
    args = good();
    args.len_kv = 0;
    args.k.data = args.v.data = NULL;
    EXPECT("no keys, null", args, NULL);
    args.k.data = memory + 1;
    args.k.row_stride = 1;
    EXPECT("no keys, misaligned", args, NULL);
    args = good();
    args.len_q = 0;
    args.q.data = args.o.data = NULL;
    EXPECT("no queries", args, NULL);
}

Test(tensor_maps, a_stride_of_a_terabyte_is_too_long, .init = open_all, .fini = close_all) {
    struct att_attention_args args = good();
    args.k.batch_stride = (int64_t)1 << 39;
    EXPECT("stride", args, "k: batch_stride is 549755813888 elements of 2 bytes, expected less than 2^40 bytes");
}

/* What the kernel sees: maps in the plan's order, directly followed by the other parameters. */
Test(tensor_maps, maps_are_in_the_order_of_the_plan, .init = open_all, .fini = close_all) {
    static const struct backend_type *const type = &backend_host;
    static const struct plan plan = {.maps = 2,
                                     .map = {{.name = "o", .tensor = PLAN_O, .rows = 64, .cols = 64},
                                             {.name = "k", .tensor = PLAN_K, .rows = 16, .cols = 64}}},
                             swapped = {.maps = 2,
                                        .map = {{.name = "k", .tensor = PLAN_K, .rows = 16, .cols = 64},
                                                {.name = "o", .tensor = PLAN_O, .rows = 64, .cols = 64}}};
    struct knobs knobs = knobs_default();
    struct att_args args = {.size = sizeof args, .family = ATT_ATTENTION_FORWARD, .attention = good()};
    struct arguments arguments;
    struct mapped_params params, other;
    struct failure failure = {0};
    knobs.family = family_attention_forward;
    knobs.dtype = dtype_bf16;
    knobs.dtype_out = dtype_out_bf16;
    knobs.head_dim = knobs.head_dim_v = D;
    cr_assert_eq(arguments_read(&knobs, &args, &arguments, &failure), ATT_OK, "%s", text_string(&failure.text));
    cr_assert_eq(tensor_maps_fill(type, NULL, &plan, &knobs, &arguments, &params, &failure), ATT_OK);
    cr_assert_eq(tensor_maps_fill(type, NULL, &swapped, &knobs, &arguments, &other, &failure), ATT_OK);
    const struct tensor_map *map = mapped_params_begin(&params, &plan), *with = mapped_params_begin(&other, &swapped);
    cr_expect_arr_eq(&map[0], &with[1], sizeof *map);
    cr_expect_arr_eq(&map[1], &with[0], sizeof *map);
    cr_expect_arr_neq(&map[0], &map[1], sizeof *map);
    cr_expect_eq((const void *)(map + 2), (const void *)&params.attention);
    cr_expect_eq(params.attention.o, args.attention.o.data);
    cr_expect_eq(params.attention.len_kv, LK);
}

static int encoded;
static enum att_status count_encode(struct backend *backend, const struct map_request *request, void *map,
                                    struct failure *failure) {
    encoded++;
    return backend_host.encode_map(backend, request, map, failure);
}

/* A map is made once for a tensor, and again when anything about the tensor differs. */
Test(tensor_maps, are_kept_for_the_same_tensors_only, .init = open_all, .fini = close_all) {
    static const struct plan plan = {.maps = 1, .map = {{.tensor = PLAN_Q, .rows = 64, .cols = 64}}},
                             other_box = {.maps = 1, .map = {{.tensor = PLAN_Q, .rows = 32, .cols = 64}}};
    struct backend_type type = backend_host;
    struct knobs knobs = knobs_default();
    struct att_args args = {.size = sizeof args, .family = ATT_ATTENTION_FORWARD, .attention = good()};
    struct arguments arguments;
    struct mapped_params params, first;
    struct failure failure = {0};
    type.encode_map = count_encode;
    knobs.family = family_attention_forward;
    knobs.dtype = dtype_bf16;
    knobs.dtype_out = dtype_out_bf16;
    knobs.head_dim = knobs.head_dim_v = D;
    struct att_args changed[8];
    for (int i = 0; i < 8; i++)
        changed[i] = args;
    changed[1].attention.q.data = memory + 40016;
    changed[2].attention.q.row_stride += 8;
    changed[3].attention.q.batch_stride = 0;
    changed[4].attention.len_q--;
    changed[5].attention.batch--;
    changed[6].attention.k.data = memory + 20016; /* not q */
    changed[7].attention.q.head_stride -= 8;
    static const int expected[8] = {0, 1, 1, 1, 1, 1, 0, 1};
    struct backend *const backend = (struct backend *)&type; /* never looked into */
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(arguments_read(&knobs, &args, &arguments, &failure), ATT_OK);
        cr_assert_eq(tensor_maps_fill(&type, backend, &plan, &knobs, &arguments, &first, &failure), ATT_OK);
        encoded = 0;
        cr_assert_eq(arguments_read(&knobs, &changed[i], &arguments, &failure), ATT_OK, "%d: %s", i,
                     text_string(&failure.text));
        cr_assert_eq(tensor_maps_fill(&type, backend, &plan, &knobs, &arguments, &params, &failure), ATT_OK);
        cr_expect_eq(encoded, expected[i], "change %d: made %d times", i, encoded);
        cr_expect_eq(memcmp(&first.map[PLAN_MAPS - 1], &params.map[PLAN_MAPS - 1], sizeof *first.map) == 0,
                     !expected[i], "change %d", i);
    }
    cr_assert_eq(tensor_maps_fill(&type, backend, &other_box, &knobs, &arguments, &params, &failure), ATT_OK);
    cr_expect_eq(encoded, 2, "another box");
}
