/* duration: "90", "90s", "1.5m", "2h" -> seconds. */
#ifndef ATTILE_DURATION_H
#define ATTILE_DURATION_H

#include <stdbool.h>

/* False when the text is malformed, or the duration is not positive or longer than a year. */
bool duration_read(const char *text, double *seconds);

#endif
