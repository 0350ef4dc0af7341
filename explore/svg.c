#include "svg.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 400, LEFT = 72, RIGHT = 24, TOP = 16, BOTTOM = 52 };

static const char *const colours[MARKS] = {"#0072b2", "#d55e00", "#009e73",     "#cc79a7",
                                           "#56b4e9", "#e69f00", "currentColor"};

void html_escape(struct text *text, const char *string) {
    for (; *string; string++) {
        switch (*string) {
        case '<': text_print(text, "&lt;"); break;
        case '>': text_print(text, "&gt;"); break;
        case '&': text_print(text, "&amp;"); break;
        case '"': text_print(text, "&quot;"); break;
        default: text_append(text, string, 1);
        }
    }
}

/* --- axes ----------------------------------------------------------------------------------------------------------- */

struct axis svg_axis(const char *label, double least, double most, bool log) {
    if (!(least <= most))
        least = most = 1;
    if (log) {
        least = fmax(least, 1e-12);
        double room = pow(fmax(most / least, 2), 0.06);
        return (struct axis){label, least / room, fmax(most, 2 * least) * room, true};
    }
    double room = most > least ? 0.06 * (most - least) : fmax(0.5, 0.1 * fabs(most));
    return (struct axis){label, least - room, most + room, false};
}

/* Maps a value to 0 to 1 along the axis. */
static double along(const struct axis *axis, double value) {
    if (axis->log)
        return value > 0 ? log(value / axis->least) / log(axis->most / axis->least) : -1;
    return (value - axis->least) / (axis->most - axis->least);
}

static double x_of(const struct plot *plot, double x) { return LEFT + along(&plot->x, x) * (WIDTH - LEFT - RIGHT); }
static double y_of(const struct plot *plot, double y) {
    return HEIGHT - BOTTOM - along(&plot->y, y) * (HEIGHT - TOP - BOTTOM);
}

/* Finds round numbers on an axis: 1, 2, 5 times powers of ten; fewer where they would be too many. */
static int find_ticks(const struct axis *axis, double *tick, int most) {
    int count = 0;
    if (axis->log) {
        double decades = log10(axis->most / axis->least);
        for (int power = (int)floor(log10(axis->least)); power <= (int)ceil(log10(axis->most)); power++)
            for (int digit = 1; digit < 10; digit++) {
                double value = digit * pow(10, power);
                bool shown = digit == 1 || (decades < 4 && (digit == 2 || digit == 5)) || decades < 0.7;
                if (shown && value >= axis->least && value <= axis->most && count < most)
                    tick[count++] = value;
            }
        return count;
    }
    double step = pow(10, floor(log10((axis->most - axis->least) / 4)));
    while ((axis->most - axis->least) / step > 8)
        step *= (axis->most - axis->least) / step > 16 ? 5 : 2;
    for (double value = ceil(axis->least / step) * step; value <= axis->most && count < most; value += step)
        tick[count++] = fabs(value) < step / 1e6 ? 0 : value;
    return count;
}

void plot_open(struct plot *plot, struct text *text, struct axis x, struct axis y) {
    enum { TICKS = 24 };
    double tick[TICKS];
    *plot = (struct plot){text, x, y};
    text_print(text, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n", WIDTH, HEIGHT, WIDTH);
    int count = find_ticks(&x, tick, TICKS);
    for (int i = 0; i < count; i++)
        text_print(text,
                   "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" class=\"tick mid\">%.4g</text>\n",
                   x_of(plot, tick[i]), TOP, HEIGHT - BOTTOM, x_of(plot, tick[i]), HEIGHT - BOTTOM + 16, tick[i]);
    count = find_ticks(&y, tick, TICKS);
    for (int i = 0; i < count; i++)
        text_print(text,
                   "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" class=\"tick end\">%.4g</text>\n",
                   LEFT, y_of(plot, tick[i]), WIDTH - RIGHT, LEFT - 6, y_of(plot, tick[i]) + 4, tick[i]);
    text_print(text, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP,
               WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    text_print(text, "<text x=\"%d\" y=\"%d\" class=\"mid\">", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    html_escape(text, x.label);
    text_print(text, "</text>\n<text transform=\"translate(16 %d) rotate(-90)\" class=\"mid\">",
               (TOP + HEIGHT - BOTTOM) / 2);
    html_escape(text, y.label);
    text_print(text, "</text>\n");
}

/* Draws a mark. Each colour has its own shape. */
static void print_mark(struct text *text, double x, double y, int kind, bool strong) {
    static const char *const paths[MARKS] = {"",
                                             "m-4 -4h8v8h-8z",
                                             "m0 -5l5 9h-10z",
                                             "m0 -5l5 5l-5 5l-5 -5z",
                                             "m-4 -4l8 8m0 -8l-8 8",
                                             "m-5 0h10m-5 -5v10",
                                             "m0 5l5 -9h-10z"};
    kind = kind % MARKS;
    const char *fill = strong ? colours[kind] : "none";
    if (kind == 0)
        text_print(text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" stroke=\"%s\" fill=\"%s\"", x, y, colours[kind],
                   fill);
    else
        text_print(text, "<path d=\"M%.1f %.1f%s\" stroke=\"%s\" stroke-width=\"%s\" fill=\"%s\"", x, y, paths[kind],
                   colours[kind], strong ? "2" : "1", fill);
}

void plot_mark(const struct plot *plot, double x, double y, int kind, bool strong, const char *title) {
    double right = along(&plot->x, x), up = along(&plot->y, y);
    if (!(right >= 0 && right <= 1 && up >= 0 && up <= 1))
        return;
    print_mark(plot->text, x_of(plot, x), y_of(plot, y), kind, strong);
    text_print(plot->text, "><title>");
    html_escape(plot->text, title);
    text_print(plot->text, "</title>%s\n", kind % MARKS == 0 ? "</circle>" : "</path>");
}

/* Draws a line that is straight on the axes as they are: roofs are straight on log axes. Clips it to the frame. */
void plot_line(const struct plot *plot, double x1, double y1, double x2, double y2, bool dashed, const char *label) {
    double a = along(&plot->x, x1), b = along(&plot->x, x2), c = along(&plot->y, y1), d = along(&plot->y, y2);
    double from = 0, to = 1;
    if (!isfinite(a) || !isfinite(b) || !isfinite(c) || !isfinite(d))
        return;
    const double start[] = {a, c}, slope[] = {b - a, d - c};
    for (int i = 0; i < 2; i++) {
        if (slope[i] == 0) {
            if (start[i] < 0 || start[i] > 1)
                return;
            continue;
        }
        double low = -start[i] / slope[i], high = (1 - start[i]) / slope[i];
        from = fmax(from, fmin(low, high));
        to = fmin(to, fmax(low, high));
    }
    if (!(from < to))
        return;
    double left = LEFT + (a + from * (b - a)) * (WIDTH - LEFT - RIGHT);
    double right = LEFT + (a + to * (b - a)) * (WIDTH - LEFT - RIGHT);
    double low = HEIGHT - BOTTOM - (c + from * (d - c)) * (HEIGHT - TOP - BOTTOM);
    double high = HEIGHT - BOTTOM - (c + to * (d - c)) * (HEIGHT - TOP - BOTTOM);
    text_print(plot->text, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", dashed ? "dashed" : "line", left, low,
               right, high);
    if (label && *label) {
        text_print(plot->text, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick end\">", right - 4,
                   high + (high < TOP + 16 ? 14 : -5));
        html_escape(plot->text, label);
        text_print(plot->text, "</text>\n");
    }
}

void plot_close(struct plot *plot) { text_print(plot->text, "</svg>\n"); }

void svg_legend(struct text *text, const char *const *names, int count, const char *more) {
    text_print(text, "<p class=\"legend\">");
    for (int i = 0; i < count; i++) {
        if (!names[i])
            continue;
        text_print(text, "<svg width=\"14\" height=\"14\">");
        print_mark(text, 7, 7, i, true);
        text_print(text, "/></svg> ");
        html_escape(text, names[i]);
        text_print(text, "&emsp;");
    }
    html_escape(text, more ? more : "");
    text_print(text, "</p>\n");
}

/* --- grids ------------------------------------------------------------------------------------------------------------ */

enum { CELL_HEIGHT = 24, HEAD_WIDTH = 150, HEAD_HEIGHT = 42 };

void grid_open(struct grid *grid, struct text *text, int columns, int rows, int cell_width, const char *x_label,
               const char *y_label) {
    *grid = (struct grid){text, columns, rows, cell_width};
    int width = HEAD_WIDTH + columns * cell_width + 8, height = HEAD_HEIGHT + rows * CELL_HEIGHT + 4;
    text_print(text, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n", width, height, width);
    text_print(text, "<text x=\"%d\" y=\"14\" class=\"mid\">", HEAD_WIDTH + columns * cell_width / 2);
    html_escape(text, x_label);
    text_print(text, "</text>\n<text x=\"%d\" y=\"%d\" class=\"end\">", HEAD_WIDTH - 8, HEAD_HEIGHT - 8);
    html_escape(text, y_label);
    text_print(text, "</text>\n");
}

void grid_head(const struct grid *grid, int column, int row, const char *words) {
    int x = column < 0 ? HEAD_WIDTH - 8 : HEAD_WIDTH + column * grid->cell_width + grid->cell_width / 2;
    int y = row < 0 ? HEAD_HEIGHT - 8 : HEAD_HEIGHT + row * CELL_HEIGHT + 16;
    text_print(grid->text, "<text x=\"%d\" y=\"%d\" class=\"tick %s\">", x, y, column < 0 ? "end" : "mid");
    html_escape(grid->text, words);
    text_print(grid->text, "</text>\n");
}

void grid_cell(const struct grid *grid, int column, int row, double share, const char *words, const char *title) {
    int x = HEAD_WIDTH + column * grid->cell_width, y = HEAD_HEIGHT + row * CELL_HEIGHT;
    share = fmin(share, 1);
    /* from nearly white to dark blue */
    int red = (int)(238 - 230 * share), green = (int)(243 - 195 * share), blue = (int)(250 - 143 * share);
    if (share < 0)
        return;
    text_print(grid->text, "<g><title>");
    html_escape(grid->text, title);
    text_print(grid->text,
               "</title><rect class=\"cell\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>"
               "<text x=\"%d\" y=\"%d\" class=\"tick mid\" fill=\"%s\">",
               x, y, grid->cell_width, CELL_HEIGHT, red, green, blue, x + grid->cell_width / 2, y + 16,
               share > 0.55 ? "#ffffff" : "#000000");
    html_escape(grid->text, words);
    text_print(grid->text, "</text></g>\n");
}

void grid_close(struct grid *grid) { text_print(grid->text, "</svg>\n"); }

/* --- bars ----------------------------------------------------------------------------------------------------------- */

void svg_bars(struct text *text, const char *const *names, const double *values, const char *unit, int count) {
    double longest = 0;
    for (int i = 0; i < count; i++)
        longest = fmax(longest, values[i]);
    text_print(text, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n", WIDTH, count * 26 + 4, WIDTH);
    for (int i = 0; i < count; i++) {
        double width = longest > 0 ? values[i] / longest * 320 : 0;
        text_print(text, "<text x=\"180\" y=\"%d\" class=\"end\">", i * 26 + 18);
        html_escape(text, names[i]);
        text_print(text,
                   "</text><rect x=\"188\" y=\"%d\" width=\"%.1f\" height=\"18\" fill=\"%s\"/>"
                   "<text x=\"%.1f\" y=\"%d\">%.3g %s</text>\n",
                   i * 26 + 4, fmax(width, 1), colours[0], 194 + width, i * 26 + 18, values[i], unit);
    }
    text_print(text, "</svg>\n");
}
