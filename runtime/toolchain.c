#include "toolchain.h"

#include <string.h>

static void make_key(const att_session *session, const struct text *search, struct cache_key *key) {
    const struct {
        const char *name, *value;
    } fields[] = {{"format", "attile compiler 1"},
                  {"generator", GEN_VERSION},
                  {"device", session->type->name},
                  {"arch", session->info.arch},
                  {"search", text_string(search)}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        cache_key_add(key, fields[i].name, fields[i].value, strlen(fields[i].value));
    cache_key_finish(key);
}

static enum att_status ask(void *context, struct cache_entry *entry, struct failure *failure) {
    const att_session *session = context;
    struct text identity = {0}, meta = {0};
    struct backend_info info;
    enum att_status status = session->type->identity(session->backend, NULL, &identity, failure);
    session->type->describe(session->backend, &info);
    text_print(&meta, "name: %s\ndevice: %s\narch: %s\n", info.compiler, session->type->name, info.arch);
    if (status == ATT_OK && (identity.failed || meta.failed))
        status = failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for the identity of a compiler");
    if (status == ATT_OK) {
        *entry = (struct cache_entry){identity.bytes, identity.size, meta.bytes, meta.size};
        return ATT_OK;
    }
    text_free(&identity);
    text_free(&meta);
    return status;
}

enum att_status toolchain_identity(att_session *session, struct text *identity, struct failure *failure) {
    struct text search = {0};
    struct cache_key key = {0};
    struct cache_entry entry = {0};
    enum att_status status;
    if (session->type->search && cache_dir(session->cache) && session->type->search(session->backend, &search)) {
        make_key(session, &search, &key);
        status = cache_get(session->cache, &key, ask, session, &entry, NULL, failure);
        text_append(identity, entry.payload, entry.payload_size);
    } else {
        status = session->type->identity(session->backend, NULL, identity, failure);
    }
    cache_entry_free(&entry);
    cache_key_free(&key);
    text_free(&search);
    return status;
}

bool toolchain_changed(att_session *session, const struct text *identity) {
    struct text search = {0}, now = {0};
    struct failure failure = {0};
    struct cache_key key = {0};
    bool searched = session->type->search && session->type->search(session->backend, &search);
    bool changed = session->type->identity(session->backend, NULL, &now, &failure) == ATT_OK && !now.failed &&
                   strcmp(text_string(&now), text_string(identity)) != 0;
    if (changed && searched) {
        make_key(session, &search, &key);
        cache_reject(session->cache, &key);
    }
    failure_clear(&failure);
    cache_key_free(&key);
    text_free(&search);
    text_free(&now);
    return changed;
}
