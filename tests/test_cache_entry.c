/* The entry format and the key: any change to the bytes of an entry is noticed before one of them is used, and no two
   lists of fields make the same key. */
#include "cache.h"
#include "helper_cache.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REAL_SIZE = 65536 };

/* Returns the bytes of a file of exactly REAL_SIZE bytes. */
static unsigned char *real_entry(size_t *size) {
    struct cache_key key;
    struct cache_entry entry;
    sample_key(1, &key);
    cr_assert(sample_entry(1, 0, &entry));
    free(cache_entry_pack(&key, &entry, size));
    size_t payload = REAL_SIZE - *size;
    cache_entry_free(&entry);
    cr_assert(sample_entry(1, payload, &entry));
    unsigned char *bytes = cache_entry_pack(&key, &entry, size);
    cr_assert(bytes);
    cr_assert_eq(*size, REAL_SIZE);
    cache_entry_free(&entry);
    cache_key_free(&key);
    return bytes;
}

Test(cache_entry, comes_back_as_it_was_packed) {
    static const size_t sizes[] = {0, 1, 7, 4096, 100001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cache_key key;
        struct cache_entry entry;
        struct cache_parts parts;
        size_t size;
        sample_key((int)i, &key);
        cr_assert(sample_entry((int)i, sizes[i], &entry));
        void *bytes = cache_entry_pack(&key, &entry, &size);
        cr_assert(bytes);
        const char *damage = cache_entry_check(bytes, size, &parts);
        cr_assert_null(damage, "%s", damage);
        cr_expect_arr_eq(parts.digest, key.digest, CACHE_DIGEST);
        cr_assert_eq(parts.preimage_size, key.preimage.size);
        cr_expect_arr_eq(parts.preimage, key.preimage.bytes, key.preimage.size);
        struct cache_entry back = {.payload = (void *)parts.payload,
                                   .payload_size = parts.payload_size,
                                   .meta = (void *)parts.meta,
                                   .meta_size = parts.meta_size};
        cr_expect(sample_equal((int)i, sizes[i], &back));
        free(bytes);
        cache_entry_free(&entry);
        cache_key_free(&key);
    }
}

Test(cache_entry, notices_every_single_bit_flip) {
    size_t size, missed = 0;
    struct cache_parts parts;
    unsigned char *bytes = real_entry(&size);
    cr_assert_null(cache_entry_check(bytes, size, &parts));
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        missed += cache_entry_check(bytes, size, &parts) == NULL;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    cr_expect_eq(missed, 0, "%zu of %zu flips missed", missed, size * 8);
    cr_expect_null(cache_entry_check(bytes, size, &parts));
    free(bytes);
}

Test(cache_entry, notices_every_truncation) {
    size_t size, missed = 0;
    struct cache_parts parts;
    unsigned char *bytes = real_entry(&size);
    for (size_t length = 0; length < size; length++)
        missed += cache_entry_check(bytes, length, &parts) == NULL;
    cr_expect_eq(missed, 0, "%zu of %zu truncations missed", missed, size);
    free(bytes);
}

Test(cache_entry, notices_every_appended_byte) {
    size_t size, missed = 0;
    struct cache_parts parts;
    unsigned char *bytes = real_entry(&size), *longer = malloc(size + 1);
    cr_assert(longer);
    memcpy(longer, bytes, size);
    for (int byte = 0; byte < 256; byte++) {
        longer[size] = (unsigned char)byte;
        missed += cache_entry_check(longer, size + 1, &parts) == NULL;
    }
    cr_expect_eq(missed, 0, "%zu of 256 missed", missed);
    free(longer);
    free(bytes);
}

Test(cache_entry, notices_every_zeroed_block) {
    enum { BLOCK = 512 };
    size_t size, missed = 0;
    struct cache_parts parts;
    unsigned char *bytes = real_entry(&size), kept[BLOCK];
    for (size_t at = 0; at < size; at += BLOCK) {
        memcpy(kept, bytes + at, BLOCK);
        memset(bytes + at, 0, BLOCK);
        missed += cache_entry_check(bytes, size, &parts) == NULL;
        memcpy(bytes + at, kept, BLOCK);
    }
    cr_expect_eq(missed, 0, "%zu of %zu missed", missed, size / BLOCK);
    free(bytes);
}

/* A header under a correct checksum, as a bug or an attacker could write it. */
Test(cache_entry, believes_no_header_that_does_not_add_up) {
    static const struct {
        int at;
        uint64_t value;
        const char *damage;
    } cases[] = {
        {0, 0, "not a cache entry"},
        {8, 0, "written in another format"},
        {8, 1, "written in another format"},
        {16, UINT64_MAX, "sizes do not add up"},
        {16, REAL_SIZE, "sizes do not add up"},
        {24, UINT64_MAX - 10, "sizes do not add up"},
        {32, 0, "sizes do not add up"},
        {32, UINT64_MAX, "sizes do not add up"},
        {40, 0x4141414141414141, "digest is not hexadecimal"},
        {64, 0, "digest is not hexadecimal"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        struct cache_parts parts;
        unsigned char *bytes = real_entry(&size);
        for (int byte = 0; byte < 8; byte++)
            bytes[cases[i].at + byte] = (unsigned char)(cases[i].value >> 8 * byte);
        cr_expect_str_eq(cache_entry_check(bytes, size, &parts), "checksum does not match");
        sample_seal(bytes, size);
        const char *damage = cache_entry_check(bytes, size, &parts);
        cr_expect(damage && strcmp(damage, cases[i].damage) == 0, "case %zu: %s", i, damage ? damage : "accepted");
        free(bytes);
    }
}

/* Three sizes whose 64-bit sum is right only because it wraps. */
Test(cache_entry, believes_no_sizes_that_wrap_around) {
    enum { SIZES = 16, SIZE = 8, OVERHEAD = 72 + 16 }; /* the sizes leave out header and trailer */
    for (int wrapped = 0; wrapped < 2; wrapped++) {
        size_t size;
        struct cache_parts parts;
        unsigned char *bytes = real_entry(&size);
        uint64_t left = size - OVERHEAD;
        const uint64_t sizes[] = {wrapped == 0 ? left + 1 : 1, wrapped == 0 ? 0 : left, UINT64_MAX};
        cr_assert_eq(sizes[0] + sizes[1] + sizes[2], left);
        for (int byte = 0; byte < 3 * SIZE; byte++)
            bytes[SIZES + byte] = (unsigned char)(sizes[byte / SIZE] >> 8 * (byte % SIZE));
        sample_seal(bytes, size);
        cr_expect_str_eq(cache_entry_check(bytes, size, &parts), "sizes do not add up");
        free(bytes);
    }
}

/* --- keys --- */

struct field {
    const char *name;
    char value[8];
    size_t size;
};

static void make_key(const struct field *fields, int count, struct cache_key *key) {
    *key = (struct cache_key){0};
    for (int i = 0; i < count; i++)
        cache_key_add(key, fields[i].name, fields[i].value, fields[i].size);
    cache_key_finish(key);
}

static bool same_fields(const struct field *a, int n, const struct field *b, int m) {
    bool same = n == m;
    for (int i = 0; same && i < n; i++)
        same = strcmp(a[i].name, b[i].name) == 0 && a[i].size == b[i].size &&
               memcmp(a[i].value, b[i].value, a[i].size) == 0;
    return same;
}

/* Draws names and values from the bytes that the encoding itself uses, to provoke confusion of boundaries. */
static int random_fields(struct field fields[3], uint32_t *state) {
    static const char *const names[] = {"", "a", "1:a", "a 1:", "\n", "1:a 1:b\n1:a"};
    static const char bytes[] = {'1', ':', ' ', '\n', 'a', '\0'};
    *state = *state * 1664525u + 1013904223u;
    int count = (int)(*state >> 16) % 4;
    for (int i = 0; i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        fields[i] = (struct field){.name = names[(*state >> 16) % 6], .size = (*state >> 24) % 4};
        for (size_t j = 0; j < fields[i].size; j++) {
            *state = *state * 1664525u + 1013904223u;
            fields[i].value[j] = bytes[(*state >> 16) % 6];
        }
    }
    return count;
}

Test(cache_key, different_fields_never_read_alike) {
    enum { KEYS = 1500 };
    static struct field fields[KEYS][3];
    static struct cache_key keys[KEYS];
    static int counts[KEYS];
    uint32_t state = 20;
    int different = 0;
    for (int i = 0; i < KEYS; i++) {
        counts[i] = random_fields(fields[i], &state);
        make_key(fields[i], counts[i], &keys[i]);
    }
    for (int i = 0; i < KEYS; i++)
        for (int j = 0; j < i; j++) {
            bool same = same_fields(fields[i], counts[i], fields[j], counts[j]);
            different += !same;
            cr_assert_eq(strcmp(keys[i].digest, keys[j].digest) == 0, same, "keys %d and %d", i, j);
        }
    cr_expect_gt(different, KEYS * KEYS / 4, "the generator makes too many equal keys to show anything");
    for (int i = 0; i < KEYS; i++)
        cache_key_free(&keys[i]);
}

Test(cache_key, changes_with_every_bit_of_name_and_value) {
    static const char name[] = "target", value[] = "sm_90a";
    struct cache_key key = {0}, other;
    cache_key_add(&key, name, value, 6);
    cache_key_finish(&key);
    for (int bit = 0; bit < 12 * 8; bit++) {
        char changed_name[7], changed_value[7];
        memcpy(changed_name, name, 7);
        memcpy(changed_value, value, 7);
        char *byte = bit < 48 ? &changed_name[bit / 8] : &changed_value[bit / 8 - 6];
        *byte = (char)(*byte ^ 1 << bit % 8);
        other = (struct cache_key){0};
        cache_key_add(&other, changed_name, changed_value, 6);
        cache_key_finish(&other);
        cr_expect_str_neq(key.digest, other.digest, "bit %d", bit);
        cache_key_free(&other);
    }
    cache_key_free(&key);
}

Test(cache_key, is_the_digest_of_a_text_that_reads_back) {
    struct cache_key key = {0};
    cache_key_add(&key, "source", "a\nb: c", 6);
    cache_key_add(&key, "empty", NULL, 0);
    cache_key_add(&key, "target", "sm_90a", 6);
    cache_key_finish(&key);
    cr_expect_str_eq(key.preimage.bytes, "6:source 6:a\nb: c\n5:empty 0:\n6:target 6:sm_90a\n");
    size_t offset = 0;
    struct cache_field field;
    static const char *const names[] = {"source", "empty", "target"}, *const values[] = {"a\nb: c", "", "sm_90a"};
    for (int i = 0; i < 3; i++) {
        cr_assert(cache_key_field(key.preimage.bytes, key.preimage.size, &offset, &field));
        cr_expect(field.name_size == strlen(names[i]) && memcmp(field.name, names[i], field.name_size) == 0);
        cr_expect(field.value_size == strlen(values[i]) && memcmp(field.value, values[i], field.value_size) == 0);
    }
    cr_expect_not(cache_key_field(key.preimage.bytes, key.preimage.size, &offset, &field));
    cr_expect_eq(offset, key.preimage.size);
    cache_key_free(&key);
}

Test(cache_key, malformed_preimages_are_not_read) {
    static const char *const cases[] = {
        ":",
        "1",
        "1:",
        "1:a",
        "1:a ",
        "1:a 1:",
        "1:a 1:b",
        "1:a 2:b\n",
        "9:a 1:b\n",
        "x:a 1:b\n",
        "1:a1:b\n",
        "1:a 1:bc",
        "99999999999999999999999999:a 1:b\n",
        "1:a 18446744073709551615:b\n",
        "-1:a 1:b\n",
        " 1:a 1:b\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t offset = 0, size = strlen(cases[i]);
        char *exact = malloc(size); /* so that a sanitizer notices a read beyond it */
        struct cache_field field;
        cr_assert(exact);
        memcpy(exact, cases[i], size);
        cr_expect_not(cache_key_field(exact, size, &offset, &field), "case %zu", i);
        cr_expect_eq(offset, 0);
        free(exact);
    }
}

/* The bytes that would complete a field are there, but belong to something else. */
Test(cache_key, a_field_ends_where_the_preimage_does) {
    static const char whole[] = "1:a 1:b\n";
    struct cache_field field;
    for (size_t size = 0; size < strlen(whole); size++) {
        size_t offset = 0;
        cr_expect_not(cache_key_field(whole, size, &offset, &field), "%zu of %zu bytes", size, strlen(whole));
    }
}
