/* svg: pictures as text: a plot with axes and marks. Colours are told apart by shape or number too, so that a page can be
   printed in grey and read by the colour-blind (palette of Okabe and Ito; one ramp from light to dark). */
#ifndef ATTILE_SVG_H
#define ATTILE_SVG_H

#include "text.h"

/* Text inside HTML or SVG. */
void html_escape(struct text *text, const char *string);

struct axis {
    const char *label;
    double least, most; /* of what is shown; svg_axis makes room */
    bool log;
};

/* An axis that shows all values in [least, most]; a log one needs them above 0. */
struct axis svg_axis(const char *label, double least, double most, bool log);

struct plot {
    struct text *text;
    struct axis x, y;
};

enum { MARKS = 7 };

/* Frame, ticks and labels; then marks in data coordinates; what lies outside is not drawn. */
void plot_open(struct plot *plot, struct text *text, struct axis x, struct axis y);
void plot_mark(const struct plot *plot, double x, double y, int kind, bool strong, const char *title);
void plot_line(const struct plot *plot, double x1, double y1, double x2, double y2, bool dashed, const char *label);
void plot_close(struct plot *plot);

/* What marks mean, below a plot: those with a name; and a word `more` (may be null). */
void svg_legend(struct text *text, const char *const *names, int count, const char *more);

/* A grid of cells: `share` 0 = lightest, 1 = darkest, below 0 = empty. Column and row heads; `words` is in the cell. */
struct grid {
    struct text *text;
    int columns, rows;
    int cell_width;
};
void grid_open(struct grid *grid, struct text *text, int columns, int rows, int cell_width, const char *x_label,
               const char *y_label);
void grid_head(const struct grid *grid, int column, int row, const char *words); /* column or row is -1 */
void grid_cell(const struct grid *grid, int column, int row, double share, const char *words, const char *title);
void grid_close(struct grid *grid);

/* A horizontal bar a row: name, length as a share of the longest, words behind it. */
void svg_bars(struct text *text, const char *const *names, const double *values, const char *unit, int count);

#endif
