#include "terminal.h"
#include "clock.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_color(FILE *stream, enum color_choice choice) {
    if (choice != COLOR_AUTO)
        return choice == COLOR_ALWAYS;
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(stream)) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

int terminal_width(FILE *stream) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    int wish = columns ? atoi(columns) : 0;
    if (wish > 0)
        return wish;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDTH_UNKNOWN;
}

void terminal_wrap(struct text *text, const char *words, int indent, int width) {
    int column = indent;
    for (const char *word = words; *word;) {
        int size = (int)strcspn(word, " ");
        if (column > indent && column + 1 + size > width) {
            text_print(text, "\n%*s", indent, "");
            column = indent;
        }
        text_print(text, "%s%.*s", column > indent ? " " : "", size, word);
        column += size + (column > indent);
        word += size + (word[size] == ' ');
    }
    text_print(text, "\n");
}

void progress_open(struct progress *progress, int total, bool quiet) {
    const char *term = getenv("TERM");
    *progress = (struct progress){.shown = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0,
                                  .total = total,
                                  .width = terminal_width(stderr)};
}

void progress_show(struct progress *progress, int done, const char *what) {
    enum { BAR = 24 };
    if (!progress->shown || progress->total <= 0 || clock_seconds() - progress->last < 0.05)
        return;
    progress->last = clock_seconds();
    int filled = (int)((int64_t)BAR * done / progress->total);
    struct text line = {0};
    text_print(&line, "[%.*s%*s] %d/%d %s", filled, "########################", BAR - filled, "", done, progress->total,
               what);
    fprintf(stderr, "\r\033[K%.*s", progress->width - 1, text_string(&line)); /* a full line would wrap */
    fflush(stderr);
    text_free(&line);
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
    *cell = (struct table_cell){text.bytes, style}; /* the cell takes ownership of the bytes */
}

void table_open(struct table *table, int columns, const char *const *headings, const char *alignment) {
    *table = (struct table){.columns = columns};
    table_row(table);
    for (int i = 0; i < columns; i++) {
        table->right[i] = alignment[i] == 'r';
        table_cell(table, i, CELL_FAINT, "%s", headings[i]);
    }
}

/* Returns the columns of a UTF-8 text (none of our characters is wide). */
static int width_of(const char *text) {
    int width = 0;
    for (; text && *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* True if any row has text in this column. */
static bool has_values(const struct table *table, int column) {
    bool any = table->rows == 1;
    for (int row = 1; row < table->rows && !any; row++) {
        const char *text = table->cell[row * table->columns + column].text;
        any = text && *text && strcmp(text, "-") != 0;
    }
    return any;
}

/* Finds the width of every column, 0 = left out. If the table is too wide, the widest text columns shrink. */
static void find_widths(const struct table *table, int most, int *width) {
    enum { LEAST = 12, GAP = 2 };
    int total = -GAP;
    for (int column = 0; column < table->columns; column++) {
        for (int row = 0; row < table->rows && has_values(table, column); row++) {
            int w = width_of(table->cell[row * table->columns + column].text);
            width[column] = w > width[column] ? w : width[column];
        }
        total += width[column] > 0 ? width[column] + GAP : 0;
    }
    for (; total > most; total--) {
        int widest = -1;
        for (int column = 0; column < table->columns; column++)
            if (!table->right[column] && width[column] > (widest < 0 ? LEAST : width[widest]))
                widest = column;
        if (widest < 0)
            return;
        width[widest]--;
    }
}

/* Returns how many bytes of a text fit into a line, breaking after a word, or else within one; *next: where the next
   line begins. */
static int take_line(const char *text, int width, const char **next) {
    int columns = 0, word = 0, part = 0;
    const char *at = text;
    for (; *at && (columns < width || ((unsigned char)*at & 0xC0) == 0x80); at++) {
        columns += ((unsigned char)*at & 0xC0) != 0x80;
        if (*at == ' ')
            word = (int)(at - text);
        else if (strchr(",_", *at))
            part = (int)(at + 1 - text);
    }
    int size = !*at || *at == ' ' ? (int)(at - text) : word ? word : part ? part : (int)(at - text);
    *next = text + size + strspn(text + size, " ");
    return size;
}

/* Prints one row: as many lines as the cell with the most lines. */
static void print_row(const struct table *table, int row, const int *width, bool color, struct text *text) {
    static const char *const begin[] = {
        [CELL_PLAIN] = "", [CELL_GOOD] = "\033[32m", [CELL_BAD] = "\033[31m", [CELL_FAINT] = "\033[2m"};
    const struct table_cell *cell = &table->cell[row * table->columns];
    const char *rest[TABLE_COLUMNS];
    bool more = true;
    for (int column = 0; column < table->columns; column++)
        rest[column] = width[column] > 0 && cell[column].text ? cell[column].text : "";
    while (more) {
        int blanks = 0; /* pending blanks: none at the end of a line */
        more = false;
        for (int column = 0; column < table->columns; column++) {
            const char *piece = rest[column];
            int size = take_line(piece, width[column], &rest[column]);
            char *words = strndup(piece, (size_t)size);
            int pad = width[column] - width_of(words);
            bool painted = color && cell[column].style != CELL_PLAIN && size > 0;
            if (size > 0)
                text_print(text, "%*s%s%.*s%s", blanks + (table->right[column] ? pad : 0), "",
                           painted ? begin[cell[column].style] : "", size, piece, painted ? "\033[0m" : "");
            blanks =
                (size > 0 ? 0 : blanks) + (table->right[column] && size > 0 ? 0 : pad) + (width[column] > 0 ? 2 : 0);
            more = more || *rest[column];
            free(words);
        }
        text_print(text, "\n");
    }
}

void table_print(const struct table *table, bool color, int most, struct text *text) {
    int width[TABLE_COLUMNS] = {0};
    text->failed = text->failed || table->failed;
    find_widths(table, most, width);
    for (int row = 0; row < table->rows; row++)
        print_row(table, row, width, color, text);
}

void table_free(struct table *table) {
    for (int i = 0; i < table->room; i++)
        free(table->cell[i].text);
    free(table->cell);
    *table = (struct table){0};
}

/* Prints three significant digits with the unit that keeps the number small. */
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
