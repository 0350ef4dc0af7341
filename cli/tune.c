/* attile tune: measures which schedule of a problem is fastest on this GPU, and records the results. */
#include "catalog.h"
#include "duration.h"
#include "field.h"
#include "file.h"
#include "report_file.h"
#include "shapes.h"
#include "shard.h"
#include "terminal.h"
#include "tune_compare.h"
#include "tune_merge.h"
#include "tune_report.h"
#include "tuner_run.h"
#include "shape_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const struct option options_tune[] = {
    SHAPES_OPTION,
    {"out", 'o', OPTION_TEXT, "FILE", "the results file, to which tune appends (default: tune.jsonl)"},
    {"table", 't', OPTION_TEXT, "FILE", "write the winners into this tuned table; a missing one is created"},
    {"lock", 0, OPTION_TEXT, "FILE",
     "write the winners into this lock file, which pins the choices of programs that open it (docs/tuned.md)"},
    REPORT_OPTION,
    {"budget", 'b', OPTION_TEXT, "TIME", "total time: '90s', '5m', '2h' (default: 60s)"},
    {"candidates", 'n', OPTION_NUMBER, "N", "schedules to try for a problem and shape (default: 200)"},
    {"l2", 0, OPTION_WORD, "cold|warm", "which times decide: with an empty L2 cache (default), or with a warm one"},
    {"jobs", 'j', OPTION_NUMBER, "N", "compile N at a time (default: the number of processors less one for each GPU)"},
    {"timeout", 0, OPTION_TEXT, "TIME", "drop a kernel that compiles or runs longer than this (default: 60s)"},
    {"shard", 0, OPTION_TEXT, "I/N",
     "do part I of N of the problems and shapes, 0/4 to 3/4 for example; auto = by Slurm's or mpirun's number of this "
     "process"},
    {"validate", 0, OPTION_TEXT, "TABLE",
     "measure only what this tuned table chooses and what the template itself would choose, and compare"},
    {"merge", 0, OPTION_FLAG, NULL, "measure nothing; join results files into --out and --table"},
    {"device", 'd', OPTION_WORD, "cuda|host", "where to run; host (this CPU) is for trying the command"},
    {"gpu", 0, OPTION_NUMBER, "N", "use this GPU alone (default: every GPU of the machine)"},
    {"cache-dir", 0, OPTION_TEXT, "DIR", "folder of compiled kernels"},
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

struct job {
    struct cli *cli;
    struct catalog catalog;
    struct spec *own_spec; /* made from knobs, else null */
    const struct spec *spec;
    struct tuner tuner;
    struct candidates candidates;
    struct model_gpu gpu; /* the model of this GPU, or of another one if it is unknown */
    bool known_gpu;
    att_session *validated; /* chooses by the table of --validate; null = not given */
    struct journal journal;
    struct shapes shapes;
    struct shard shard;
    double budget, timeout;
    struct progress progress;
};

/* --- what was asked for ------------------------------------------------------------------------------------------- */

static enum exit_code read_duration(const struct cli *cli, const char *option, const char *fallback, double *seconds) {
    const char *text = cli_text(cli, option, fallback);
    if (duration_read(text, seconds))
        return CLI_OK;
    return cli_error(cli, CLI_USAGE, "--%s expects a time such as '90s', '5m' or '2h', found '%s'", option, text);
}

static enum exit_code read_options(struct job *job) {
    struct cli *cli = job->cli;
    struct text error = {0};
    enum exit_code code = read_duration(cli, "budget", "60s", &job->budget);
    if (!code)
        code = read_duration(cli, "timeout", "60s", &job->timeout);
    job->shard = (struct shard){0, 1};
    if (!code && cli_given(cli, "shard") && !shard_read(cli_text(cli, "shard", ""), &job->shard, &error))
        code = cli_error(cli, CLI_USAGE, "--shard: %s", text_string(&error));
    if (!code && cli_given(cli, "candidates") && cli_number(cli, "candidates", 0) < 1)
        code = cli_error(cli, CLI_USAGE, "--candidates expects at least 1");
    text_free(&error);
    return code;
}

static enum exit_code open_spec(struct job *job) {
    struct diag diag = {0};
    enum exit_code code = catalog_open(&job->catalog, job->cli);
    if (code)
        return code;
    job->spec = job->catalog.spec;
    if (!job->spec)
        job->spec = job->own_spec = spec_from_knobs("<problem>", job->cli->options.argument[0], &diag);
    if (!job->spec)
        code = cli_report(job->cli, CLI_SPEC, text_string(&diag.text));
    diag_free(&diag);
    if (!code && !family_is_attention(job->spec->family))
        code = cli_error(job->cli, CLI_USAGE,
                         "tune knows how to time attention_forward and attention_backward; found family %s",
                         knob_word_name(KNOB_family, job->spec->family));
    return code;
}

static enum exit_code read_shapes(struct job *job) {
    enum exit_code code = shapes_read(&job->shapes, job->cli, job->spec);
    for (int i = 0; !code && i < job->shapes.count; i++) {
        const struct shape *shape = &job->shapes.shape[i];
        if (shape->batch < 1 || shape->heads < 1 || shape->len_q < 1 || shape->len_kv < 1)
            code =
                cli_error(job->cli, CLI_USAGE, "shape %d has nothing to compute: every size must be at least 1", i + 1);
    }
    return code;
}

/* --- what there is to measure ------------------------------------------------------------------------------------- */

static enum exit_code empty_space(const struct job *job) {
    const struct candidates *all = &job->candidates;
    struct text text = {0};
    if (all->prunings == 0)
        return cli_error(job->cli, CLI_USAGE, "no schedule of %s is for %s%s", job->catalog.name,
                         job->tuner.setting.device, cli_given(job->cli, "variant") ? " and passes --variant" : "");
    for (int i = 0; i < all->prunings && i < 10; i++)
        text_print(&text, "\n%10lld  %s", (long long)all->pruning[i].count, all->pruning[i].example);
    cli_error(job->cli, CLI_SPEC, "none of %lld schedules is possible on %s; what ruled them out:%s",
              (long long)all->tried, job->tuner.setting.device, text_string(&text));
    text_free(&text);
    return CLI_SPEC;
}

/* On this CPU only sources for target `any` are wanted, unless the spec asks for others. */
static bool wanted(const void *context, const struct variant *variant) {
    const struct job *job = context;
    bool host = strcmp(job->tuner.setting.arch, "host") == 0, given = job->spec->axis[KNOB_target].place.line != 0;
    return (!host || given || variant->knobs.target == target_any) && catalog_wants(&job->catalog, variant);
}

static enum exit_code find_candidates(struct job *job) {
    const struct record *setting = &job->tuner.setting;
    const struct candidates_filter filter = {wanted, job, cli_interrupted};
    job->known_gpu = model_gpu_find(setting->device, &job->gpu);
    if (!job->known_gpu) {
        cli_note(job->cli, "there is no performance model of %s; that of the H200 orders the candidates",
                 setting->device);
        model_gpu_find("h200", &job->gpu);
        if (strcmp(setting->arch, "host") != 0)
            snprintf(job->gpu.arch, sizeof job->gpu.arch, "%s", setting->arch);
    }
    if (!candidates_find(&job->candidates, job->catalog.templates, job->spec, &job->gpu, job->shapes.shape,
                         job->shapes.count, &filter))
        return cli_error(job->cli, CLI_INTERNAL, "out of memory");
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    return job->candidates.count ? CLI_OK : empty_space(job);
}

static enum exit_code add_cell(struct job *job, int problem, int number) {
    int most = cli_count(job->cli, "candidates", 200);
    const struct template_set *set = job->catalog.templates;
    const struct knobs *knobs = &job->candidates.problem[problem];
    const struct shape *shape = &job->shapes.shape[number];
    struct text problem_text = {0}, shape_text = {0};
    struct variant usual;
    if (!field_fits(knobs, shape))
        return CLI_OK;
    field_print_problem(knobs, &problem_text);
    shape_print(shape, job->spec->family, &shape_text);
    bool good = tuner_add_cell(&job->tuner, text_string(&problem_text), shape, text_string(&shape_text)) &&
                (job->validated ? tune_pick_two(job->validated, knobs, shape, &job->tuner)
                                : field_pick(set, &job->candidates, problem, number, most,
                                             field_default(set, knobs, &usual) && wanted(job, &usual), &job->tuner));
    text_free(&problem_text);
    text_free(&shape_text);
    return good ? CLI_OK : cli_error(job->cli, CLI_INTERNAL, "out of memory");
}

/* Adds a cell for every problem at every shape, except those of other shards. */
static enum exit_code fill_tuner(struct job *job) {
    enum exit_code code = find_candidates(job);
    int piece = 0;
    for (int problem = 0; !code && problem < job->candidates.problems; problem++)
        for (int shape = 0; !code && shape < job->shapes.count; shape++, piece++)
            if (shard_has(job->shard, piece))
                code = add_cell(job, problem, shape);
    if (code)
        return code;
    return tuner_begin(&job->tuner) ? CLI_OK : cli_error(job->cli, CLI_INTERNAL, "out of memory");
}

/* --- while it runs ------------------------------------------------------------------------------------------------ */

static void print_left(struct text *text, double seconds) {
    int left = seconds > 0 ? (int)ceil(seconds) : 0;
    text_print(text, "%d:%02d left", left / 60, left % 60);
}

/* Shows "[######      ] 21/60 s 0:39 left, 3 of 12 done: head_dim=96 ... len_q=4096: 57 of 200 tried". */
static void show(void *context, const struct tuner *tuner, int number) {
    struct job *job = context;
    struct text text = {0};
    int done = 0, tried = 0;
    if (!job->progress.shown)
        return;
    for (int i = 0; i < tuner->cells; i++)
        done += tuner->cell[i].done;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    double elapsed = (double)time.tv_sec + 1e-9 * (double)time.tv_nsec - tuner->start;
    text_print(&text, "s, ");
    print_left(&text, job->budget - elapsed);
    if (number >= 0) {
        const struct tuner_cell *cell = &tuner->cell[number];
        for (int i = 0; i < cell->candidates; i++)
            tried += cell->contest.entrant[i].passes > 0 || cell->contest.entrant[i].out;
        text_print(&text, "; cell %d of %d: %d of %d tried", done + 1, tuner->cells, tried, cell->candidates);
    }
    progress_show(&job->progress, elapsed < job->budget ? (int)elapsed : (int)job->budget, text_string(&text));
    text_free(&text);
}

static void describe(const struct job *job) {
    const struct tuner *tuner = &job->tuner;
    const char *path = cli_text(job->cli, "out", "tune.jsonl");
    int most = 0;
    for (int i = 0; i < tuner->cells; i++)
        most = tuner->cell[i].candidates > most ? tuner->cell[i].candidates : most;
    cli_note(job->cli, "%d problem%s and shapes, up to %d candidates each, %d kernels in all, on %s (%s)", tuner->cells,
             tuner->cells == 1 ? "" : "s", most, tuner->kernels, tuner->setting.device, tuner->setting.compiler);
    if (job->journal.torn)
        cli_note(job->cli, "%s: its last line was unfinished; %lld bytes are dropped", path,
                 (long long)job->journal.torn);
}

/* --- when it is over ---------------------------------------------------------------------------------------------- */

static enum exit_code finish(struct job *job) {
    struct cli *cli = job->cli;
    struct results results = {.warm = job->tuner.options.warm};
    struct text error = {0};
    enum exit_code code = CLI_OK;
    int strange = 0;
    if (!journal_read(&job->journal, results_add, &results, &strange, &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    else if (results.failed)
        code = cli_error(cli, CLI_INTERNAL, "out of memory");
    int setting = code ? -1 : results_find_setting(&results, &job->tuner.setting);
    if (strange)
        cli_note(cli, "%s: %d lines are no records and are left as they are", job->journal.path, strange);
    if (setting >= 0 && job->validated)
        code = tune_compare(cli, &job->tuner);
    else if (setting >= 0)
        code = tune_report(cli, &results, setting, job->catalog.templates);
    if (setting >= 0 && cli_given(cli, "report"))
        code = cli_worse(code, report_file_results(cli, job->tuner.setting.device, job->spec->family,
                                                   job->catalog.templates, job->journal.path));
    if (!code && job->known_gpu && !job->validated)
        tune_judge_model(cli, &job->tuner, &job->gpu);
    results_free(&results);
    text_free(&error);
    return code;
}

static enum exit_code conclude(struct job *job, enum tuner_end end, enum att_status status, const char *why) {
    struct cli *cli = job->cli;
    const struct tuner *tuner = &job->tuner;
    const char *path = job->journal.path;
    if (tuner->foreign)
        cli_note(cli, "%s: %d records of other GPUs, drivers, compilers or versions are kept and not used", path,
                 tuner->foreign);
    cli_note(cli, "%d measurements and %d failures written to %s, %d known before", tuner->measured, tuner->failed,
             path, tuner->recalled);
    switch (end) {
    case TUNER_FAILED: return cli_error(cli, cli_exit_code(status), "%s", why);
    case TUNER_INTERRUPTED: cli_note(cli, "interrupted; the same command goes on from here"); return CLI_INTERRUPTED;
    case TUNER_TOO_SHORT:
        cli_error(cli, CLI_USAGE,
                  "%s was too short: a problem and shape has no measurement yet; the same command with a larger "
                  "--budget goes on from here",
                  cli_text(cli, "budget", "60s"));
        return CLI_USAGE;
    case TUNER_OUT_OF_TIME:
        cli_note(cli, "the budget ended before the last rounds; the same command goes on from here");
        return finish(job);
    default: return finish(job);
    }
}

static enum exit_code connect(struct job *job) {
    static const enum att_device devices[] = {ATT_DEVICE_CUDA, ATT_DEVICE_HOST};
    struct cli *cli = job->cli;
    bool host = cli_number(cli, "device", 0) == 1;
    const struct tuner_options options = {
        .session = {.size = sizeof(struct att_options),
                    .device = devices[host],
                    .ordinal = cli_count(cli, "gpu", 0),
                    .host_mode = ATT_HOST_FAST,
                    .cache_dir = cli_text(cli, "cache-dir", NULL),
                    .template_dir = cli_text(cli, "templates", NULL)},
        .one_gpu = host || cli_given(cli, "gpu"),
        .jobs = cli_count(cli, "jobs", 0),
        .budget = job->budget,
        .timeout = job->timeout,
        .warm = cli_number(cli, "l2", 0) == 1,
        .interrupted = cli_interrupted,
        .progress = show,
        .context = job,
    };
    struct text error = {0};
    enum att_status status;
    tuner_open(&job->tuner, &options);
    bool connected = tuner_connect(&job->tuner, &status, &error);
    if (!connected)
        cli_error(cli, cli_exit_code(status), "%s%s", text_string(&error),
                  status == ATT_NO_DEVICE ? ". To try the command out without one: --device host" : "");
    text_free(&error);
    if (connected && host)
        cli_note(cli, "the host device is for trying this command: its times tell nothing about a GPU");
    return connected ? CLI_OK : cli_exit_code(status);
}

static enum exit_code tune(struct job *job) {
    struct cli *cli = job->cli;
    struct text error = {0};
    enum exit_code code = read_options(job);
    if (!code)
        code = open_spec(job);
    if (!code)
        code = read_shapes(job);
    if (!code)
        code = report_file_check(cli);
    if (!code)
        code = tune_can_save_tables(cli);
    if (!code)
        code = connect(job);
    if (!code)
        code = tune_check_tables(cli, job->tuner.setting.device);
    if (!code && cli_given(cli, "validate"))
        code = tune_open_validated(cli, &job->tuner.setting, &job->validated);
    if (!code)
        code = fill_tuner(job);
    if (!code && job->tuner.cells == 0) {
        cli_note(cli, "nothing to do: shard %d of %d has no problem and shape", job->shard.index, job->shard.count);
        return CLI_OK;
    }
    if (!code && !journal_open(&job->journal, cli_text(cli, "out", "tune.jsonl"), &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    text_free(&error);
    if (code)
        return code;
    describe(job);
    enum att_status status;
    progress_open(&job->progress, (int)ceil(job->budget), cli->quiet);
    enum tuner_end end = tuner_run(&job->tuner, &job->journal, &status, &error);
    progress_close(&job->progress);
    code = conclude(job, end, status, text_string(&error));
    text_free(&error);
    return code;
}

enum exit_code verb_tune(struct cli *cli) {
    if (cli_given(cli, "merge"))
        return tune_merge(cli);
    if (cli->options.arguments != 1)
        return cli_error(cli, CLI_USAGE, "tune expects one SPEC, found %d arguments; see attile help tune",
                         cli->options.arguments);
    struct job job = {.cli = cli, .journal = {.file = -1}};
    cli_catch_interrupt();
    enum exit_code code = tune(&job);
    tuner_disconnect(&job.tuner);
    tuner_close(&job.tuner);
    candidates_free(&job.candidates);
    att_close(job.validated);
    journal_close(&job.journal);
    spec_free(job.own_spec);
    catalog_close(&job.catalog);
    return code;
}
