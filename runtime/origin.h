/* origin: finds the template lines from which a compiler's messages about an emitted source originate. */
#ifndef ATTILE_ORIGIN_H
#define ATTILE_ORIGIN_H

#include "gen.h"

/* For each "FILE(LINE)" or "FILE:LINE:" in the log, appends "FILE:LINE comes from TEMPLATE:LINE", once per line. */
void origin_explain(const struct source *source, const char *file, const char *log, struct text *text);

#endif
