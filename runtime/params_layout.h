/* params_layout: the layout of the parameter structs that this library fills at launch, as one word. Kernels built
   ahead of time were compiled with the structs of their version. */
#ifndef ATTILE_PARAMS_LAYOUT_H
#define ATTILE_PARAMS_LAYOUT_H

#include "embedded.h"

#include <stdbool.h>

enum { PARAMS_LAYOUT = 17 }; /* hexadecimal digits and the NUL */

/* Computes a digest of the files in params/, without their comments and the amount of white space. False: out of
   memory. */
bool params_layout(const struct embedded_file *templates, char word[PARAMS_LAYOUT]);

#endif
