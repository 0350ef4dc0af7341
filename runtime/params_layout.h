/* params_layout: how the parameter structs are laid out that this library fills at launch, as one word. Kernels built
   ahead of time were compiled with the structs of their day. */
#ifndef ATTILE_PARAMS_LAYOUT_H
#define ATTILE_PARAMS_LAYOUT_H

#include "embedded.h"

#include <stdbool.h>

enum { PARAMS_LAYOUT = 17 }; /* hexadecimal digits and the NUL */

/* A digest of the files in params/, their comments and the amount of space in them apart. False: out of memory. */
bool params_layout(const struct embedded_file *templates, char word[PARAMS_LAYOUT]);

#endif
