/* embedded: files that a program carries, written by embed.c. */
#ifndef ATTILE_EMBEDDED_H
#define ATTILE_EMBEDDED_H

#include <stddef.h>

struct embedded_file {
    const char *name; /* relative path; null ends a table */
    const char *text; /* NUL-terminated */
    size_t size;      /* without the NUL */
};

extern const struct embedded_file embedded_templates[]; /* templates/ */
extern const struct embedded_file embedded_host[];    /* runtime/host/device/: what a kernel sees on the host device */
extern const struct embedded_file embedded_devices[]; /* devices/: GPUs that the model knows */
extern const struct embedded_file embedded_tuned[];   /* tuned/ */

#endif
