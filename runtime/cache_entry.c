/* cache_entry: a key and a built entry -> the bytes of one file, and back.

       0  magic, 8 bytes            40  digest of the key, 32 hexadecimal digits
       8  format, 8 bytes           72  preimage, meta, payload
      16  size of the preimage          ...
      24  size of meta             end  XXH3-128 of every byte before it, 16 bytes, canonical
      32  size of the payload

   Numbers are 64 bits, little-endian. Invariant: the checksum is verified before any other byte is trusted. */
#include "cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MAGIC = 8, SIZES = 16, DIGEST = 40, HEADER = DIGEST + CACHE_DIGEST, TRAILER = 16 };

static const char magic[MAGIC + 1] = "attile\r\n";
static const uint64_t format = 2;

static void put(unsigned char *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *at) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void checksum(const void *bytes, size_t size, unsigned char trailer[TRAILER]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(trailer, canonical.digest, TRAILER);
}

static unsigned char *put_bytes(unsigned char *at, const void *bytes, size_t size) {
    if (size)
        memcpy(at, bytes, size);
    return at + size;
}

void *cache_entry_pack(const struct cache_key *key, const struct cache_entry *entry, size_t *size) {
    const struct text *preimage = &key->preimage;
    size_t room = (size_t)-1 - HEADER - TRAILER;
    if (preimage->size > room || entry->meta_size > room - preimage->size ||
        entry->payload_size > room - preimage->size - entry->meta_size)
        return NULL;
    size_t body = HEADER + preimage->size + entry->meta_size + entry->payload_size;
    unsigned char *bytes = malloc(body + TRAILER);
    if (!bytes)
        return NULL;
    memcpy(bytes, magic, MAGIC);
    put(bytes + MAGIC, format);
    put(bytes + SIZES, preimage->size);
    put(bytes + SIZES + 8, entry->meta_size);
    put(bytes + SIZES + 16, entry->payload_size);
    memcpy(bytes + DIGEST, key->digest, CACHE_DIGEST);
    unsigned char *at = put_bytes(bytes + HEADER, preimage->bytes, preimage->size);
    at = put_bytes(at, entry->meta, entry->meta_size);
    put_bytes(at, entry->payload, entry->payload_size);
    checksum(bytes, body, bytes + body);
    *size = body + TRAILER;
    return bytes;
}

const char *cache_entry_check(const void *entry, size_t size, struct cache_parts *parts) {
    const unsigned char *bytes = entry;
    if (size < HEADER + TRAILER)
        return "too short";
    size_t body = size - TRAILER;
    unsigned char trailer[TRAILER];
    checksum(bytes, body, trailer);
    if (memcmp(bytes + body, trailer, TRAILER) != 0)
        return "checksum does not match";

    if (memcmp(bytes, magic, MAGIC) != 0)
        return "not a cache entry";
    if (get(bytes + MAGIC) != format)
        return "written in another format";
    uint64_t left = body - HEADER;
    uint64_t preimage_size = get(bytes + SIZES), meta_size = get(bytes + SIZES + 8),
             payload_size = get(bytes + SIZES + 16);
    if (preimage_size > left || meta_size > left - preimage_size || payload_size != left - preimage_size - meta_size)
        return "sizes do not add up";
    for (int i = 0; i < CACHE_DIGEST; i++)
        if (!memchr("0123456789abcdef", bytes[DIGEST + i], 16))
            return "digest is not hexadecimal";

    const char *at = (const char *)bytes;
    *parts = (struct cache_parts){
        .digest = at + DIGEST,
        .preimage = at + HEADER,
        .meta = at + HEADER + preimage_size,
        .payload = at + HEADER + preimage_size + meta_size,
        .preimage_size = (size_t)preimage_size,
        .meta_size = (size_t)meta_size,
        .payload_size = (size_t)payload_size,
    };
    return NULL;
}

void cache_entry_free(struct cache_entry *entry) {
    free(entry->payload);
    free(entry->meta);
    *entry = (struct cache_entry){0};
}
