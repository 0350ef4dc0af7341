/* From a chosen variant to a loaded kernel: from a bundle, otherwise source -> cache or compiler -> device. */
#include "bundle.h"
#include "clock.h"
#include "origin.h"
#include "plan_text.h"
#include "session.h"
#include "toolchain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_FORMAT "attile kernel 2" /* of key and metadata */

enum { FILE_NAME = VARIANT_NAME + 4 };

/* The state of one attempt to make a kernel, until all of it has succeeded. */
struct build {
    att_session *session;
    const struct variant *variant;
    struct source source;
    struct text toolchain; /* the identity of its compiler, as far as known */
    const char *entries[PLAN_LAUNCHES];
    char file[FILE_NAME]; /* file name that the compiler uses for the source */
    double compile_seconds;
    bool known; /* only if no compiler is needed */
};

/* --- metadata: stored in the cache beside the binary, as "name: value" lines -------------------------------------- */

static void write_meta(const struct build *build, const struct binary *binary, struct text *meta) {
    text_print(meta,
               "name: %s\ndevice: %s\narch: %s\nrefused: %d\nregisters: %d\nspill_bytes: %d\ninstructions: %d\n"
               "compile_microseconds: %.0f\n",
               build->variant->name, build->session->type->name, build->session->info.arch, binary->refused,
               binary->registers, binary->spill_bytes, binary->instructions, fmin(build->compile_seconds, 1000) * 1e6);
}

/* Returns -1 if the value is missing: the cache has checked that the entry is whole, so another version wrote it. */
static int read_meta(const struct cache_entry *entry, const char *name) {
    const char *at = entry->meta, *end = at + entry->meta_size;
    size_t length = strlen(name);
    while (at && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char line[64];
        if (!stop)
            break;
        if ((size_t)(stop - at) > length + 2 && (size_t)(stop - at) < sizeof line && memcmp(at, name, length) == 0 &&
            at[length] == ':') {
            memcpy(line, at, (size_t)(stop - at));
            line[stop - at] = '\0';
            return atoi(line + length + 1);
        }
        at = stop + 1;
    }
    return -1;
}

/* --- compiling ------------------------------------------------------------------------------------------------- */

static enum att_status make_key(struct build *build, struct cache_key *key, struct failure *failure) {
    att_session *session = build->session;
    struct text plan = {0};
    text_free(&build->toolchain);
    enum att_status status = toolchain_identity(session, &build->toolchain, failure);
    if (status == ATT_OK) {
        plan_write(&build->source.plan, &plan);
        const struct {
            const char *name, *value;
        } fields[] = {{"format", KERNEL_FORMAT},       {"generator", GEN_VERSION},
                      {"device", session->type->name}, {"toolchain", text_string(&build->toolchain)},
                      {"plan", text_string(&plan)},    {"source", text_string(&build->source.text)}};
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            cache_key_add(key, fields[i].name, fields[i].value, strlen(fields[i].value));
        cache_key_finish(key);
        if (build->toolchain.failed || plan.failed || key->preimage.failed)
            status = failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for a cache key");
    }
    text_free(&plan);
    return status;
}

/* A refusal is cached in place of the binary, so that it is not compiled again. */
static bool keep_refusal(struct binary *binary, struct failure *failure) {
    binary->size = failure->text.size;
    binary->bytes = strdup(text_string(&failure->text));
    if (binary->bytes)
        failure_clear(failure);
    return binary->bytes;
}

static enum att_status compile(void *context, struct cache_entry *entry, struct failure *failure) {
    struct build *build = context;
    const struct compile_job job = {.source = text_string(&build->source.text),
                                    .name = build->file,
                                    .entries = build->entries,
                                    .entry_count = build->source.plan.launches};
    struct binary binary = {0};
    struct text meta = {0};
    if (toolchain_changed(build->session, &build->toolchain))
        return failure_set(failure, ATT_INTERNAL, "the compiler is not the one that was remembered");
    double start = clock_seconds();
    enum att_status status = build->session->type->compile(build->session->backend, &job, &binary, failure);
    build->compile_seconds = clock_seconds() - start;
    if (status != ATT_OK) {
        struct text origins = {0};
        origin_explain(&build->source, build->file, text_string(&failure->text), &origins);
        failure_add(failure, "%s", text_string(&origins));
        text_free(&origins);
        if (!binary.refused || !keep_refusal(&binary, failure))
            return status;
    }
    session_log(build->session, ATT_LOG_INFO, "compiled %s in %.3f s", build->file, build->compile_seconds);
    if (binary.log.size)
        session_log(build->session, ATT_LOG_DEBUG, "%s", text_string(&binary.log));
    write_meta(build, &binary, &meta);
    *entry = (struct cache_entry){binary.bytes, binary.size, meta.bytes, meta.size};
    binary.bytes = NULL; /* both now belong to the entry */
    binary_free(&binary);
    if (!meta.failed)
        return ATT_OK;
    cache_entry_free(entry);
    return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while compiling %s", build->file);
}

/* Gets the entry from the cache, otherwise compiles; a cached refusal becomes the original failure again. */
static enum att_status get_entry(struct build *build, struct cache_key *key, struct cache_entry *entry, int *hit,
                                 struct failure *failure) {
    *hit = 1;
    if (build->known && !cache_look(build->session->cache, key, entry))
        return failure_set(failure, ATT_NOT_PREPARED, "%s is not compiled yet", build->file);
    enum att_status status = ATT_OK;
    if (!build->known)
        status = cache_get(build->session->cache, key, compile, build, entry, hit, failure);
    if (status != ATT_OK && toolchain_changed(build->session, &build->toolchain)) { /* once more, with the right key */
        failure_clear(failure);
        cache_key_free(key);
        if (make_key(build, key, failure) != ATT_OK)
            return failure->status;
        status = cache_get(build->session->cache, key, compile, build, entry, hit, failure);
    }
    if (status != ATT_OK || read_meta(entry, "refused") <= 0)
        return status;
    failure_set(failure, ATT_COMPILE_FAILED, "%.*s", (int)entry->payload_size, (const char *)entry->payload);
    cache_entry_free(entry);
    return failure->status;
}

/* --- loading --------------------------------------------------------------------------------------------------- */

static void describe_plan(const struct plan *plan, struct att_kernel_info *info) {
    info->launches = plan->launches;
    for (int i = 0; i < plan->launches; i++) {
        if (plan->launch[i].shared > info->shared_bytes)
            info->shared_bytes = plan->launch[i].shared;
        if (plan->launch[i].block > info->threads)
            info->threads = plan->launch[i].block;
    }
}

static enum att_status load(att_kernel *kernel, const void *bytes, size_t size, struct failure *failure) {
    return kernel->session->type->load(kernel->session->backend, bytes, size, &kernel->plan, &kernel->module, failure);
}

static bool load_from_bundle(att_kernel *kernel) {
    att_session *session = kernel->session;
    const struct att_bundle_kernel *found =
        bundle_find(session->bundles, &kernel->variant, session->info.built_for, kernel->kind & KERNEL_OF_ANY_SCHEDULE);
    struct failure failure = {0};
    if (!found || !plan_read(found->plan, &kernel->plan))
        return false;
    if (load(kernel, found->binary, found->size, &failure) != ATT_OK) {
        session_log(session, ATT_LOG_WARNING, "the bundle's %s does not load, so it is compiled again: %s", found->name,
                    text_string(&failure.text));
        failure_clear(&failure);
        return false;
    }
    snprintf(kernel->variant.name, sizeof kernel->variant.name, "%s", found->name);
    kernel->info = (struct att_kernel_info){.registers = found->registers,
                                            .spill_bytes = found->spill_bytes,
                                            .instructions = -1,
                                            .binary_size = found->size,
                                            .compiler_seconds = -1,
                                            .from = "bundle"};
    return true;
}

static struct att_kernel_info describe_entry(const struct build *build, const struct cache_entry *entry, int hit) {
    int microseconds = read_meta(entry, "compile_microseconds");
    return (struct att_kernel_info){.registers = read_meta(entry, "registers"),
                                    .spill_bytes = read_meta(entry, "spill_bytes"),
                                    .instructions = read_meta(entry, "instructions"),
                                    .binary_size = entry->payload_size,
                                    .compile_seconds = build->compile_seconds,
                                    .compiler_seconds = microseconds < 0 ? -1 : microseconds * 1e-6,
                                    .from = hit ? "disk" : "compiler"};
}

/* If the device refuses bytes that the cache found whole (for example after a change of the driver), they are rebuilt,
   once. */
static enum att_status load_from_cache(att_kernel *kernel, struct build *build, struct cache_key *key,
                                       struct failure *failure) {
    att_session *session = kernel->session;
    for (int attempt = 0;; attempt++) {
        struct cache_entry entry = {0};
        int hit = 0;
        enum att_status status = get_entry(build, key, &entry, &hit, failure);
        if (status != ATT_OK)
            return status;
        status = load(kernel, entry.payload, entry.payload_size, failure);
        kernel->info = describe_entry(build, &entry, hit);
        cache_entry_free(&entry);
        if (status != ATT_LAUNCH_FAILED)
            return status;
        cache_reject(session->cache, key);
        if (!hit || attempt > 0)
            return status;
        session_log(session, ATT_LOG_WARNING, "the cached %s does not load, so it is compiled again: %s", build->file,
                    text_string(&failure->text));
        failure_clear(failure);
    }
}

/* Expands the source and makes its key. Free the build in any case. */
static enum att_status open_build(struct build *build, struct cache_key *key, struct failure *failure) {
    struct diag diag = {0};
    snprintf(build->file, sizeof build->file, "%s.cu", build->variant->name);
    enum att_status status =
        source_expand(build->session->templates, build->variant, "<problem>", &build->source, &diag)
            ? ATT_OK
            : failure_take(failure, ATT_INTERNAL, &diag);
    diag_free(&diag);
    if (status != ATT_OK)
        return status;
    for (int i = 0; i < build->source.plan.launches; i++)
        build->entries[i] = build->source.plan.launch[i].entry;
    return make_key(build, key, failure);
}

static enum att_status load_from_source(att_kernel *kernel, bool compile_it, struct failure *failure) {
    struct build build = {.session = kernel->session, .variant = &kernel->variant, .known = !compile_it};
    struct cache_key key = {0};
    enum att_status status = open_build(&build, &key, failure);
    if (status == ATT_OK) {
        kernel->plan = build.source.plan;
        status = load_from_cache(kernel, &build, &key, failure);
    }
    if (status == ATT_OK) {
        kernel->source = build.source.text;
        build.source.text = (struct text){0};
    }
    cache_key_free(&key);
    text_free(&build.toolchain);
    source_free(&build.source);
    return status;
}

enum att_status kernel_compile(att_session *session, const struct variant *variant, struct att_kernel_info *info,
                               struct failure *failure) {
    struct build build = {.session = session, .variant = variant};
    struct cache_key key = {0};
    struct cache_entry entry = {0};
    int hit = 0;
    *info = (struct att_kernel_info){.registers = -1, .spill_bytes = -1, .instructions = -1, .compiler_seconds = -1};
    enum att_status status = open_build(&build, &key, failure);
    if (status == ATT_OK)
        status = get_entry(&build, &key, &entry, &hit, failure);
    if (status == ATT_OK) {
        *info = describe_entry(&build, &entry, hit);
        describe_plan(&build.source.plan, info);
    }
    cache_entry_free(&entry);
    cache_key_free(&key);
    text_free(&build.toolchain);
    source_free(&build.source);
    return status;
}

enum att_status kernel_build(att_kernel *kernel, bool compile_it, struct failure *failure) {
    if (atomic_load(&kernel->ready))
        return ATT_OK;
    enum att_status status = ATT_OK;
    if (compile_it)
        pthread_mutex_lock(&kernel->lock);
    else if (pthread_mutex_trylock(&kernel->lock) != 0)
        return failure_set(failure, ATT_NOT_PREPARED, "%s is being compiled", kernel->variant.name);
    if (!atomic_load(&kernel->ready)) {
        formula_set_close(&kernel->formulas); /* from a failed attempt */
        if (!formula_set_open(&kernel->formulas, &kernel->variant.knobs))
            status = failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for the mask and the score");
        else if (!load_from_bundle(kernel))
            status = load_from_source(kernel, compile_it, failure);
        if (status == ATT_OK) {
            describe_plan(&kernel->plan, &kernel->info);
            atomic_store(&kernel->ready, true);
        }
    }
    pthread_mutex_unlock(&kernel->lock);
    return status;
}

enum att_status kernel_prepare(att_kernel *kernel, struct failure *failure) {
    const struct backend_type *type = kernel->session->type;
    enum att_status status = ATT_OK;
    pthread_mutex_lock(&kernel->lock);
    if (type->prepare && !atomic_load(&kernel->prepared))
        status = type->prepare(kernel->session->backend, kernel->module, failure);
    if (status == ATT_OK)
        atomic_store(&kernel->prepared, true);
    pthread_mutex_unlock(&kernel->lock);
    return status;
}

void kernel_free(att_kernel *kernel) {
    kernel->session->type->unload(kernel->session->backend, kernel->module);
    text_free(&kernel->source);
    formula_set_close(&kernel->formulas);
    by_sizes_free(kernel->by_sizes);
    pthread_mutex_destroy(&kernel->lock);
    free(kernel);
}
