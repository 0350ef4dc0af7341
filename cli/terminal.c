#include "terminal.h"
#include "clock.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_color(FILE *stream, enum color_choice choice) {
    if (choice != COLOR_AUTO)
        return choice == COLOR_ALWAYS;
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(stream)) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

void progress_open(struct progress *progress, int total, bool quiet) {
    const char *term = getenv("TERM");
    *progress = (struct progress){.shown = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0,
                                  .total = total};
}

void progress_show(struct progress *progress, int done, const char *what) {
    enum { BAR = 24 };
    if (!progress->shown || progress->total <= 0 || clock_seconds() - progress->last < 0.05)
        return;
    progress->last = clock_seconds();
    int filled = (int)((int64_t)BAR * done / progress->total);
    fprintf(stderr, "\r\033[K[%.*s%*s] %d/%d %.60s", filled, "########################", BAR - filled, "", done,
            progress->total, what);
    fflush(stderr);
}

void progress_close(struct progress *progress) {
    if (progress->shown)
        fprintf(stderr, "\r\033[K");
    progress->shown = false;
}

/* --- tables ------------------------------------------------------------------------------------------------------ */

void table_row(struct table *table) {
    int need = (table->rows + 1) * table->columns;
    if (need > table->room) {
        int room = need * 2;
        struct table_cell *cell = realloc(table->cell, sizeof *cell * (size_t)room);
        if (!cell) {
            table->failed = true;
            return;
        }
        memset(cell + table->room, 0, sizeof *cell * (size_t)(room - table->room));
        table->cell = cell;
        table->room = room;
    }
    table->rows++;
}

void table_cell(struct table *table, int column, enum cell_style style, const char *format, ...) {
    if (table->failed)
        return;
    struct text text = {0};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&text, format, arguments);
    va_end(arguments);
    struct table_cell *cell = &table->cell[(table->rows - 1) * table->columns + column];
    free(cell->text);
    *cell = (struct table_cell){text.bytes, style}; /* the cell takes the bytes over */
}

void table_open(struct table *table, int columns, const char *const *headings, const char *alignment) {
    *table = (struct table){.columns = columns};
    table_row(table);
    for (int i = 0; i < columns; i++) {
        table->right[i] = alignment[i] == 'r';
        table_cell(table, i, CELL_FAINT, "%s", headings[i]);
    }
}

/* Columns that a UTF-8 text takes (none of ours is wide). */
static int width_of(const char *text) {
    int width = 0;
    for (; text && *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

void table_print(const struct table *table, bool color, struct text *text) {
    static const char *const begin[] = {
        [CELL_PLAIN] = "", [CELL_GOOD] = "\033[32m", [CELL_BAD] = "\033[31m", [CELL_FAINT] = "\033[2m"};
    int width[TABLE_COLUMNS] = {0};
    text->failed = text->failed || table->failed;
    for (int i = 0; i < table->rows * table->columns; i++) {
        int w = width_of(table->cell[i].text);
        if (w > width[i % table->columns])
            width[i % table->columns] = w;
    }
    for (int row = 0; row < table->rows; row++) {
        for (int column = 0; column < table->columns; column++) {
            const struct table_cell *cell = &table->cell[row * table->columns + column];
            bool painted = color && cell->style != CELL_PLAIN, last = column == table->columns - 1;
            int pad = width[column] - width_of(cell->text);
            text_print(text, "%*s%s%s%s%*s%s", table->right[column] ? pad : 0, "", painted ? begin[cell->style] : "",
                       cell->text ? cell->text : "", painted ? "\033[0m" : "", table->right[column] || last ? 0 : pad,
                       "", last ? "\n" : "  ");
        }
    }
}

void table_free(struct table *table) {
    for (int i = 0; i < table->room; i++)
        free(table->cell[i].text);
    free(table->cell);
    *table = (struct table){0};
}

/* Three significant digits with the unit that keeps the number small. */
static void print_scaled(struct text *text, double value, double step, const char *const *units, int count) {
    int unit = 0;
    while (unit + 1 < count && value >= step * 0.9995) {
        value /= step;
        unit++;
    }
    text_print(text, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
}

void print_seconds(struct text *text, double seconds) {
    static const char *const units[] = {"us", "ms", "s"};
    print_scaled(text, seconds * 1e6, 1000, units, 3);
}

void print_bytes(struct text *text, double bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024)
        text_print(text, "%.0f B", bytes);
    else
        print_scaled(text, bytes / 1024, 1024, units, 4);
}
