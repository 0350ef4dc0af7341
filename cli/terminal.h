/* terminal: what depends on the output device: colour, a progress bar, tables with aligned columns. Data goes to
   standard output, messages for people to standard error. */
#ifndef ATTILE_TERMINAL_H
#define ATTILE_TERMINAL_H

#include "text.h"

#include <stdio.h>

enum color_choice { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* COLOR_AUTO means: on a terminal, if NO_COLOR is not in the environment and TERM is not "dumb". */
bool terminal_color(FILE *stream, enum color_choice choice);

/* Returns the columns of a terminal, or the value of COLUMNS in the environment; WIDTH_UNKNOWN for a file or a pipe,
   whose lines are read by programs. */
enum { WIDTH_UNKNOWN = 1 << 20 };
int terminal_width(FILE *stream);

/* Wraps words to lines of `width` columns, the first of which already begins at column `indent`, and adds a newline. */
void terminal_wrap(struct text *text, const char *words, int indent, int width);

/* A progress bar on standard error; nothing if standard error is not a terminal. */
struct progress {
    bool shown;
    int total, width;
    double last; /* when it was last drawn */
};
void progress_open(struct progress *progress, int total, bool quiet);
void progress_show(struct progress *progress, int done, const char *what);
void progress_close(struct progress *progress); /* clears the line; call before printing */

/* A table that computes its widths before it is printed. Cells are copied; text is left-aligned, numbers right-aligned.
   Columns in which no row has a value ("" or "-") are left out. Texts that make it wider than `most` columns continue
   on further lines. */
enum { TABLE_COLUMNS = 12 };
enum cell_style { CELL_PLAIN, CELL_GOOD, CELL_BAD, CELL_FAINT };
struct table {
    int columns, rows;
    bool right[TABLE_COLUMNS];
    struct table_cell {
        char *text;
        enum cell_style style;
    } * cell; /* row by row; row 0 = headings */
    int room;
    bool failed; /* memory ran out at some point */
};
void table_open(struct table *table, int columns, const char *const *headings, const char *alignment); /* "lrr" */
void table_cell(struct table *table, int column, enum cell_style style, const char *format, ...) TEXT_PRINTF(4, 5);
void table_row(struct table *table); /* begins the next row */
void table_print(const struct table *table, bool color, int most, struct text *text);
void table_free(struct table *table);

/* Print "1.50 ms", "12.0 MiB" and so on, with three digits. */
void print_seconds(struct text *text, double seconds);
void print_bytes(struct text *text, double bytes);

#endif
