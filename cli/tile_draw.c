#include "tile_map.h"

#include <stdlib.h>

/* One cell of a picture stands for `group` by `group` tiles. Returns their class if they agree, else partial. */
static enum formula_class cell(const struct tile_map *map, int group, int row, int column) {
    int seen = 0; /* one bit per class */
    for (int r = row * group; r < (row + 1) * group && r < map->rows; r++)
        for (int c = column * group; c < (column + 1) * group && c < map->columns; c++)
            seen |= 1 << map->class[(size_t)r * (size_t)map->columns + (size_t)c];
    return seen == 1 << FORMULA_EMPTY ? FORMULA_EMPTY : seen == 1 << FORMULA_FULL ? FORMULA_FULL : FORMULA_PARTIAL;
}

static int divide_up(int a, int b) { return (a + b - 1) / b; }

void tile_map_draw(const struct tile_map *map, int width, struct text *text) {
    static const char shown[] = {[FORMULA_EMPTY] = '.', [FORMULA_PARTIAL] = '+', [FORMULA_FULL] = '#'};
    int larger = map->rows > map->columns ? map->rows : map->columns, group = divide_up(larger, width);
    for (int row = 0; group > 0 && row < divide_up(map->rows, group); row++) {
        text_print(text, "  ");
        for (int column = 0; column < divide_up(map->columns, group); column++)
            text_append(text, &shown[cell(map, group, row, column)], 1);
        text_print(text, "\n");
    }
    text_print(text, "  . empty  + partial  # full");
    if (group > 1)
        text_print(text, "; one sign for %d x %d tiles", group, group);
    text_print(text, "\n");
}

/* --- SVG */

static void print_escaped(const char *bytes, struct text *text) {
    for (; *bytes; bytes++)
        switch (*bytes) {
        case '<': text_print(text, "&lt;"); break;
        case '>': text_print(text, "&gt;"); break;
        case '&': text_print(text, "&amp;"); break;
        case '"': text_print(text, "&quot;"); break;
        default: text_append(text, bytes, 1);
        }
}

/* Draws adjacent cells of one class in a row as one rectangle; empty ones are the background. */
static void print_row(const struct tile_map *map, int group, int row, double size, struct text *text) {
    static const char *const names[] = {[FORMULA_PARTIAL] = "partial", [FORMULA_FULL] = "full"};
    int columns = divide_up(map->columns, group);
    for (int column = 0, end; column < columns; column = end) {
        enum formula_class class = cell(map, group, row, column);
        for (end = column + 1; end < columns && cell(map, group, row, end) == class;)
            end++;
        if (class != FORMULA_EMPTY)
            text_print(text, "<rect class=\"%s\" x=\"%.4g\" y=\"%.4g\" width=\"%.4g\" height=\"%.4g\"/>\n",
                       names[class], column * size, row * size, (end - column) * size, size);
    }
}

static void print_legend(const struct tile_map *map, double y, struct text *text) {
    static const struct {
        enum formula_class class;
        const char *name, *means;
    } rows[] = {{FORMULA_EMPTY, "empty", "never loaded"},
                {FORMULA_PARTIAL, "partial", "mask computed"},
                {FORMULA_FULL, "full", "no mask code"}};
    for (int i = 0; i < 3; i++)
        text_print(text,
                   "<rect class=\"%s\" x=\"%d\" y=\"%.4g\" width=\"12\" height=\"12\"/>"
                   "<text x=\"%d\" y=\"%.4g\">%lld %s: %s</text>\n",
                   rows[i].name, 230 * i, y, 230 * i + 18, y + 11, (long long)map->count[rows[i].class], rows[i].name,
                   rows[i].means);
}

void tile_map_svg(const struct tile_map *map, const char *title, struct text *text) {
    enum { SIDE = 640, CELLS = 256, MARGIN = 40 };
    int larger = map->rows > map->columns ? map->rows : map->columns, group = larger > 0 ? divide_up(larger, CELLS) : 1;
    int rows = divide_up(map->rows, group), columns = divide_up(map->columns, group);
    double size = larger > 0 ? (double)SIDE / divide_up(larger, group) : 0;
    double width = columns * size, height = rows * size;
    text_print(text,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%d %d %d %.4g\" font-family=\"sans-serif\" "
               "font-size=\"12\">\n"
               "<style>.empty { fill: #e8ecf1 } .partial { fill: #e8a33d } .full { fill: #2f6690 }</style>\n"
               "<title>",
               -MARGIN, -2 * MARGIN, SIDE + 2 * MARGIN, height + 4 * MARGIN);
    print_escaped(title, text);
    text_print(text, "</title>\n<text x=\"0\" y=\"-44\" font-size=\"13\">");
    print_escaped(title, text);
    text_print(text,
               "</text>\n<text x=\"0\" y=\"-10\">keys &#8594; (tiles of %d)</text>\n"
               "<text x=\"-10\" y=\"0\" text-anchor=\"end\" transform=\"rotate(-90 -10 0)\">&#8592; queries (tiles of "
               "%d)</text>\n<rect class=\"empty\" width=\"%.4g\" height=\"%.4g\"/>\n",
               map->block_n, map->block_m, width, height);
    for (int row = 0; row < rows; row++)
        print_row(map, group, row, size, text);
    print_legend(map, height + 20, text);
    text_print(text, "</svg>\n");
}
