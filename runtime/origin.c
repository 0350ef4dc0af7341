#include "origin.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_SHOWN = 20 };

/* Returns the line number after the file's name, in the form of NVRTC or of a C++ compiler; 0 = there is none. */
static int read_line(const char *at) {
    char *end;
    if (*at != '(' && *at != ':')
        return 0;
    long line = strtol(at + 1, &end, 10);
    if (end == at + 1 || line < 1 || line > 1 << 24 || *end != (*at == '(' ? ')' : ':'))
        return 0;
    return (int)line;
}

static bool seen_before(const int *seen, int count, int line) {
    for (int i = 0; i < count; i++)
        if (seen[i] == line)
            return true;
    return false;
}

void origin_explain(const struct source *source, const char *file, const char *log, struct text *text) {
    int seen[LINES_SHOWN], count = 0;
    for (const char *at = log; count < LINES_SHOWN && (at = strstr(at, file));) {
        at += strlen(file);
        int line = read_line(at);
        if (line < 1 || line > source->lines || seen_before(seen, count, line))
            continue;
        seen[count++] = line;
        const struct line_origin *origin = &source->origin[line - 1];
        if (origin->file)
            text_print(text, "%s:%d comes from %s:%d\n", file, line, origin->file, origin->line);
        else
            text_print(text, "%s:%d was written by the generator\n", file, line);
    }
}
