#include "tune_report.h"
#include "file.h"
#include "stage.h"
#include "terminal.h"
#include "winners.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { TABLE_BYTES = 1 << 20 };

static const char *const table_options[] = {"table", "lock"};
enum { TABLE_OPTIONS = sizeof table_options / sizeof *table_options };

static bool is_lock(const char *option) { return strcmp(option, "lock") == 0; }

/* --- the tuned table and the lock file ---------------------------------------------------------------------------------------------- */

/* Opens the existing table, or null: rows of other problems and shapes stay. */
static enum exit_code open_table(const struct cli *cli, const char *option, const char *device, struct tuned **tuned) {
    const char *path = cli_text(cli, option, NULL);
    struct text content = {0}, error = {0};
    struct diag diag = {0};
    enum exit_code code = CLI_OK;
    *tuned = NULL;
    if (!path || (access(path, F_OK) != 0 && errno == ENOENT))
        return CLI_OK;
    if (!file_load(path, TABLE_BYTES, &content, &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    else if (!(*tuned = tuned_read(path, text_string(&content), content.size, &diag)))
        code = cli_report(cli, CLI_SPEC, text_string(&diag.text));
    else if (strcmp((*tuned)->device, device) != 0)
        code = cli_error(cli, CLI_USAGE, "%s is the table of %s, and this is %s; one table is for one device", path,
                         (*tuned)->device, device);
    else if (!(*tuned)->lock == is_lock(option))
        code = cli_error(cli, CLI_USAGE, "--%s: %s is a %s; name another file", option, path,
                         (*tuned)->lock ? "lock file" : "tuned table");
    text_free(&content);
    text_free(&error);
    diag_free(&diag);
    return code;
}

enum exit_code tune_can_save_tables(const struct cli *cli) {
    enum exit_code code = CLI_OK;
    for (int i = 0; !code && i < TABLE_OPTIONS; i++) {
        const char *path = cli_text(cli, table_options[i], NULL);
        struct text error = {0};
        if (path && !file_can_save(path, &error))
            code = cli_error(cli, CLI_IO, "--%s: %s", table_options[i], text_string(&error));
        text_free(&error);
    }
    return code;
}

enum exit_code tune_check_tables(const struct cli *cli, const char *device) {
    enum exit_code code = CLI_OK;
    for (int i = 0; !code && i < TABLE_OPTIONS; i++) {
        struct tuned *tuned;
        code = open_table(cli, table_options[i], device, &tuned);
        tuned_free(tuned);
    }
    return code;
}

static enum exit_code save_table(const struct cli *cli, const struct tuned *tuned,
                                 const struct winners_counts *counts) {
    const char *path = tuned->name;
    struct text text = {0}, error = {0};
    tuned_write(tuned, &text);
    bool saved = !text.failed && file_save(path, text.bytes, text.size, NULL, &error);
    if (!saved)
        cli_error(cli, CLI_IO, "%s", text.failed ? "out of memory" : text_string(&error));
    else
        cli_note(cli, "%s: %d row%s put in, %d in all; %d variant%s taken out of service", path, counts->rows,
                 counts->rows == 1 ? "" : "s", tuned->rows, counts->denied, counts->denied == 1 ? "" : "s");
    text_free(&text);
    text_free(&error);
    return saved ? CLI_OK : CLI_IO;
}

static enum exit_code write_table(const struct cli *cli, const char *option, const struct results *results, int number,
                                  const struct template_set *set) {
    const struct result_setting *setting = &results->setting[number];
    struct tuned *old, *tuned;
    struct winners_counts counts;
    struct text measured = {0};
    enum exit_code code = open_table(cli, option, setting->device, &old);
    if (code) {
        tuned_free(old);
        return code;
    }
    text_print(&measured, "attile %s, %s%s%s", setting->generator, setting->compiler,
               *setting->driver ? ", driver for CUDA " : "", setting->driver);
    tuned = tuned_new(cli_text(cli, option, ""), setting->device, text_string(&measured));
    bool good = tuned && !measured.failed;
    for (int i = 0; good && old && i < old->rows; i++)
        good = tuned_put(tuned, &old->row[i]);
    for (int i = 0; good && old && i < old->denials; i++)
        good = tuned_deny(tuned, &old->denial[i].knobs, old->denial[i].version, old->denial[i].because);
    good = good && winners_fill(tuned, results, number, set, &counts) && (!is_lock(option) || winners_lock(tuned, set));
    code = good ? save_table(cli, tuned, &counts) : cli_error(cli, CLI_INTERNAL, "out of memory");
    if (good && counts.stale)
        cli_note(cli, "%d measurements are of kernels whose source is another one now; they are left aside",
                 counts.stale);
    text_free(&measured);
    tuned_free(old);
    tuned_free(tuned);
    return code;
}

/* --- for people --------------------------------------------------------------------------------------------------- */

struct row { /* a cell and its winner */
    const struct result_cell *cell;
    const struct result_kernel *winner;
    double seconds, tflops, margin;
    int measured, failed;
};

static struct row look(const struct result_cell *cell, const struct template_set *set) {
    struct row row = {.cell = cell, .tflops = NAN};
    struct winner winner;
    struct knobs problem;
    struct shape shape;
    for (int i = 0; i < cell->kernels; i++) {
        row.failed += cell->kernel[i].status != NULL;
        row.measured += !cell->kernel[i].status && cell->kernel[i].passes > 0;
    }
    if (!winners_of(cell, set, &winner))
        return row;
    row.winner = &cell->kernel[winner.kernel];
    row.seconds = winner.seconds;
    row.margin = winner.margin;
    if (winners_read_problem(cell->problem, &problem) && winners_read_shape(cell->shape, problem.family, &shape))
        row.tflops = stage_operations(&problem, &shape) / row.seconds * 1e-12;
    return row;
}

static void print_row(struct table *table, const struct row *row) {
    enum { PROBLEM, SHAPE, BEST, TIME, RATE, MARGIN, MEASURED, FAILED };
    struct text time = {0};
    print_seconds(&time, row->seconds);
    table_row(table);
    table_cell(table, PROBLEM, CELL_PLAIN, "%s", row->cell->problem);
    table_cell(table, SHAPE, CELL_PLAIN, "%s", row->cell->shape);
    table_cell(table, BEST, row->winner ? CELL_GOOD : CELL_BAD, "%s",
               row->winner     ? row->winner->schedule
               : row->measured ? "none with its present source"
                               : "no kernel was right");
    table_cell(table, TIME, CELL_PLAIN, "%s", row->winner ? text_string(&time) : "-");
    table_cell(table, RATE, CELL_PLAIN, row->winner ? "%.1f" : "-", row->tflops);
    table_cell(table, MARGIN, CELL_PLAIN, row->margin > 0 ? "%.3f" : "-", row->margin);
    table_cell(table, MEASURED, CELL_PLAIN, "%d", row->measured);
    table_cell(table, FAILED, row->failed ? CELL_BAD : CELL_PLAIN, "%d", row->failed);
    text_free(&time);
}

static void print_json(struct json *json, const struct row *row) {
    json_open_object(json, NULL);
    json_put_string(json, "problem", row->cell->problem);
    json_put_string(json, "shape", row->cell->shape);
    json_put_string(json, "variant", row->winner ? row->winner->variant : NULL);
    json_put_string(json, "target", row->winner ? row->winner->target : NULL);
    json_put_string(json, "schedule", row->winner ? row->winner->schedule : NULL);
    json_put_number(json, "seconds", row->winner ? row->seconds : NAN);
    json_put_number(json, "tflops", row->tflops);
    json_put_number(json, "margin", row->margin > 0 ? row->margin : NAN);
    json_put_integer(json, "measured", row->measured);
    json_put_integer(json, "failed", row->failed);
    json_end(json);
}

enum exit_code tune_report(struct cli *cli, const struct results *results, int setting,
                           const struct template_set *set) {
    static const char *const headings[] = {"problem", "shape",  "best",     "time",
                                           "TFLOP/s", "margin", "measured", "failed"};
    struct table table;
    struct json json;
    enum exit_code code = CLI_OK;
    table_open(&table, 8, headings, "lllrrrrr");
    if (cli->json) {
        cli_json_open(cli, &json);
        json_put_string(&json, "device", results->setting[setting].device);
        json_put_string(&json, "compiler", results->setting[setting].compiler);
        json_put_string(&json, "driver", results->setting[setting].driver);
        json_open_array(&json, "best");
    }
    for (int i = 0; i < results->cells; i++) {
        if (results->cell[i].setting != setting)
            continue;
        struct row row = look(&results->cell[i], set);
        if (row.failed && !row.measured)
            code = CLI_MISMATCH;
        if (cli->json)
            print_json(&json, &row);
        else
            print_row(&table, &row);
    }
    if (cli->json)
        json_close(&json);
    else
        table_print(&table, cli->color_out, cli->width, &cli->out);
    table_free(&table);
    enum exit_code written = CLI_OK;
    for (int i = 0; !written && i < TABLE_OPTIONS; i++)
        if (cli_given(cli, table_options[i]))
            written = write_table(cli, table_options[i], results, setting, set);
    code = cli_worse(code, written);
    return code;
}
