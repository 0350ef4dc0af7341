/* The sweep: every feasible variant of every spec in specs/ on every shape of its spec against the oracle, and every
   recipe of the cookbook also on the tensor-core kernels. It runs on the host device, on a GPU where there is one, and
   through NVRTC, if that is there, to what each target is compiled for. */
#include "catalog.h"
#include "check.h"
#include "compile_log.h"
#include "helper_part.h"
#include "helper_spills.h"
#include "nvrtc.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 10, SPEC_BYTES = 1 << 20, SHARDS = 15 };

struct sweep {
    att_session *session; /* null for nvrtc */
    struct nvrtc *nvrtc;
    bool both_layouts; /* otherwise they alternate */
    int number;        /* of the next feasible variant */
    int own;           /* of the next one that belongs to this part */
    int variants, runs, wrong;
};

typedef void sweep_variant(struct sweep *sweep, const struct template_set *set, const struct spec *spec,
                           const struct variant *variant);

static void complain(struct sweep *sweep, const char *variant, const char *where, const char *what) {
    if (++sweep->wrong <= SHOWN)
        fprintf(stderr, "%s, %s:\n%s\n", variant, where, what);
}

/* Replaces a word that occurs once by `by`. */
static void replace(char *text, size_t *size, const char *word, const char *by) {
    char *at = strstr(text, word);
    cr_assert(at && !strstr(at + 1, word) && *size + strlen(by) < SPEC_BYTES, "%s", word);
    memmove(at + strlen(by), at + strlen(word), strlen(at + strlen(word)) + 1);
    memcpy(at, by, strlen(by));
    *size += strlen(by) - strlen(word);
}

/* Other kernels for the recipes of the cookbook, which name the portable kernel. */
static const char *const others[] = {"algorithm: flash_async\ntarget: sm_90a", "algorithm: flash_mma\ntarget: sm_80",
                                     "algorithm: decode\ntarget: sm_80"};

/* `other`: uses a recipe on that kernel; null = the spec as it is. */
static struct spec *read_spec(const char *path, const char *other, struct diag *diag) {
    static char text[SPEC_BYTES];
    FILE *file = fopen(path, "rb");
    cr_assert(file, "cannot open %s", path);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    if (other) {
        replace(text, &size, "head_dim: 16", "head_dim: 64\n  dtype: bf16");
        replace(text, &size, "algorithm: flash_tiled", other);
    }
    return spec_read(path, text, size, diag);
}

static void sweep_spec(struct sweep *sweep, const struct template_set *set, const char *path, const char *other,
                       sweep_variant *visit) {
    struct diag diag = {0};
    struct spec *spec = read_spec(path, other, &diag);
    struct variants variants;
    struct variant variant;
    cr_assert(spec, "%s", text_string(&diag.text));
    variants_open(&variants, spec, set);
    while (sweep->wrong < SHOWN && variants_next(&variants, &variant))
        if (variant.feasible && part_has(sweep->number++) && shard_has(sweep->own++, SHARDS)) {
            sweep->variants++;
            visit(sweep, set, spec, &variant);
        }
    spec_free(spec);
}

static void sweep_all(struct sweep *sweep, sweep_variant *visit) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    glob_t paths;
    cr_assert(set, "%s", text_string(&diag.text));
    cr_assert_eq(glob(SOURCE_DIR "/specs/*.yaml", 0, NULL, &paths), 0);
    cr_assert_eq(glob(SOURCE_DIR "/specs/cookbook/*.yaml", GLOB_APPEND, NULL, &paths), 0);
    for (size_t i = 0; i < paths.gl_pathc && sweep->wrong < SHOWN; i++) {
        sweep_spec(sweep, set, paths.gl_pathv[i], NULL, visit);
        for (size_t k = 0; k < sizeof others / sizeof *others && strstr(paths.gl_pathv[i], "/cookbook/"); k++)
            sweep_spec(sweep, set, paths.gl_pathv[i], others[k], visit);
    }
    globfree(&paths);
    template_set_close(set);
    cr_assert_eq(sweep->wrong, 0, "%d wrong", sweep->wrong);
    cr_assert_gt(sweep->variants, 0);
    fprintf(stderr, "%d variants, %d runs\n", sweep->variants, sweep->runs);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static att_kernel *find(struct sweep *sweep, const struct variant *variant) {
    struct text problem = {0}, schedule = {0};
    att_kernel *kernel = NULL;
    variant_print_problem(variant, &problem, &schedule);
    if (att_find(sweep->session, text_string(&problem), text_string(&schedule), &kernel) != ATT_OK)
        complain(sweep, variant->name, "finding", att_message(sweep->session));
    else
        cr_assert_str_eq(att_kernel_name(kernel), variant->name);
    text_free(&problem);
    text_free(&schedule);
    return kernel;
}

static void check_layout(struct sweep *sweep, att_kernel *kernel, const struct workload *workload, bool spread) {
    /* the spread layout also leaves lse out */
    struct check_options options = {
        .layout = spread ? LAYOUT_SPREAD : LAYOUT_PACKED, .without_lse = spread, .shown = SHOWN};
    struct check_result result;
    char where[256];
    int at = snprintf(where, sizeof where, "%s", spread ? "spread" : "packed");
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families & 1u << workload->problem.family)
            at += snprintf(where + at, sizeof where - (size_t)at, " %s=%" PRId64, shape_table[id].name,
                           shape_get(&workload->shape, (enum shape_id)id));
    sweep->runs++;
    if (!check_run(sweep->session, kernel, workload, &options, &result))
        complain(sweep, att_kernel_name(kernel), where, text_string(&result.report));
    check_free(&result);
}

static void run_variant(struct sweep *sweep, const struct template_set *set, const struct spec *spec,
                        const struct variant *variant) {
    (void)set;
    att_kernel *kernel = find(sweep, variant);
    for (int i = 0; kernel && i < spec->shapes; i++) {
        struct workload workload;
        struct text error = {0};
        cr_assert(workload_make(&workload, &variant->knobs, &spec->shape[i], NULL, (uint64_t)i, &error), "%s",
                  text_string(&error));
        bool odd = (i + sweep->variants) % 2;
        check_layout(sweep, kernel, &workload, odd);
        if (sweep->both_layouts)
            check_layout(sweep, kernel, &workload, !odd);
        workload_free(&workload);
    }
}

/* A GPU that lacks what a target needs cannot run it. That is reported, not hidden. */
static void run_on_gpu(struct sweep *sweep, const struct template_set *set, const struct spec *spec,
                       const struct variant *variant) {
    struct att_session_info info = {.size = sizeof info};
    att_session_describe(sweep->session, &info);
    const struct target_info *target = target_info(variant->knobs.target);
    const int arch = (int)strtol(info.arch + strlen("sm_"), NULL, 10);
    if (arch < target->first || arch > target->last)
        fprintf(stderr, "not run on %s: %s\n", info.arch, variant->name);
    else
        run_variant(sweep, set, spec, variant);
}

Test(sweep, host) {
    struct sweep sweep = {0};
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .host_seed = (uint64_t)part_number()};
    cr_assert_eq(att_open(&options, &sweep.session), ATT_OK, "%s", att_message(sweep.session));
    sweep_all(&sweep, run_variant);
    att_close(sweep.session);
}

Test(sweep, cuda) {
    struct sweep sweep = {.both_layouts = true};
    struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA, .no_disk_cache = 1};
    enum att_status status = att_open(&options, &sweep.session);
    if (status == ATT_NO_DEVICE)
        cr_skip_test("no GPU: %s", att_message(sweep.session));
    cr_assert_eq(status, ATT_OK, "%s", att_message(sweep.session));
    sweep_all(&sweep, run_on_gpu);
    att_close(sweep.session);
}

/* --- compiling ---------------------------------------------------------------------------------------------------- */

static void compile_variant(struct sweep *sweep, const struct template_set *set, const struct spec *spec,
                            const struct variant *variant) {
    struct source source = {0};
    struct diag diag = {0};
    const char *entries[PLAN_LAUNCHES];
    cr_assert(source_expand(set, variant, spec->input.name, &source, &diag), "%s", text_string(&diag.text));
    for (int i = 0; i < source.plan.launches; i++)
        entries[i] = source.plan.launch[i].entry;
    /* alternates with what later GPUs run */
    const char *arch = target_info(variant->knobs.target)->arch;
    if (strcmp(arch, "sm_80") == 0 && sweep->runs % 2)
        arch = "sm_90a";
    struct compile_job job = {.source = text_string(&source.text),
                              .name = variant->name,
                              .arch = arch,
                              .entries = entries,
                              .entry_count = source.plan.launches};
    struct binary binary = {0};
    struct failure failure = {0};
    sweep->runs++;
    if (nvrtc_compile(sweep->nvrtc, &job, &binary, &failure) != ATT_OK)
        complain(sweep, variant->name, arch, text_string(&failure.text));
    else if (binary.size == 0 || binary.registers <= 0)
        complain(sweep, variant->name, arch, "an empty cubin");
    else if (((variant->knobs.algorithm == algorithm_flash_mma && source.plan.launches == 1) ||
              variant->knobs.algorithm == algorithm_decode) &&
             compile_log_spills(text_string(&binary.log)) > spills_allowed(variant->name))
        complain(sweep, variant->name, arch, "spills registers");
    binary_free(&binary);
    failure_clear(&failure);
    source_free(&source);
}

Test(sweep, nvrtc) {
    struct sweep sweep = {0};
    struct failure failure = {0};
    if (nvrtc_open(&sweep.nvrtc, &failure) != ATT_OK)
        cr_skip_test("no NVRTC: %s", text_string(&failure.text));
    sweep_all(&sweep, compile_variant);
    nvrtc_close(sweep.nvrtc);
}
