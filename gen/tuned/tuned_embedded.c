#include "embedded.h"
#include "tuned.h"

#include <string.h>

const char *tuned_embedded(const char *file, size_t *size) {
    for (const struct embedded_file *at = embedded_tuned; at->name; at++)
        if (strcmp(at->name, file) == 0) {
            *size = at->size;
            return at->text;
        }
    return NULL;
}
