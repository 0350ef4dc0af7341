/* origin: says where in the templates the lines of an emitted source came from that a compiler complained about. */
#ifndef ATTILE_ORIGIN_H
#define ATTILE_ORIGIN_H

#include "gen.h"

/* For each "FILE(LINE)" or "FILE:LINE:" in the log, once a line, append "FILE:LINE comes from TEMPLATE:LINE". */
void origin_explain(const struct source *source, const char *file, const char *log, struct text *text);

#endif
