#include "l2_flush.h"

enum { THREADS = 256, BLOCKS_OF_SM = 8 };

/* Each thread reads every gridDim * blockDim-th 16 bytes. The buffer is 0, so nothing is ever stored; without the store
   the loads would have no effect, and the compiler would remove them. */
static const char ptx[] = ".version 6.3\n"
                          ".target sm_75\n"
                          ".address_size 64\n"
                          ".visible .entry attile_read(.param .u64 buffer, .param .u64 bytes) {\n"
                          "    .reg .pred done, odd;\n"
                          "    .reg .b32 block, blocks, threads, thread, chunk, chunks, a, b, c, d, sum;\n"
                          "    .reg .b64 first, at, end, step;\n"
                          "    ld.param.u64 first, [buffer];\n"
                          "    ld.param.u64 end, [bytes];\n"
                          "    cvta.to.global.u64 first, first;\n"
                          "    add.u64 end, end, first;\n"
                          "    mov.u32 block, %ctaid.x;\n"
                          "    mov.u32 blocks, %nctaid.x;\n"
                          "    mov.u32 thread, %tid.x;\n"
                          "    mov.u32 threads, %ntid.x;\n"
                          "    mad.lo.u32 chunk, block, threads, thread;\n"
                          "    mul.lo.u32 chunks, blocks, threads;\n"
                          "    mad.wide.u32 at, chunk, 16, first;\n"
                          "    mul.wide.u32 step, chunks, 16;\n"
                          "    mov.u32 sum, 0;\n"
                          "next:\n"
                          "    setp.ge.u64 done, at, end;\n"
                          "    @done bra last;\n"
                          "    ld.global.v4.u32 {a, b, c, d}, [at];\n"
                          "    or.b32 sum, sum, a;\n"
                          "    or.b32 sum, sum, b;\n"
                          "    or.b32 sum, sum, c;\n"
                          "    or.b32 sum, sum, d;\n"
                          "    add.u64 at, at, step;\n"
                          "    bra next;\n"
                          "last:\n"
                          "    setp.ne.u32 odd, sum, 0;\n"
                          "    @odd st.global.u32 [first], sum;\n"
                          "    ret;\n"
                          "}\n";

static bool is_too_old(int error) {
    return error == CUDA_NO_BINARY_FOR_GPU || error == CUDA_INVALID_PTX || error == CUDA_UNSUPPORTED_PTX;
}

static int fill(const struct cuda_api *api, const struct l2_flush *flush, void *stream) {
    return api->fill(flush->buffer, 0, flush->bytes, stream);
}

static int start(const struct cuda_api *api, struct l2_flush *flush, int l2_bytes, void *stream) {
    int error = CUDA_OK;
    flush->bytes = l2_bytes > 0 ? 4 * (size_t)l2_bytes : (size_t)128 << 20;
    if (!flush->buffer)
        error = api->alloc(&flush->buffer, flush->bytes);
    if (error == CUDA_OK)
        error = fill(api, flush, stream);
    if (error != CUDA_OK)
        return error;
    error = api->module_load(&flush->module, ptx);
    flush->writes = is_too_old(error);
    if (error != CUDA_OK)
        return flush->writes ? CUDA_OK : error;
    error = api->module_function(&flush->function, flush->module, "attile_read");
    if (error != CUDA_OK) {
        api->module_unload(flush->module);
        flush->module = NULL;
    }
    return error;
}

int l2_flush(const struct cuda_api *api, struct l2_flush *flush, int l2_bytes, int multiprocessors, void *stream) {
    if (flush->writes)
        return fill(api, flush, stream);
    int error = flush->function ? CUDA_OK : start(api, flush, l2_bytes, stream);
    if (error != CUDA_OK || flush->writes)
        return error;
    uint64_t bytes = flush->bytes;
    void *params[] = {&flush->buffer, &bytes};
    const struct cuda_launch launch = {
        .grid = {BLOCKS_OF_SM * (unsigned)multiprocessors, 1, 1}, .block = {THREADS, 1, 1}, .stream = stream};
    return api->launch(&launch, flush->function, params, NULL);
}

void l2_flush_free(const struct cuda_api *api, struct l2_flush *flush) {
    if (flush->function)
        api->module_unload(flush->module);
    if (flush->buffer)
        api->free(flush->buffer);
    *flush = (struct l2_flush){0};
}
