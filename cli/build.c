/* attile build: compiles kernels ahead of time. Everything is expanded and compiled in memory first, and written only
   if all of it succeeds; equal inputs give equal bytes. */
#include "build_budget.h"
#include "bundle.h"
#include "byte_size.h"
#include "catalog.h"
#include "chosen.h"
#include "file.h"
#include "variant_names.h"
#include "backend.h"
#include "nvrtc.h"
#include "plan_text.h"
#include "sha256.h"
#include "terminal.h"
#include "tuned.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct option options_build[] = {
    {"out", 'o', OPTION_TEXT, "DIR", "folder to write into; created when missing (default: built)"},
    {"arch", 0, OPTION_TEXT, "LIST", "targets: sm_80, compute_80 (PTX), host, host_fast (default: sm_80,sm_90a)"},
    CHOSEN_OPTIONS,
    {"budget", 0, OPTION_TEXT, "SIZE",
     "with --for: keep only so many bytes of binaries, '500K', '2M' say: first a kernel for each problem, then those "
     "that "
     "are chosen at the most shapes"},
    {"symbol", 0, OPTION_TEXT, "NAME", "name of the bundle in kernels.c (default: attile_kernels)"},
    {"jobs", 'j', OPTION_NUMBER, "N", "compile N kernels at a time (default: the number of processors)"},
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

enum { ARCHS = 16, ARCH_NAME = 16, SUFFIX = ARCH_NAME + 8, JOBS = 256 };

struct arch {
    char name[ARCH_NAME];
    struct backend *host; /* the backend that compiles for it; null = NVRTC does */
};

struct kernel { /* one variant for one architecture */
    char name[VARIANT_NAME];
    const struct arch *arch;
    struct knobs problem;           /* as returned by tuned_problem */
    int wins;                       /* number of shapes at which it is chosen */
    struct text variant, plan_text; /* in the form that bundles need */
    struct source source;
    struct binary binary;
    struct failure failure;
};

struct build {
    struct cli *cli;
    struct catalog catalog;
    struct chosen chosen; /* --for */
    uint64_t budget;      /* bytes of binaries; 0 = unlimited */
    struct variant_names chosen_names;
    struct nvrtc *nvrtc; /* null = not needed */
    struct arch arch[ARCHS];
    int archs;
    struct kernel *kernel;
    int count, room;
    atomic_int next; /* next kernel to compile */
    struct progress progress;
};

/* --- what to build ------------------------------------------------------------------------------------------------ */

static enum exit_code open_nvrtc(struct build *build) {
    struct failure failure = {0};
    enum exit_code code = CLI_OK;
    if (!build->nvrtc && nvrtc_open(&build->nvrtc, &failure) != ATT_OK)
        code = cli_error(build->cli, CLI_TOOLCHAIN, "%s\nattile generate writes the sources without it",
                         text_string(&failure.text));
    failure_clear(&failure);
    return code;
}

/* Opens the compiler for an architecture. */
static enum exit_code open_arch(struct build *build, struct arch *arch) {
    static const struct {
        const char *name;
        enum att_host_mode mode;
    } hosts[] = {{"host", ATT_HOST_CHECK}, {"host_fast", ATT_HOST_FAST}};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        const struct backend_options options = {.host_mode = hosts[i].mode};
        struct failure failure = {0};
        if (strcmp(arch->name, hosts[i].name) != 0)
            continue;
        if (backend_host.open(&options, &arch->host, &failure) == ATT_OK)
            return CLI_OK;
        cli_error(build->cli, CLI_INTERNAL, "%s", text_string(&failure.text));
        failure_clear(&failure);
        return CLI_INTERNAL;
    }
    enum exit_code code = open_nvrtc(build);
    if (code || nvrtc_knows(build->nvrtc, arch->name))
        return code;
    struct nvrtc_info info = {0};
    nvrtc_describe(build->nvrtc, &info);
    return cli_error(build->cli, CLI_USAGE, "--arch: %s does not know '%s'", info.title, arch->name);
}

static enum exit_code read_archs(struct build *build) {
    const char *at = cli_text(build->cli, "arch", *build->chosen.gpu.arch ? build->chosen.gpu.arch : "sm_80,sm_90a");
    enum exit_code code = CLI_OK;
    for (at += strspn(at, ", "); *at && !code; at += strspn(at, ", ")) {
        size_t size = strcspn(at, ", ");
        if (size >= ARCH_NAME || build->archs == ARCHS)
            return cli_error(build->cli, CLI_USAGE, "--arch: at most %d names such as sm_90a, found '%s'", ARCHS, at);
        struct arch *arch = &build->arch[build->archs++];
        memcpy(arch->name, at, size);
        code = open_arch(build, arch);
        at += size;
    }
    return build->archs || code ? code : cli_error(build->cli, CLI_USAGE, "--arch names no architecture");
}

/* The host runs all targets, and `any` runs everywhere. Other targets run on their architecture and later ones; a
   target that ends in a letter runs only on that very architecture. */
static bool target_runs(int target, const struct arch *arch) {
    const char *name = knob_word_name(KNOB_target, target);
    if (arch->host || target == AUTO || target == target_any)
        return true;
    if (name[strlen(name) - 1] == 'a')
        return strcmp(name, arch->name) == 0;
    return atoi(strchr(arch->name, '_') + 1) >= atoi(strchr(name, '_') + 1);
}

static struct kernel *add(struct build *build) {
    if (build->count == build->room) {
        int room = build->room ? build->room * 2 : 64;
        struct kernel *more = realloc(build->kernel, sizeof *more * (size_t)room);
        if (!more)
            return NULL;
        build->kernel = more;
        build->room = room;
    }
    struct kernel *kernel = &build->kernel[build->count++];
    *kernel = (struct kernel){0};
    return kernel;
}

/* Expands a variant for every architecture that it runs on. */
static enum exit_code expand(struct build *build, const struct variant *variant) {
    enum exit_code code = CLI_OK;
    for (int i = 0; !code && variant->feasible && i < build->archs; i++) {
        if (!target_runs(variant->knobs.target, &build->arch[i]))
            continue;
        struct kernel *kernel = add(build);
        if (!kernel)
            return cli_error(build->cli, CLI_INTERNAL, "out of memory");
        memcpy(kernel->name, variant->name, sizeof kernel->name);
        kernel->arch = &build->arch[i];
        kernel->problem = tuned_problem(&variant->knobs);
        variant_print(variant, &kernel->variant);
        code = catalog_expand(&build->catalog, build->cli, variant, &kernel->source);
        plan_write(&kernel->source.plan, &kernel->plan_text);
    }
    return code;
}

/* Builds a kernel once even if it is chosen at several shapes. */
static enum exit_code take_chosen(void *context, const struct variant *variant) {
    struct build *build = context;
    struct text error = {0};
    enum variant_names_answer answer = variant_names_take(&build->chosen_names, variant, &error);
    enum exit_code code = CLI_OK;
    if (answer == VARIANT_NAMES_FAILED)
        code = cli_error(build->cli, CLI_SPEC, "%s: %s", build->catalog.name, text_string(&error));
    text_free(&error);
    if (answer == VARIANT_NAMES_NEW)
        code = expand(build, variant);
    for (int i = 0; i < build->count; i++)
        build->kernel[i].wins += strcmp(build->kernel[i].name, variant->name) == 0;
    return code;
}

static enum exit_code expand_all(struct build *build) {
    struct variant variant;
    enum exit_code code = CLI_OK;
    if (build->chosen.session)
        code = chosen_each(&build->chosen, &build->catalog, take_chosen, build);
    catalog_rewind(&build->catalog);
    while (!code && !build->chosen.session && catalog_next(&build->catalog, &variant))
        code = expand(build, &variant);
    if (!code && build->count == 0)
        code = cli_error(build->cli, CLI_SPEC, "no variant can be built for %s",
                         cli_text(build->cli, "arch", "sm_80,sm_90a"));
    return code;
}

/* --- compiling ---------------------------------------------------------------------------------------------------- */

static void compile(struct build *build, struct kernel *kernel) {
    const char *entries[PLAN_LAUNCHES];
    struct text file = {0};
    text_print(&file, "%s.cu", kernel->name);
    for (int i = 0; i < kernel->source.plan.launches; i++)
        entries[i] = kernel->source.plan.launch[i].entry;
    struct compile_job job = {.source = text_string(&kernel->source.text),
                              .name = text_string(&file),
                              .arch = kernel->arch->name,
                              .entries = entries,
                              .entry_count = kernel->source.plan.launches};
    if (kernel->arch->host)
        backend_host.compile(kernel->arch->host, &job, &kernel->binary, &kernel->failure);
    else
        nvrtc_compile(build->nvrtc, &job, &kernel->binary, &kernel->failure);
    text_free(&file);
}

static void *work(void *context) {
    struct build *build = context;
    for (int i; !cli_interrupted() && (i = atomic_fetch_add(&build->next, 1)) < build->count;)
        compile(build, &build->kernel[i]);
    return NULL;
}

/* The first thread shows progress; the others only work. */
static void *work_and_show(struct build *build) {
    for (int i; !cli_interrupted() && (i = atomic_fetch_add(&build->next, 1)) < build->count;) {
        progress_show(&build->progress, i, build->kernel[i].name);
        compile(build, &build->kernel[i]);
    }
    return NULL;
}

static enum exit_code compile_all(struct build *build) {
    pthread_t thread[JOBS];
    int threads = 0, wanted = cli_count(build->cli, "jobs", (int)sysconf(_SC_NPROCESSORS_ONLN));
    enum exit_code code = CLI_OK;
    wanted = wanted < 1 ? 1 : wanted > JOBS ? JOBS : wanted;
    progress_open(&build->progress, build->count, build->cli->quiet);
    while (threads < wanted - 1 && pthread_create(&thread[threads], NULL, work, build) == 0)
        threads++;
    work_and_show(build);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    progress_close(&build->progress);
    for (int i = 0; i < build->count; i++)
        if (build->kernel[i].failure.status != ATT_OK) {
            cli_error(build->cli, CLI_COMPILE, "%s for %s: %s", build->kernel[i].name, build->kernel[i].arch->name,
                      text_string(&build->kernel[i].failure.text));
            code = cli_worse(code, cli_exit_code(build->kernel[i].failure.status));
        }
    return cli_interrupted() ? CLI_INTERRUPTED : code;
}

/* --- the budget --------------------------------------------------------------------------------------------------- */

static void free_kernel(struct kernel *kernel) {
    text_free(&kernel->variant);
    text_free(&kernel->plan_text);
    source_free(&kernel->source);
    binary_free(&kernel->binary);
    failure_clear(&kernel->failure);
}

static int find_group(const struct build *build, int kernel) {
    int i = 0;
    while (build->kernel[i].arch != build->kernel[kernel].arch ||
           memcmp(&build->kernel[i].problem, &build->kernel[kernel].problem, sizeof build->kernel[i].problem) != 0)
        i++;
    return i;
}

/* Puts kernels with more wins first: if the kernel chosen for a problem is missing, att_find takes the first one. */
static void keep(struct build *build, struct budget_item *item) {
    int kept = 0;
    for (int i = 0; i < build->count; i++) {
        struct kernel kernel = build->kernel[i];
        struct budget_item own = item[i];
        int place = kept;
        if (!own.kept) {
            cli_note(build->cli, "left out for the budget: %s for %s, chosen at %d shape%s", kernel.name,
                     kernel.arch->name, kernel.wins, kernel.wins == 1 ? "" : "s");
            free_kernel(&kernel);
            continue;
        }
        for (; place > 0 && budget_before(&own, &item[place - 1]); place--) {
            build->kernel[place] = build->kernel[place - 1];
            item[place] = item[place - 1];
        }
        build->kernel[place] = kernel;
        item[place] = own;
        kept++;
    }
    build->count = kept;
}

static enum exit_code fit_budget(struct build *build) {
    struct budget_item *item = calloc((size_t)build->count, sizeof *item);
    struct text needed = {0};
    enum exit_code code = CLI_OK;
    if (!item)
        return cli_error(build->cli, CLI_INTERNAL, "out of memory");
    for (int i = 0; i < build->count; i++)
        item[i] = (struct budget_item){
            .bytes = build->kernel[i].binary.size, .wins = build->kernel[i].wins, .group = find_group(build, i)};
    uint64_t bytes = budget_keep(item, build->count, build->budget);
    print_bytes(&needed, (double)bytes);
    if (bytes > build->budget) {
        code = cli_error(build->cli, CLI_USAGE,
                         "--budget %s is too little: one kernel for each problem takes %s (%llu bytes)",
                         cli_text(build->cli, "budget", ""), text_string(&needed), (unsigned long long)bytes);
    } else {
        int all = build->count;
        keep(build, item);
        cli_note(build->cli, "--budget %s: %d of %d kernels, %s", cli_text(build->cli, "budget", ""), build->count, all,
                 text_string(&needed));
    }
    text_free(&needed);
    free(item);
    return code;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static bool write_one(struct build *build, const char *folder, const char *name, const char *suffix, const void *bytes,
                      size_t size) {
    struct text path = {0}, error = {0};
    text_print(&path, "%s/%s%s", folder, name, suffix);
    bool ok = file_save(text_string(&path), bytes, size, NULL, &error);
    if (!ok)
        cli_error(build->cli, CLI_IO, "%s", text_string(&error));
    text_free(&path);
    text_free(&error);
    return ok;
}

static void describe_file(struct json *json, const char *key, const struct kernel *kernel, const char *suffix,
                          const void *bytes, size_t size) {
    struct text name = {0};
    char digest[65];
    text_print(&name, "%s%s", kernel->name, suffix);
    sha256_hex(bytes, size, digest);
    json_open_object(json, key);
    json_put_string(json, "file", text_string(&name));
    json_put_integer(json, "bytes", (int64_t)size);
    json_put_string(json, "sha256", digest);
    json_end(json);
    text_free(&name);
}

static void describe_plan(struct json *json, const struct plan *plan) {
    json_open_array(json, "launches");
    for (int i = 0; i < plan->launches; i++) {
        struct text grid = {0};
        plan_print(&plan->launch[i].grid, &grid);
        json_open_object(json, NULL);
        json_put_string(json, "entry", plan->launch[i].entry);
        json_put_string(json, "grid", text_string(&grid));
        json_put_integer(json, "block", plan->launch[i].block);
        json_put_integer(json, "shared_bytes", plan->launch[i].shared);
        if (plan->launch[i].cluster)
            json_put_integer(json, "cluster", plan->launch[i].cluster);
        json_end(json);
        text_free(&grid);
    }
    json_end(json);
    if (plan->splits.expr[PLAN_SPLIT_MOST].count) {
        struct text splits = {0};
        plan_print_splits(&plan->splits, &splits);
        json_put_string(json, "splits", text_string(&splits) + 1);
        text_free(&splits);
    }
    struct text workspace = {0};
    plan_print(&plan->workspace, &workspace);
    json_put_string(json, "workspace_bytes", text_string(&workspace));
    text_free(&workspace);
}

static bool is_ptx(const struct kernel *kernel) { return strncmp(kernel->arch->name, "compute_", 8) == 0; }

static void suffix_of(const struct kernel *kernel, char suffix[SUFFIX]) {
    snprintf(suffix, SUFFIX, ".%s.%s", kernel->arch->name,
             kernel->arch->host ? "so"
             : is_ptx(kernel)   ? "ptx"
                                : "cubin");
}

/* The NUL at the end of PTX is for the driver and not written to files. */
static size_t file_size(const struct kernel *kernel) { return kernel->binary.size - is_ptx(kernel); }

/* "compiler" is NVRTC, "host_compiler" the one for the CPU of this machine. */
static void describe_compilers(const struct build *build, struct json *json) {
    struct nvrtc_info nvrtc = {0};
    if (build->nvrtc) {
        nvrtc_describe(build->nvrtc, &nvrtc);
        json_put_string(json, "compiler", nvrtc.title);
    }
    for (int i = 0; i < build->archs; i++)
        if (build->arch[i].host) {
            struct text identity = {0};
            struct failure failure = {0};
            struct backend_info info;
            backend_host.identity(build->arch[i].host, NULL, &identity, &failure); /* makes it look for the compiler */
            backend_host.describe(build->arch[i].host, &info);
            json_put_string(json, "host_compiler", info.compiler);
            text_free(&identity);
            failure_clear(&failure);
            return;
        }
}

static void write_manifest(const struct build *build, struct text *manifest) {
    struct json json;
    const char *slash = strrchr(build->catalog.name, '/');
    json_open(&json, manifest);
    json_open_object(&json, NULL);
    json_put_string(&json, "schema", "attile.manifest/1");
    json_put_string(&json, "generator", GEN_VERSION);
    describe_compilers(build, &json);
    json_put_string(&json, "spec", slash ? slash + 1 : build->catalog.name);
    json_open_array(&json, "kernels");
    for (int i = 0; i < build->count; i++) {
        const struct kernel *kernel = &build->kernel[i];
        char suffix[SUFFIX];
        suffix_of(kernel, suffix);
        json_open_object(&json, NULL);
        json_put_string(&json, "name", kernel->name);
        json_put_string(&json, "variant", text_string(&kernel->variant));
        json_put_string(&json, "arch", kernel->arch->name);
        json_put_integer(&json, "registers", kernel->binary.registers);
        json_put_integer(&json, "spill_bytes", kernel->binary.spill_bytes);
        describe_plan(&json, &kernel->source.plan);
        describe_file(&json, "source", kernel, ".cu", text_string(&kernel->source.text), kernel->source.text.size);
        describe_file(&json, "binary", kernel, suffix, kernel->binary.bytes, file_size(kernel));
        json_end(&json);
    }
    json_close(&json);
}

static enum exit_code write_bundle(const struct build *build, struct text *text) {
    struct att_bundle_kernel *kernels = calloc((size_t)build->count, sizeof *kernels);
    struct failure failure = {0};
    if (!kernels)
        return cli_error(build->cli, CLI_INTERNAL, "out of memory");
    for (int i = 0; i < build->count; i++) {
        const struct kernel *kernel = &build->kernel[i];
        kernels[i] = (struct att_bundle_kernel){.name = kernel->name,
                                                .variant = text_string(&kernel->variant),
                                                .arch = kernel->arch->name,
                                                .plan = text_string(&kernel->plan_text),
                                                .binary = kernel->binary.bytes,
                                                .size = kernel->binary.size,
                                                .registers = kernel->binary.registers,
                                                .spill_bytes = kernel->binary.spill_bytes};
    }
    enum att_status status =
        bundle_write_c(cli_text(build->cli, "symbol", "attile_kernels"), kernels, build->count, text, &failure);
    if (status != ATT_OK)
        cli_error(build->cli, cli_exit_code(status), "%s", text_string(&failure.text));
    failure_clear(&failure);
    free(kernels);
    return cli_exit_code(status);
}

/* Refuses what can be refused before anything is compiled. */
static enum exit_code check_output(struct cli *cli) {
    const char *folder = cli_text(cli, "out", "built");
    struct failure failure = {0};
    struct text manifest = {0}, error = {0};
    enum exit_code code = cli_exit_code(bundle_check_symbol(cli_text(cli, "symbol", "attile_kernels"), &failure));
    if (code)
        cli_error(cli, code, "%s", text_string(&failure.text));
    text_print(&manifest, "%s/manifest.json", folder);
    if (!code && (!file_make_folder(folder, &error) || !file_can_save(text_string(&manifest), &error)))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    failure_clear(&failure);
    text_free(&manifest);
    text_free(&error);
    return code;
}

/* Writes the manifest last: if it is new, everything it names exists. */
static enum exit_code write_all(struct build *build) {
    struct cli *cli = build->cli;
    const char *folder = cli_text(cli, "out", "built");
    struct text manifest = {0}, bundle = {0};
    enum exit_code code = write_bundle(build, &bundle);
    write_manifest(build, &manifest);
    if (!code && (manifest.failed || bundle.failed))
        code = cli_error(cli, CLI_INTERNAL, "out of memory");
    bool ok = !code;
    for (int i = 0; ok && i < build->count; i++) {
        const struct kernel *kernel = &build->kernel[i];
        char suffix[SUFFIX];
        suffix_of(kernel, suffix);
        ok = write_one(build, folder, kernel->name, ".cu", text_string(&kernel->source.text),
                       kernel->source.text.size) &&
             write_one(build, folder, kernel->name, suffix, kernel->binary.bytes, file_size(kernel));
    }
    ok = ok && write_one(build, folder, "kernels", ".c", text_string(&bundle), bundle.size) &&
         write_one(build, folder, "manifest", ".json", text_string(&manifest), manifest.size);
    if (ok && cli->json)
        text_append(&cli->out, manifest.bytes, manifest.size);
    if (ok)
        cli_note(cli, "%s: %d kernels, kernels.c, manifest.json", folder, build->count);
    text_free(&manifest);
    text_free(&bundle);
    return code ? code : ok ? CLI_OK : CLI_IO;
}

enum exit_code verb_build(struct cli *cli) {
    struct build build = {.cli = cli};
    const char *budget = cli_text(cli, "budget", NULL);
    int feasible, pruned;
    cli_catch_interrupt();
    if (budget && !byte_size_read(budget, &build.budget))
        return cli_error(cli, CLI_USAGE, "--budget expects a size, '500000', '640K' or '2M' say, found '%s'", budget);
    enum exit_code code = catalog_open(&build.catalog, cli);
    bool asks = cli_given(cli, "for") && !build.catalog.spec; /* a bare problem: the library says whether it can be */
    if (!code && !asks)
        code = catalog_count(&build.catalog, cli, &feasible, &pruned);
    if (!code && cli_given(cli, "for"))
        code = chosen_open(&build.chosen, cli, &build.catalog);
    if (!code)
        code = read_archs(&build);
    if (!code)
        code = expand_all(&build);
    if (!code)
        code = check_output(cli);
    if (!code)
        code = compile_all(&build);
    if (!code && build.budget)
        code = fit_budget(&build);
    if (!code)
        code = write_all(&build);
    for (int i = 0; i < build.count; i++)
        free_kernel(&build.kernel[i]);
    free(build.kernel);
    for (int i = 0; i < build.archs; i++)
        backend_host.close(build.arch[i].host);
    nvrtc_close(build.nvrtc);
    chosen_close(&build.chosen);
    variant_names_free(&build.chosen_names);
    catalog_close(&build.catalog);
    return code;
}
