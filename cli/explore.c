/* attile explore: which schedules a problem can have, why the others are ruled out, how fast each should be, and what
   the compiler makes of the best. Needs no GPU. */
#include "explore.h"
#include "clock.h"
#include "file.h"
#include "gpu_option.h"
#include "report_file.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct option options_explore[] = {
    EXPLORE_OPTIONS,
    {"best", 'n', OPTION_NUMBER, "N", "compile the N best of each problem (default: 32; 0 = predict only)"},
    {"all", 0, OPTION_FLAG, NULL, "compile all of them"},
    {"jobs", 'j', OPTION_NUMBER, "N", "compile N at a time (default: the number of processors)"},
    {"timeout", 0, OPTION_NUMBER, "SECONDS", "give up on a variant that compiles longer (default: 120)"},
    REPORT_OPTION,
    {"map", 0, OPTION_TEXT, "X,Y", "the two knobs of the report's heat maps (default: block_n,block_m)"},
    {"measured", 0, OPTION_TEXT, "FILE",
     "measurements of attile tune; the report shows them beside the predictions, and how well the model ranked them"},
    {"csv", 0, OPTION_FLAG, NULL, "write CSV to standard output, one row for each candidate"},
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

/* --- what was asked for ------------------------------------------------------------------------------------------- */

static enum exit_code open_spec(struct exploration *e) {
    const char *argument = e->cli->options.argument[0];
    struct diag diag = {0};
    if (!e->catalog.spec && !(e->made = spec_from_knobs("<problem>", argument, &diag)))
        cli_report(e->cli, CLI_SPEC, text_string(&diag.text));
    diag_free(&diag);
    e->spec = e->catalog.spec ? e->catalog.spec : e->made;
    return e->spec ? CLI_OK : CLI_SPEC;
}

enum exit_code explore_open(struct exploration *e) {
    enum exit_code code = catalog_open(&e->catalog, e->cli);
    if (!code)
        code = open_spec(e);
    if (!code)
        code = gpu_option_read(e->cli, &e->gpu);
    return code ? code : shapes_read(&e->shapes, e->cli, e->spec);
}

void explore_close(struct exploration *e) {
    free(e->explored);
    candidates_free(&e->candidates);
    spec_free(e->made);
    catalog_close(&e->catalog);
}

/* --- candidates --------------------------------------------------------------------------------------------------- */

static bool wanted(const void *catalog, const struct variant *variant) { return catalog_wants(catalog, variant); }

static enum exit_code report_empty(struct exploration *e) {
    const struct candidates *all = &e->candidates;
    if (all->prunings == 0)
        return cli_error(e->cli, CLI_USAGE, "no schedule of %s passes --variant", e->catalog.name);
    cli_error(e->cli, CLI_SPEC, "none of %lld schedules is possible%s; what ruled them out:", (long long)all->tried,
              cli_given(e->cli, "variant") ? " and passes --variant" : "");
    struct text text = {0};
    for (int i = 0; i < all->prunings && i < 10; i++)
        text_print(&text, "%10lld  %s\n", (long long)all->pruning[i].count, all->pruning[i].example);
    cli_report(e->cli, CLI_SPEC, text_string(&text));
    text_free(&text);
    return CLI_SPEC;
}

enum exit_code explore_find(struct exploration *e) {
    const struct candidates_filter filter = {wanted, &e->catalog, cli_interrupted};
    if (!candidates_find(&e->candidates, e->catalog.templates, e->spec, &e->gpu, e->shapes.shape, e->shapes.count,
                         &filter))
        return cli_error(e->cli, CLI_INTERNAL, "out of memory after %lld schedules", (long long)e->candidates.tried);
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    return e->candidates.count ? CLI_OK : report_empty(e);
}

/* --- compiling ---------------------------------------------------------------------------------------------------- */

/* Completes the best candidates of each problem. */
static enum exit_code choose(struct exploration *e) {
    int most = cli_given(e->cli, "all") ? INT32_MAX : cli_count(e->cli, "best", 32);
    int total = 0;
    for (int problem = 0; problem < e->candidates.problems; problem++) {
        int count;
        candidates_of(&e->candidates, problem, &count);
        total += count < most ? count : most;
    }
    e->explored = calloc((size_t)total + 1, sizeof *e->explored);
    if (!e->explored)
        return cli_error(e->cli, CLI_INTERNAL, "out of memory for %d candidates", total);
    for (int problem = 0; problem < e->candidates.problems; problem++) {
        int count;
        const struct candidate *first = candidates_of(&e->candidates, problem, &count);
        for (int i = 0; i < count && i < most; i++) {
            struct explored *explored = &e->explored[e->explored_count++];
            explored->candidate = &first[i];
            explored->score = INFINITY;
            explore_variant(e, &first[i], &explored->variant);
        }
    }
    return CLI_OK;
}

static void show_progress(void *progress, int done, const char *name) { progress_show(progress, done, name); }

static enum exit_code compile(struct exploration *e) {
    struct progress progress;
    struct text error = {0};
    int count = e->explored_count;
    struct variant *variant = calloc((size_t)count + 1, sizeof *variant);
    struct compiled *compiled = calloc((size_t)count + 1, sizeof *compiled);
    enum exit_code code = CLI_OK;
    const struct pool_options options = {.arch = e->gpu.arch,
                                         .template_dir = cli_text(e->cli, "templates", NULL),
                                         .jobs = cli_count(e->cli, "jobs", 0),
                                         .timeout = (double)cli_number(e->cli, "timeout", 120),
                                         .interrupted = cli_interrupted,
                                         .progress = show_progress,
                                         .context = &progress};
    double start = clock_seconds();
    progress_open(&progress, count, e->cli->quiet);
    if (!variant || !compiled)
        code = cli_error(e->cli, CLI_INTERNAL, "out of memory for %d candidates", count);
    for (int i = 0; !code && i < count; i++)
        variant[i] = e->explored[i].variant;
    bool good = !code && pool_compile(&options, variant, count, compiled, &error);
    progress_close(&progress);
    if (!code && !good) {
        code = cli_error(e->cli, CLI_TOOLCHAIN, "%s (--best 0 predicts without compiling)", text_string(&error));
        e->explored_count = 0; /* only predictions are left */
    }
    for (int i = 0; compiled && i < count; i++)
        e->explored[i].compiled = compiled[i];
    e->compile_seconds = clock_seconds() - start;
    text_free(&error);
    free(variant);
    free(compiled);
    return code;
}

/* --- ranking what was compiled ------------------------------------------------------------------------------------ */

static bool is_good(const struct explored *explored) { return explored->compiled.outcome == COMPILE_GOOD; }

static void predict(struct exploration *e) {
    for (int i = 0; i < e->explored_count; i++) {
        struct explored *x = &e->explored[i];
        struct model_usage usage = {.registers = x->compiled.registers, .spills = x->compiled.spill_bytes};
        for (int k = 0; k < e->shapes.count; k++)
            model_predict_once(&e->gpu, &x->variant, &e->shapes.shape[k], is_good(x) ? &usage : NULL, &x->terms[k]);
    }
}

/* The same score as for candidates, but among those that compile. */
static void score(struct exploration *e, int first, int last) {
    double best[SPEC_SHAPES];
    for (int k = 0; k < e->shapes.count; k++) {
        best[k] = INFINITY;
        for (int i = first; i < last; i++)
            if (is_good(&e->explored[i]) && e->explored[i].terms[k].seconds > 0)
                best[k] = fmin(best[k], e->explored[i].terms[k].seconds);
    }
    for (int i = first; i < last; i++) {
        struct explored *x = &e->explored[i];
        double sum = is_good(x) ? 0 : INFINITY;
        for (int k = 0; k < e->shapes.count; k++)
            sum += x->terms[k].seconds > 0 ? log(x->terms[k].seconds / best[k]) : INFINITY;
        x->score = exp(sum / e->shapes.count);
    }
}

/* True if `a` is not worse than `b` in anything, and better in something. Times within 1 %, and compile times within a
   tenth of a second, count as equal. */
static bool dominates(const struct explored *a, const struct explored *b) {
    const double x[] = {a->score, a->compiled.registers, a->compiled.shared_bytes, a->compiled.seconds};
    const double y[] = {b->score, b->compiled.registers, b->compiled.shared_bytes, b->compiled.seconds};
    const double same[] = {0.01 * fmin(a->score, b->score), 0, 0, 0.1};
    bool better = false;
    for (int i = 0; i < 4; i++) {
        if (x[i] > y[i] + same[i])
            return false;
        better |= x[i] < y[i] - same[i];
    }
    return better;
}

static void find_front(struct exploration *e, int first, int last) {
    for (int i = first; i < last; i++) {
        e->explored[i].front = is_good(&e->explored[i]) && isfinite(e->explored[i].score);
        for (int k = first; k < last && e->explored[i].front; k++)
            e->explored[i].front = !is_good(&e->explored[k]) || !dominates(&e->explored[k], &e->explored[i]);
    }
}

static int better(const void *a, const void *b) {
    const struct explored *x = a, *y = b;
    if (x->candidate->problem != y->candidate->problem)
        return x->candidate->problem - y->candidate->problem;
    if (is_good(x) != is_good(y))
        return is_good(y) - is_good(x);
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static void rank(struct exploration *e) {
    predict(e);
    for (int first = 0, last; first < e->explored_count; first = last) {
        for (last = first;
             last < e->explored_count && e->explored[last].candidate->problem == e->explored[first].candidate->problem;)
            last++;
        score(e, first, last);
        find_front(e, first, last);
    }
    if (e->explored_count > 0)
        qsort(e->explored, (size_t)e->explored_count, sizeof *e->explored, better);
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static enum exit_code explore(struct exploration *e) {
    enum exit_code code = explore_open(e);
    if (!code && cli_given(e->cli, "csv") && e->cli->json)
        code = cli_error(e->cli, CLI_USAGE, "--csv and --json both write to standard output: choose one");
    if (!code)
        code = explore_report_check(e);
    if (!code)
        code = explore_find(e);
    if (!code)
        code = choose(e);
    if (code)
        return code;
    if (e->explored_count > 0)
        code = compile(e);
    rank(e);
    (e->cli->json ? explore_print_json : cli_given(e->cli, "csv") ? explore_print_csv : explore_print)(e);
    if (cli_given(e->cli, "report") || cli_given(e->cli, "measured"))
        code = cli_worse(code, explore_report(e));
    return cli_interrupted() ? CLI_INTERRUPTED : code;
}

enum exit_code verb_explore(struct cli *cli) {
    struct exploration e = {.cli = cli};
    cli_catch_interrupt();
    enum exit_code code = explore(&e);
    explore_close(&e);
    return code;
}
