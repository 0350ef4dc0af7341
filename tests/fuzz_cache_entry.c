/* Fuzzes the entry parser and the preimage reader with the input as it is, and again with a correct checksum so that
   the input reaches the parser behind the check. It reads every byte of the parts, so that the address sanitizer
   notices a wrong bound. */
#include "cache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static volatile unsigned sink; /* keeps the compiler from optimising reads away */

static void read_bytes(const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        sink = sink + (unsigned char)bytes[i];
}

static void check(const void *bytes, size_t size) {
    struct cache_parts parts;
    if (cache_entry_check(bytes, size, &parts))
        return;
    read_bytes(parts.digest, CACHE_DIGEST);
    read_bytes(parts.preimage, parts.preimage_size);
    read_bytes(parts.meta, parts.meta_size);
    read_bytes(parts.payload, parts.payload_size);
    struct cache_field field;
    for (size_t offset = 0; cache_key_field(parts.preimage, parts.preimage_size, &offset, &field);) {
        read_bytes(field.name, field.name_size);
        read_bytes(field.value, field.value_size);
    }
    if (40 + CACHE_DIGEST + parts.preimage_size + parts.meta_size + parts.payload_size + 16 != size)
        abort(); /* header, parts and trailer must add up to the whole */
}

/* Checks with a correct checksum and `known` correct bytes at the start (magic and format). */
static void check_sealed(const uint8_t *data, size_t size, size_t known) {
    static const char start[16] = "attile\r\n\2";
    unsigned char *sealed = malloc(size + 16);
    if (!sealed)
        return;
    if (size)
        memcpy(sealed, data, size);
    memcpy(sealed, start, known < size ? known : size);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(sealed, size));
    memcpy(sealed + size, canonical.digest, 16);
    check(sealed, size + 16);
    free(sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check(data, size);
    check_sealed(data, size, 0);
    check_sealed(data, size, 16);
    struct cache_field field;
    for (size_t offset = 0; cache_key_field(data, size, &offset, &field);) {
        read_bytes(field.name, field.name_size);
        read_bytes(field.value, field.value_size);
    }
    return 0;
}
