/* Tensors of more than 2^31 elements: kernels find the last row of the last head of the last batch. The memory is
   reserved, not used: nothing is ever touched between the rows. The Hopper kernel is not tested here: the host device's
   TMA needs whole buffers, and its offsets are the hardware's own. */
#include "attile.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

enum { B = 2, H = 2, L = 3, D = 16, ROWS = B * H * L, TENSORS = 5, WORKSPACE = 1 << 20 };

static const int64_t room = (int64_t)1 << 35; /* bytes for one tensor */

static const char *const schedules[] = {"algorithm=materialized", "algorithm=multi_pass", "algorithm=flash",
                                        "algorithm=flash_tiled", "algorithm=flash_tiled loop_order=kv_outer"};

/* Batch, head and row strides. One of them, or the offset that they add up to, is beyond 32 bits. */
static const int64_t strides[][3] = {
    {H * L * D, L *D, D}, /* small, for comparison */
    {((int64_t)1 << 31) + 8, L *D, D},
    {L * D, ((int64_t)1 << 31) + 8, D},
    {3 * D, D, ((int64_t)1 << 30) + 8},
    {((int64_t)1 << 32) + 64, ((int64_t)1 << 31) + 64, D},
};

static unsigned short *row_of(char *tensor, const int64_t stride[3], int row) {
    int64_t offset = row / (H * L) * stride[0] + row / L % H * stride[1] + row % L * stride[2];
    return (unsigned short *)(void *)tensor + offset;
}

static void fill(char *tensor, const int64_t stride[3], int which) {
    for (int row = 0; row < ROWS; row++)
        for (int d = 0; d < D; d++) /* bf16 between 0.5 and 1, different in each row */
            row_of(tensor, stride, row)[d] = (unsigned short)(0x3f00 + (row * 7 + d * 3 + which * 5) % 128);
}

struct result {
    unsigned short o[ROWS][D];
    float lse[ROWS];
};

static struct result run(att_session *session, att_kernel *kernel, char *memory, const int64_t stride[3]) {
    struct result result;
    struct att_tensor tensor[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        tensor[i] = (struct att_tensor){memory + i * room, stride[0], stride[1], stride[2]};
        fill(memory + i * room, stride, i);
    }
    float *lse = tensor[4].data; /* contiguous along the queries */
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {tensor[0], tensor[1], tensor[2], tensor[3], lse,
                                          .lse_batch_stride = stride[0], .lse_head_stride = stride[1], .batch = B,
                                          .heads = H, .len_q = L, .len_kv = L},
                            .workspace = memory + TENSORS * room,
                            .workspace_size = WORKSPACE};
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    for (int row = 0; row < ROWS; row++) {
        memcpy(result.o[row], row_of(memory + 3 * room, stride, row), sizeof result.o[row]);
        result.lse[row] = lse[row / (H * L) * stride[0] + row / L % H * stride[1] + row % L];
    }
    return result;
}

Test(large, kernels_address_tensors_beyond_2_31_elements) {
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .host_mode = ATT_HOST_FAST};
    att_session *session;
    size_t size = (size_t)(TENSORS * room + WORKSPACE);
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        cr_skip_test("this machine reserves no %zu bytes", size);
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    for (size_t k = 0; k < sizeof schedules / sizeof *schedules; k++) {
        att_kernel *kernel;
        cr_assert_eq(
            att_find(session, "family=attention_forward dtype=bf16 head_dim=16 mask=causal", schedules[k], &kernel),
            ATT_OK, "%s", att_message(session));
        struct result expected = run(session, kernel, memory, strides[0]);
        cr_assert(expected.lse[ROWS - 1] > 1 && expected.o[ROWS - 1][0] != expected.o[ROWS - 2][0]);
        for (size_t s = 1; s < sizeof strides / sizeof *strides; s++) {
            struct result result = run(session, kernel, memory, strides[s]);
            cr_expect_arr_eq(&result, &expected, sizeof result, "%s, strides %zu", schedules[k], s);
        }
    }
    att_close(session);
    munmap(memory, size);
}
