/* Arbitrary bytes are either a tensor or refused with a reason. A tensor that was read and written back
   reads the same. */
#include "npy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct npy npy, again;
    struct text error = {0}, file = {0};
    if (npy_parse("fuzz", bytes, size, &npy, &error)) {
        npy_print(&npy, &file);
        if (!npy_parse("again", file.bytes, file.size, &again, &error) || again.count != npy.count ||
            memcmp(again.data, npy.data, (size_t)npy.count * npy_element_size(npy.type)) != 0)
            abort();
        npy_free(&again);
    } else if (error.size == 0) {
        abort();
    }
    npy_free(&npy);
    text_free(&error);
    text_free(&file);
    return 0;
}
