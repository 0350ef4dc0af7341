#include "embedded.h"
#include "tuned.h"

#include <string.h>

const char *template_embedded(void *context, const char *name, size_t *size) {
    (void)context;
    for (const struct embedded_file *file = embedded_templates; file->name; file++)
        if (strcmp(file->name, name) == 0) {
            *size = file->size;
            return file->text;
        }
    return NULL;
}

const char *tuned_embedded(const char *file, size_t *size) {
    for (const struct embedded_file *at = embedded_tuned; at->name; at++)
        if (strcmp(at->name, file) == 0) {
            *size = at->size;
            return at->text;
        }
    return NULL;
}
