#include "cache.h"

#include <string.h>
#include <xxhash.h>

void cache_key_add(struct cache_key *key, const char *name, const void *value, size_t size) {
    text_print(&key->preimage, "%zu:%s %zu:", strlen(name), name, size);
    text_append(&key->preimage, value, size);
    text_append(&key->preimage, "\n", 1);
}

void cache_key_finish(struct cache_key *key) {
    key->digest[0] = '\0';
    if (!key->preimage.failed)
        cache_digest(key->preimage.bytes, key->preimage.size, key->digest);
}

void cache_digest(const void *preimage, size_t size, char digest[CACHE_DIGEST + 1]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(preimage, size));
    for (int i = 0; i < CACHE_DIGEST; i++)
        digest[i] = "0123456789abcdef"[canonical.digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
    digest[CACHE_DIGEST] = '\0';
}

bool cache_key_same(const struct cache_key *key, const void *preimage, size_t size) {
    return key->preimage.size == size && memcmp(key->preimage.bytes, preimage, size) == 0;
}

void cache_key_free(struct cache_key *key) {
    text_free(&key->preimage);
    key->digest[0] = '\0';
}

/* Parses "SIZE:", then SIZE bytes, then `after`. Returns null if they are not there. */
static const char *take(const char *at, const char *end, char after, const char **bytes, size_t *size) {
    const char *digits = at;
    for (*size = 0; at < end && *at >= '0' && *at <= '9'; at++) {
        if (*size > (size_t)(end - digits)) /* more than can be there: stop before it overflows */
            return NULL;
        *size = *size * 10 + (size_t)(*at - '0');
    }
    if (at == digits || at == end || *at++ != ':' || *size >= (size_t)(end - at) || at[*size] != after)
        return NULL;
    *bytes = at;
    return at + *size + 1;
}

bool cache_key_field(const void *preimage, size_t size, size_t *offset, struct cache_field *field) {
    if (*offset >= size)
        return false;
    const char *start = preimage, *end = start + size;
    const char *at = take(start + *offset, end, ' ', &field->name, &field->name_size);
    if (at)
        at = take(at, end, '\n', &field->value, &field->value_size);
    if (!at)
        return false;
    *offset = (size_t)(at - start);
    return true;
}
