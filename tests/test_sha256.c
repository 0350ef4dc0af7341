/* SHA-256 against the vectors of FIPS 180-4 and the NIST example set, and against a digest over many lengths. */
#include "sha256.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(sha256, gives_the_nist_digests) {
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqr"
         "stu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char hex[65];
        sha256_hex(cases[i].text, strlen(cases[i].text), hex);
        cr_expect_str_eq(hex, cases[i].digest, "case %zu", i);
    }
}

Test(sha256, gives_the_digest_of_a_million_letters) {
    enum { SIZE = 1000000 };
    char *text = malloc(SIZE), hex[65];
    cr_assert(text);
    memset(text, 'a', SIZE);
    sha256_hex(text, SIZE, hex);
    cr_expect_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

/* The padding has its cases at 55, 56, 63 and 64 bytes of a block: chains the digests of all lengths up
   to three blocks. */
Test(sha256, pads_every_length_right) {
    char chain[200 * 64 + 1] = "", hex[65];
    unsigned char bytes[200];
    for (int i = 0; i < 200; i++)
        bytes[i] = (unsigned char)i;
    for (size_t size = 0; size < 200; size++) {
        sha256_hex(bytes, size, hex);
        memcpy(chain + size * 64, hex, 65);
    }
    sha256_hex(chain, 200 * 64, hex);
    cr_expect_str_eq(
        hex, "7a38a844c9e159de39f0862ee2e28569a8250831150a3fbf0a59c001129b2fb2"); /* by an independent implementation */
}
