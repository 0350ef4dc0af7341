#include "embedded.h"
#include "gen.h"

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
