/* attile run: runs every feasible variant of a spec on the same tensors, checks each result, and prints one row per
   variant. */
#include "check.h"
#include "choose.h"
#include "file.h"
#include "inputs.h"
#include "nvrtc.h"
#include "session.h"
#include "terminal.h"
#include "shape_text.h"
#include "variant_label.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct option options_run[] = {
    {"device", 'd', OPTION_WORD, "auto|cuda|host",
     "where to run; auto (default) = a GPU if there is one, else this CPU"},
    {"gpu", 0, OPTION_NUMBER, "N", "which GPU (default: 0)"},
    {"host-mode", 0, OPTION_WORD, "check|fast|race",
     "what the host device watches: bounds and bytes (default), nothing, or races"},
    {"host-seed", 0, OPTION_NUMBER, "N", "run the host device's threads in a random order, seeded by N"},
    INPUT_OPTIONS,
    {"params", 0, OPTION_TEXT, "LIST",
     "parameters of mask and score, such as 'window=64,doc=doc.npy'; the others are random"},
    {"out", 'o', OPTION_TEXT, "FILE", "write the output as .npy; needs a single variant and shape"},
    {"repeat", 0, OPTION_NUMBER, "N", "time N more launches after the first (default: 20 on cuda, 0 on host)"},
    {"spread", 0, OPTION_FLAG, NULL, "store tensors as (batch, row, head, column) with gaps between rows"},
    {"check", 0, OPTION_FLAG, NULL,
     "check lengths and page numbers on the device before the launch; the host device always does"},
    {"no-nvrtc", 0, OPTION_FLAG, NULL, "do not ask NVRTC for registers and spills when running on the host device"},
    {"cache-dir", 0, OPTION_TEXT, "DIR", "folder of compiled kernels"},
    {"no-cache", 0, OPTION_FLAG, NULL, "neither read nor write compiled kernels on disk"},
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

struct job {
    struct cli *cli;
    struct catalog catalog;
    struct inputs inputs;
    att_session *session;
    struct att_session_info info;
    struct nvrtc *nvrtc;      /* null: not found, not wanted, or the device compiles with it anyway */
    struct workload workload; /* the last one, kept for the next variant of the same problem */
    struct check_options options;
    struct table table;
    struct variant_label label;
    struct json json;
    struct progress progress;
    int variants, done, ran, right;
    int elsewhere;          /* variants of a spec whose target this GPU cannot run */
    int64_t compared, nans; /* elements, over all rows */
};

struct row { /* result of one variant over all shapes */
    const struct variant *variant;
    enum att_status status;
    struct att_kernel_info info;
    struct check_result sum; /* largest error, summed time, counters and mismatches */
    int runs;                /* number of shapes it ran on */
    enum exit_code code;
    bool elsewhere; /* its target is for another GPU */
};

/* --- one variant -------------------------------------------------------------------------------------------------- */

/* The host device cannot report registers: this asks NVRTC how many the same source needs on a GPU. */
static void ask_nvrtc(const struct job *job, att_kernel *kernel, struct row *row) {
    if (!job->nvrtc || row->info.registers >= 0)
        return;
    const char *source = att_kernel_source(kernel);
    struct source again = {0};
    const char *entries[PLAN_LAUNCHES];
    struct binary binary = {0};
    struct failure failure = {0};
    if (catalog_expand(&job->catalog, job->cli, row->variant, &again) == CLI_OK) { /* for the entry names */
        for (int i = 0; i < again.plan.launches; i++)
            entries[i] = again.plan.launch[i].entry;
        struct compile_job compile = {.source = source,
                                      .name = row->variant->name,
                                      .arch = target_info(row->variant->knobs.target)->arch,
                                      .entries = entries,
                                      .entry_count = again.plan.launches};
        if (nvrtc_compile(job->nvrtc, &compile, &binary, &failure) == ATT_OK) {
            row->info.registers = binary.registers;
            row->info.spill_bytes = binary.spill_bytes;
        } else {
            row->code = cli_report(job->cli, CLI_COMPILE, text_string(&failure.text));
            row->status = failure.status;
        }
    }
    source_free(&again);
    binary_free(&binary);
    failure_clear(&failure);
}

static void print_json(struct job *job, const struct row *row, const struct shape *shape,
                       const struct check_result *result) {
    struct json *json = &job->json;
    json_open_object(json, NULL);
    json_put_string(json, "variant", row->variant->name);
    json_open_object(json, "shape");
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families & 1u << row->variant->knobs.family)
            json_put_integer(json, shape_table[id].name, shape_get(shape, (enum shape_id)id));
    json_end(json);
    json_put_string(json, "status",
                    result->status != ATT_OK ? att_status_name(result->status)
                    : result->mismatches     ? "mismatch"
                                             : "ok");
    json_put_integer(json, "compared", result->compared);
    json_put_integer(json, "nan", result->nans);
    json_put_integer(json, "mismatches", result->mismatches);
    json_put_number(json, "max_error", result->error);
    json_put_number(json, "error_of_allowed", result->worst);
    json_put_number(json, "seconds", result->seconds);
    json_put_integer(json, "global_read", (int64_t)result->counters.global_read);
    json_put_integer(json, "global_written", (int64_t)result->counters.global_written);
    json_put_integer(json, "shared_read", (int64_t)result->counters.shared_read);
    json_put_integer(json, "shared_written", (int64_t)result->counters.shared_written);
    json_put_integer(json, "shared_conflicts", (int64_t)result->counters.shared_conflicts);
    json_put_integer(json, "registers", row->info.registers);
    json_put_integer(json, "spill_bytes", row->info.spill_bytes);
    json_put_integer(json, "shared_bytes", row->info.shared_bytes);
    json_put_number(json, "compile_seconds", row->info.compile_seconds);
    json_put_string(json, "from", row->info.from);
    if (result->report.size)
        json_put_string(json, "report", text_string(&result->report));
    json_end(json);
}

static void add(struct check_result *sum, const struct check_result *result) {
    sum->compared += result->compared;
    sum->nans += result->nans;
    sum->mismatches += result->mismatches;
    sum->error = fmax(sum->error, result->error);
    sum->worst = fmax(sum->worst, result->worst);
    sum->seconds += result->seconds;
    sum->counters.global_read += result->counters.global_read;
    sum->counters.global_written += result->counters.global_written;
}

static enum exit_code write_output(const struct job *job, const struct check_result *result) {
    const char *path = cli_text(job->cli, "out", NULL);
    const struct workload_output *output = &job->workload.output[0];
    struct text file = {0}, error = {0};
    struct npy npy = {.type = output->type, .count = output->count, .data = result->output};
    int first = job->workload.problem.family == family_softmax ? DIM_ROW : DIM_BATCH;
    if (job->inputs.files.file[0].dims == 3) /* the output has the dimensions of the query file */
        first = DIM_HEAD;
    for (int d = first; d < TENSOR_DIMS; d++)
        npy.dim[npy.dims++] = output->dim[d];
    npy_print(&npy, &file);
    bool ok = file_save(path, file.bytes, file.size, NULL, &error);
    if (!ok)
        cli_error(job->cli, CLI_IO, "%s", text_string(&error));
    text_free(&file);
    text_free(&error);
    return ok ? CLI_OK : CLI_IO;
}

/* Returns false when it is pointless to go on with this variant. */
static bool run_shape(struct job *job, att_kernel *kernel, struct row *row, int number) {
    struct cli *cli = job->cli;
    struct shape shape = inputs_shape(&job->inputs, &row->variant->knobs, number);
    if (!workload_fits(&job->workload, &row->variant->knobs, &shape)) {
        struct text error = {0};
        workload_free(&job->workload);
        bool files = job->inputs.from_files || job->inputs.files.params;
        bool made = workload_make(&job->workload, &row->variant->knobs, &shape, files ? &job->inputs.files : NULL,
                                  (uint64_t)cli_number(cli, "seed", 0), &error);
        if (!made)
            row->code = cli_error(cli, CLI_INTERNAL, "%s", text_string(&error));
        text_free(&error);
        if (!made) {
            workload_free(&job->workload);
            return false;
        }
    }
    struct check_result result;
    bool right = check_run(job->session, kernel, &job->workload, &job->options, &result);
    if (!right) {
        struct text sizes = {0};
        shape_print(&shape, row->variant->knobs.family, &sizes);
        progress_close(&job->progress);
        row->code = cli_worse(row->code, result.status == ATT_OK ? CLI_MISMATCH : cli_exit_code(result.status));
        cli_error(cli, row->code, "%s on %s, %s: %" PRId64 " wrong\n%s", row->variant->name, sizes.bytes,
                  job->info.device_name, result.mismatches, text_string(&result.report));
        text_free(&sizes);
    }
    if (cli->json)
        print_json(job, row, &shape, &result);
    add(&row->sum, &result);
    row->runs += result.status == ATT_OK;
    row->status = result.status;
    if (right && cli_given(cli, "out"))
        row->code = write_output(job, &result);
    check_free(&result);
    return row->status == ATT_OK;
}

/* Reports that there is no kernel to run. A spec may name the targets of many GPUs, so those of other GPUs are not
   failures. Ctrl-C reaches the compiler, too; its failure is then not reported. */
static void report_missing(struct job *job, struct row *row) {
    row->elsewhere = job->catalog.spec && choose_missing(job->session, row->variant->knobs.target);
    if (!row->elsewhere)
        row->code = cli_exit_code(row->status);
    if (cli_interrupted())
        return;
    if (row->elsewhere && job->cli->verbose)
        cli_note(job->cli, "%s: %s", row->variant->name, att_message(job->session));
    if (!row->elsewhere) {
        progress_close(&job->progress);
        cli_error(job->cli, row->code, "%s: %s", row->variant->name, att_message(job->session));
    }
    if (job->cli->json) {
        json_open_object(&job->json, NULL);
        json_put_string(&job->json, "variant", row->variant->name);
        json_put_string(&job->json, "status", att_status_name(row->status));
        json_put_string(&job->json, "report", att_message(job->session));
        json_end(&job->json);
    }
}

/* Finds a spec's variant as it is, and a problem as a program would: the library chooses what is open. */
static att_kernel *find(struct job *job, struct row *row) {
    struct text problem = {0}, schedule = {0};
    att_kernel *kernel = NULL;
    if (job->catalog.spec)
        variant_print_problem(row->variant, &problem, &schedule);
    else
        catalog_print_given(&job->catalog, &problem, &schedule);
    row->status = att_find(job->session, text_string(&problem), text_string(&schedule), &kernel);
    if (row->status == ATT_OK && !job->catalog.spec) {
        row->variant = &kernel->variant;
        job->label = (struct variant_label){0}; /* labels what was chosen, not what a spec would contain */
        variant_label_add(&job->label, row->variant);
        row->status = att_prepare(kernel);
    }
    text_free(&problem);
    text_free(&schedule);
    return kernel;
}

static void run_variant(struct job *job, struct row *row) {
    att_kernel *kernel = find(job, row);
    if (row->status != ATT_OK) {
        report_missing(job, row);
        return;
    }
    row->info.size = sizeof row->info;
    att_kernel_describe(kernel, &row->info);
    ask_nvrtc(job, kernel, row);
    for (int i = 0; i < job->inputs.shapes && !cli_interrupted(); i++)
        if (!run_shape(job, kernel, row, i))
            return;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static void print_row(struct job *job, const struct row *row) {
    enum { NAME, ERROR, LIMIT, TIME, READ, WRITTEN, REGS, SPILLS, STATUS };
    struct table *table = &job->table;
    struct text text = {0};
    bool ran = row->status == ATT_OK && row->runs > 0,
         counted = row->sum.counters.global_read + row->sum.counters.global_written > 0;
    bool right = ran && row->code == CLI_OK, all_nan = row->sum.compared > 0 && row->sum.nans == row->sum.compared;
    table_row(table);
    variant_label_print(&job->label, row->variant, &text);
    table_cell(table, NAME, CELL_PLAIN, "%s", text_string(&text));
    text_free(&text);
    table_cell(table, ERROR, CELL_PLAIN, ran ? "%.1e" : "-", row->sum.error);
    table_cell(table, LIMIT, CELL_PLAIN, ran ? "%.0f%%" : "-", 100 * row->sum.worst);
    print_seconds(&text, row->sum.seconds);
    table_cell(table, TIME, CELL_PLAIN, "%s", ran ? text_string(&text) : "-");
    text_free(&text);
    print_bytes(&text, (double)row->sum.counters.global_read);
    table_cell(table, READ, CELL_PLAIN, "%s", counted ? text_string(&text) : "-");
    text_free(&text);
    print_bytes(&text, (double)row->sum.counters.global_written);
    table_cell(table, WRITTEN, CELL_PLAIN, "%s", counted ? text_string(&text) : "-");
    text_free(&text);
    table_cell(table, REGS, CELL_PLAIN, row->info.registers >= 0 ? "%d" : "-", row->info.registers);
    table_cell(table, SPILLS, CELL_PLAIN, row->info.spill_bytes >= 0 ? "%d" : "-", row->info.spill_bytes);
    table_cell(table, STATUS,
               right            ? CELL_GOOD
               : row->elsewhere ? CELL_FAINT
                                : CELL_BAD,
               "%s",
               row->status           ? att_status_name(row->status)
               : row->sum.mismatches ? "WRONG"
               : row->code           ? "failed"
               : all_nan             ? "ok, all NaN"
                                     : "ok");
}

static void print_table(struct job *job) {
    struct cli *cli = job->cli;
    struct text shared = {0};
    variant_label_print_shared(&job->label, &shared);
    terminal_wrap(&cli->out, text_string(&shared), 0, cli->width);
    table_print(&job->table, cli->color_out, cli->width, &cli->out);
    text_free(&shared);
}

static bool hopeless(enum att_status status) { return status == ATT_NO_COMPILER || status == ATT_NO_DEVICE; }

static enum exit_code run_all(struct job *job) {
    static const char *const headings[] = {"variant", "error", "limit",  "time", "read",
                                           "written", "regs",  "spills", ""};
    struct variant variant;
    enum exit_code code = CLI_OK;
    for (catalog_rewind(&job->catalog); catalog_next(&job->catalog, &variant);)
        if (variant.feasible)
            variant_label_add(&job->label, &variant);
    table_open(&job->table, 9, headings, "lrrrrrrrl");
    progress_open(&job->progress, job->variants, job->cli->quiet);
    catalog_rewind(&job->catalog);
    while (catalog_next(&job->catalog, &variant) && !cli_interrupted()) {
        struct row row = {.variant = &variant, .info = {.registers = -1, .spill_bytes = -1}};
        if (!variant.feasible)
            continue;
        if (!job->catalog.spec) /* name until the library has chosen */
            snprintf(variant.name, sizeof variant.name, "%s", job->catalog.name);
        progress_show(&job->progress, job->done++, variant.name);
        run_variant(job, &row);
        if (cli_interrupted()) /* half a row means nothing */
            break;
        code = cli_worse(code, row.code);
        if (hopeless(row.status))
            break;
        print_row(job, &row);
        job->ran += row.runs > 0;
        job->right += row.code == CLI_OK && !row.elsewhere;
        job->elsewhere += row.elsewhere;
        job->compared += row.sum.compared;
        job->nans += row.sum.nans;
    }
    progress_close(&job->progress);
    if (!cli_interrupted() && job->elsewhere > 0 && job->elsewhere == job->variants)
        code = cli_error(job->cli, CLI_SPEC, "%s can run none of the %d variants, whose targets are for other GPUs; %s",
                         job->info.device_name, job->variants, att_message(job->session));
    return cli_interrupted() ? CLI_INTERRUPTED : code;
}

static enum exit_code open_session(struct job *job) {
    static const enum att_device devices[] = {ATT_DEVICE_AUTO, ATT_DEVICE_CUDA, ATT_DEVICE_HOST};
    struct cli *cli = job->cli;
    struct att_options options = {
        .size = sizeof options,
        .device = devices[cli_number(cli, "device", 0)],
        .ordinal = cli_count(cli, "gpu", 0),
        .host_mode = (enum att_host_mode)cli_number(cli, "host-mode", ATT_HOST_CHECK),
        .host_seed = (uint64_t)cli_number(cli, "host-seed", 0),
        .cache_dir = cli_text(cli, "cache-dir", NULL),
        .no_disk_cache = cli_given(cli, "no-cache"),
        .template_dir = cli_text(cli, "templates", NULL),
        .log = cli_warning,
        .log_context = cli,
    };
    enum att_status status = att_open(&options, &job->session);
    if (status != ATT_OK)
        return cli_error(cli, cli_exit_code(status), "%s", job->session ? att_message(job->session) : "out of memory");
    job->info.size = sizeof job->info;
    att_session_describe(job->session, &job->info);
    bool host = job->info.device == ATT_DEVICE_HOST;
    static const struct {
        bool for_host;
        const char *option;
    } idle[] = {{false, "gpu"}, {true, "host-mode"}, {true, "host-seed"}};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (idle[i].for_host != host && cli_given(cli, idle[i].option))
            return cli_error(cli, CLI_USAGE, "--%s does nothing on %s; leave it out, or --device %s", idle[i].option,
                             job->info.device_name, host ? "cuda" : "host");
    struct failure failure = {0};
    if (host && !cli_given(cli, "no-nvrtc") && nvrtc_open(&job->nvrtc, &failure) != ATT_OK && cli->verbose)
        cli_note(cli, "no registers are shown: %s", text_string(&failure.text));
    failure_clear(&failure);
    job->options = (struct check_options){.layout = cli_given(cli, "spread") ? LAYOUT_SPREAD : LAYOUT_PACKED,
                                          .numbers = cli_given(cli, "check"),
                                          .repeat = cli_count(cli, "repeat", host ? 0 : 20),
                                          .shown = 10};
    return CLI_OK;
}

/* Makes the problem against which inputs are checked before anything is compiled: att_find chooses only once. Its
   schedule is open, unless the problem is feasible with the knobs that were given: the algorithm of a default schedule
   may not support some of them, such as precision. */
static void leave_schedule_open(struct catalog *catalog) {
    const struct knobs open = knobs_default();
    struct variant given;
    bool feasible = catalog_next(catalog, &given) && given.feasible;
    catalog_rewind(catalog);
    if (feasible)
        return;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_SCHEDULE || id == KNOB_target)
            knob_set(&catalog->problem, (enum knob_id)id, knob_get(&open, (enum knob_id)id));
}

static void describe(struct job *job) {
    struct cli *cli = job->cli;
    const struct inputs *inputs = &job->inputs;
    cli_note(cli, "%s: %d variant%s on %s (%s)", job->catalog.name, job->variants, job->variants == 1 ? "" : "s",
             job->info.device_name, job->info.compiler);
    for (int i = 0; i < WORKLOAD_INPUTS && inputs->from_files; i++) {
        struct text shape = {0};
        npy_print_shape(&inputs->files.file[i], &shape);
        if (inputs->files.file[i].data)
            cli_note(
                cli, "%s = %s %s",
                workload_input_name(job->catalog.spec ? job->catalog.spec->family : job->catalog.problem.family, i),
                inputs->files.path[i], text_string(&shape));
        text_free(&shape);
    }
}

/* True if two variants have the same problem; such variants follow each other. */
static bool same_problem(const struct knobs *a, const struct knobs *b) {
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_PROBLEM && !knob_same(a, b, (enum knob_id)id))
            return false;
    return true;
}

/* Checks that --params fits every problem at every shape. */
static enum exit_code check_params(struct job *job) {
    struct cli *cli = job->cli;
    const char *given = job->inputs.files.params = cli_text(cli, "params", NULL);
    struct knobs last = {0};
    struct variant variant;
    enum exit_code code = CLI_OK;
    catalog_rewind(&job->catalog);
    while (given && !code && catalog_next(&job->catalog, &variant)) {
        if (!variant.feasible || same_problem(&last, &variant.knobs))
            continue;
        last = variant.knobs;
        if (!family_is_attention(last.family))
            return cli_error(cli, CLI_USAGE, "--params: %s has neither mask nor score; leave it out",
                             knob_word_name(KNOB_family, last.family));
        for (int i = 0; !code && i < job->inputs.shapes; i++) {
            struct shape shape = inputs_shape(&job->inputs, &last, i);
            struct text error = {0};
            struct params *params = params_make_given(&last, &shape, 0, given, &error);
            if (!params || !params_fit(params, &error))
                code = cli_error(cli, CLI_USAGE,
                                 job->variants > 1 ? "%s (for variant %s; --variant picks variants)" : "%s",
                                 text_string(&error), variant.name);
            params_free(params);
            text_free(&error);
        }
    }
    return code;
}

static enum exit_code check_out(const struct job *job) {
    const struct cli *cli = job->cli;
    const char *path = cli_text(cli, "out", NULL);
    struct text error = {0};
    enum exit_code code = CLI_OK;
    if (!path)
        return CLI_OK;
    if (job->variants != 1 || job->inputs.shapes != 1)
        code = cli_error(cli, CLI_USAGE,
                         "--out needs a single variant and shape, found %d and %d; --variant and --shape pick",
                         job->variants, job->inputs.shapes);
    else if (strcmp(path, "-") == 0)
        code = cli_error(cli, CLI_USAGE, "--out needs a file; standard output has the table");
    else if (!file_can_save(path, &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    text_free(&error);
    return code;
}

static enum exit_code run(struct job *job) {
    struct cli *cli = job->cli;
    int pruned;
    enum exit_code code = catalog_open(&job->catalog, cli);
    if (!code && !job->catalog.spec && cli_given(cli, "variant"))
        code = cli_error(cli, CLI_USAGE,
                         "--variant picks from the variants of a spec; a problem is one variant: name its knobs there");
    if (!code)
        code = open_session(job);
    if (!code && !job->catalog.spec)
        leave_schedule_open(&job->catalog);
    if (!code)
        code = catalog_count(&job->catalog, cli, &job->variants, &pruned);
    if (!code)
        code = inputs_open(&job->inputs, cli, &job->catalog);
    if (!code)
        code = check_params(job);
    if (!code)
        code = check_out(job);
    if (code)
        return code;
    describe(job);
    if (cli->json) {
        cli_json_open(cli, &job->json);
        json_put_string(&job->json, "spec", job->catalog.name);
        json_put_string(&job->json, "device", job->info.device_name);
        json_put_string(&job->json, "arch", job->info.arch);
        json_put_string(&job->json, "compiler", job->info.compiler);
        json_open_array(&job->json, "results");
    }
    code = run_all(job);
    if (cli->json)
        json_close(&job->json);
    else if (job->ran > 0)
        print_table(job);
    return code;
}

enum exit_code verb_run(struct cli *cli) {
    struct job job = {.cli = cli};
    cli_catch_interrupt();
    enum exit_code code = run(&job);
    if (job.ran > 0)
        cli_note(cli, "%d of %d agree with the oracle; %" PRId64 " elements compared, %" PRId64 " of them NaN",
                 job.right, job.variants - job.elsewhere, job.compared, job.nans);
    if (job.ran > 0 && job.elsewhere > 0)
        cli_note(cli, "%d not run: their targets are for other GPUs", job.elsewhere);
    table_free(&job.table);
    workload_free(&job.workload);
    inputs_close(&job.inputs);
    nvrtc_close(job.nvrtc);
    att_close(job.session);
    catalog_close(&job.catalog);
    return code;
}
