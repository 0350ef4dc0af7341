/* sha256: bytes -> their SHA-256 digest (FIPS 180-4). Names cache entries; implemented here so that the library needs
   no cryptography package. */
#ifndef ATTILE_SHA256_H
#define ATTILE_SHA256_H

#include <stddef.h>

/* Digest as 64 lower-case hexadecimal digits and a NUL. `bytes` may be null when size is 0. */
void sha256_hex(const void *bytes, size_t size, char hex[65]);

#endif
