/* svg: pictures as text: plots with axes and marks. Colours also differ in shape or number, so that a page can be
   printed in grey and read by colour-blind people (palette of Okabe and Ito; one ramp from light to dark). */
#ifndef ATTILE_SVG_H
#define ATTILE_SVG_H

#include "text.h"

/* Escapes text for HTML or SVG. */
void html_escape(struct text *text, const char *string);

struct axis {
    const char *label;
    double least, most; /* limits of the visible range; svg_axis adds a margin */
    bool log;
};

/* Returns an axis that shows all values in [least, most]; a log axis needs values above 0. */
struct axis svg_axis(const char *label, double least, double most, bool log);

struct plot {
    struct text *text;
    struct axis x, y;
};

enum { MARKS = 7 };

/* plot_open draws frame, ticks and labels; marks follow in data coordinates. What lies outside is not drawn. */
void plot_open(struct plot *plot, struct text *text, struct axis x, struct axis y);
void plot_mark(const struct plot *plot, double x, double y, int kind, bool strong, const char *title);
void plot_line(const struct plot *plot, double x1, double y1, double x2, double y2, bool dashed, const char *label);
void plot_close(struct plot *plot);

/* Writes the legend below a plot: the marks that have a name, and a word `more` (may be null). */
void svg_legend(struct text *text, const char *const *names, int count, const char *more);

/* A grid of cells with column and row heads. `share`: 0 = lightest, 1 = darkest, below 0 = empty. `words` is the text
   in the cell. */
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

/* Draws one horizontal bar per row: name, length relative to the longest, words behind it. */
void svg_bars(struct text *text, const char *const *names, const double *values, const char *unit, int count);

#endif
