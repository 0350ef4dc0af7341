#include "backend.h"

#include <stdlib.h>

void binary_free(struct binary *binary) {
    free(binary->bytes);
    text_free(&binary->log);
    *binary = (struct binary){0};
}
