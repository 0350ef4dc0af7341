#include "nvrtc.h"
#include "compile_log.h"
#include "cubin.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* FUNCTION(member, symbol, parameters): every one returns an nvrtcResult, 0 = success. */
#define NVRTC_FUNCTIONS(FUNCTION)                                                                                      \
    FUNCTION(version, nvrtcVersion, (int *major, int *minor))                                                          \
    FUNCTION(arch_count, nvrtcGetNumSupportedArchs, (int *count))                                                      \
    FUNCTION(archs, nvrtcGetSupportedArchs, (int *archs))                                                              \
    FUNCTION(create, nvrtcCreateProgram,                                                                               \
             (void **program, const char *source, const char *name, int headers, const char *const *texts,             \
              const char *const *names))                                                                               \
    FUNCTION(destroy, nvrtcDestroyProgram, (void **program))                                                           \
    FUNCTION(compile, nvrtcCompileProgram, (void *program, int count, const char *const *options))                     \
    FUNCTION(log_size, nvrtcGetProgramLogSize, (void *program, size_t *size))                                          \
    FUNCTION(log, nvrtcGetProgramLog, (void *program, char *log))                                                      \
    FUNCTION(cubin_size, nvrtcGetCUBINSize, (void *program, size_t *size))                                             \
    FUNCTION(cubin, nvrtcGetCUBIN, (void *program, char *cubin))                                                       \
    FUNCTION(ptx_size, nvrtcGetPTXSize, (void *program, size_t *size))                                                 \
    FUNCTION(ptx, nvrtcGetPTX, (void *program, char *ptx))

enum { NVRTC_SUCCESS = 0, NVRTC_OUT_OF_MEMORY = 1, NVRTC_COMPILATION = 6 };
enum { ARCHS_MOST = 64, OPTIONS_MOST = 4, BUILD_ID = 65, TITLE = 64 };

struct nvrtc {
#define MEMBER(member, symbol, parameters) int(*member) parameters;
    NVRTC_FUNCTIONS(MEMBER)
#undef MEMBER
    const char *(*error_string)(int result);
    void *library;
    int major, minor, archs_known, arch[ARCHS_MOST];
    const char *rule;
    char path[PATH_MAX], builtins[PATH_MAX], title[TITLE];
    char build_id[BUILD_ID], builtins_id[BUILD_ID];
};

/* --- finding the library --------------------------------------------------------------------------------------- */

const char *const nvrtc_sonames[NVRTC_SONAMES] = {"libnvrtc.so.13", "libnvrtc.so.12"};
const char *const nvrtc_folders[NVRTC_FOLDERS] = {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"};

/* In this order; the last always exists, and those from the environment must be absolute. */
static const char *const roots[NVRTC_ROOTS] = {"CUDA_HOME", "CUDA_PATH", "/usr/local/cuda"};

const char *nvrtc_root(int i) {
    const char *root = *roots[i] == '/' ? roots[i] : secure_getenv(roots[i]);
    return root && *root == '/' ? root : NULL;
}

/* dlopen reports which of several libraries is missing; this text is kept for the failure. */
static bool try_open(struct nvrtc *nvrtc, const char *path, int flags, const char *rule, struct text *tried) {
    nvrtc->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
    if (!nvrtc->library) {
        const char *why = dlerror();
        text_print(tried, "\n  %s: %s", rule, why ? why : path);
        return false;
    }
    nvrtc->rule = rule;
    return true;
}

static bool try_folder(struct nvrtc *nvrtc, const char *root, const char *rule, struct text *tried) {
    for (int i = 0; i < NVRTC_FOLDERS; i++)
        for (int j = 0; j < NVRTC_SONAMES; j++) {
            char path[PATH_MAX];
            int length = snprintf(path, sizeof path, "%s/%s/%s", root, nvrtc_folders[i], nvrtc_sonames[j]);
            struct stat status;
            if (length < (int)sizeof path && stat(path, &status) == 0 && try_open(nvrtc, path, 0, rule, tried))
                return true;
        }
    text_print(tried, "\n  %s: no %s or %s in lib64 or lib of %s", rule, nvrtc_sonames[0], nvrtc_sonames[1], root);
    return false;
}

static bool find_library(struct nvrtc *nvrtc, struct text *tried) {
    const char *path = secure_getenv("ATTILE_NVRTC");
    if (path && *path) /* an explicit request is fulfilled or refused, never replaced */
        return try_open(nvrtc, path, 0, "ATTILE_NVRTC", tried);
    for (int i = 0; i < NVRTC_SONAMES; i++)
        if (try_open(nvrtc, nvrtc_sonames[i], RTLD_NOLOAD, "loaded already", &(struct text){.failed = true}))
            return true;
    for (int i = 0; i < NVRTC_SONAMES; i++)
        if (try_open(nvrtc, nvrtc_sonames[i], 0, "system", tried))
            return true;
    for (int i = 0; i < NVRTC_ROOTS; i++)
        if (nvrtc_root(i) && try_folder(nvrtc, nvrtc_root(i), roots[i], tried))
            return true;
    return false;
}

/* --- identity -------------------------------------------------------------------------------------------------- */

struct id_search {
    ElfW(Addr) base;
    const char *path;
    char *id; /* BUILD_ID bytes */
};

static int read_build_id(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct id_search *search = context;
    if (info->dlpi_addr != search->base || strcmp(info->dlpi_name, search->path) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        const char *end = at + info->dlpi_phdr[i].p_memsz;
        while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const char *name = at + sizeof note, *value = name + ((note.n_namesz + 3) & ~3u);
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
                for (unsigned j = 0; j < note.n_descsz && 2 * j + 2 < BUILD_ID; j++)
                    snprintf(search->id + 2 * (size_t)j, 3, "%02x", (unsigned char)value[j]);
                return 1;
            }
            at = value + ((note.n_descsz + 3) & ~3u);
        }
    }
    return 1;
}

/* Finds the path of a loaded library and its build; without a build-id, its size serves instead. */
static void identify(void *library, char path[PATH_MAX], char id[BUILD_ID]) {
    struct link_map *map;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
        return;
    snprintf(path, PATH_MAX, "%s", map->l_name);
    struct id_search search = {.base = map->l_addr, .path = map->l_name, .id = id};
    dl_iterate_phdr(read_build_id, &search);
    struct stat status;
    if (!*id && stat(path, &status) == 0)
        snprintf(id, BUILD_ID, "%lld bytes", (long long)status.st_size);
}

/* The library opens its builtins by bare name, which fails if its own folder is not on the search path. If a library of
   that name is already loaded, it is used instead, so this function first loads it from the same folder. */
static void load_builtins(struct nvrtc *nvrtc) {
    char path[PATH_MAX];
    const char *slash = strrchr(nvrtc->path, '/');
    int folder = slash ? (int)(slash - nvrtc->path + 1) : 0;
    int length =
        snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", folder, nvrtc->path, nvrtc->major, nvrtc->minor);
    void *library = length < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library)
        identify(library, nvrtc->builtins, nvrtc->builtins_id);
}

/* --- opening --------------------------------------------------------------------------------------------------- */

static bool find_symbol(void *library, const char *symbol, void *function) {
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address); /* ISO C has no cast from data to function pointers */
    return address != NULL;
}

static const char *find_functions(struct nvrtc *nvrtc) {
#define FIND(member, symbol, parameters)                                                                               \
    if (!find_symbol(nvrtc->library, #symbol, &nvrtc->member))                                                         \
        return #symbol;
    NVRTC_FUNCTIONS(FIND)
#undef FIND
    return find_symbol(nvrtc->library, "nvrtcGetErrorString", &nvrtc->error_string) ? NULL : "nvrtcGetErrorString";
}

enum att_status nvrtc_open(struct nvrtc **result, struct failure *failure) {
    *result = NULL;
    struct nvrtc *nvrtc = calloc(1, sizeof *nvrtc);
    if (!nvrtc)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while opening NVRTC");
    struct text tried = {0};
    if (!find_library(nvrtc, &tried)) {
        failure_set(failure, ATT_NO_COMPILER,
                    "NVRTC was not found. Install the CUDA Toolkit (12 or 13), or set ATTILE_NVRTC to the path of a "
                    "libnvrtc.so.13; `./quickstart setup` fetches one for the programs of its build tree. Tried:%s",
                    text_string(&tried));
        text_free(&tried);
        free(nvrtc);
        return failure->status;
    }
    text_free(&tried);
    identify(nvrtc->library, nvrtc->path, nvrtc->build_id);
    const char *missing = find_functions(nvrtc);
    if (missing || nvrtc->version(&nvrtc->major, &nvrtc->minor) != NVRTC_SUCCESS || nvrtc->major < 12) {
        failure_set(failure, ATT_NO_COMPILER, "%s is no usable NVRTC: %s; version 12 or newer is needed", nvrtc->path,
                    missing ? missing : "it is too old");
        free(nvrtc);
        return failure->status;
    }
    load_builtins(nvrtc);
    int count = 0;
    if (nvrtc->arch_count(&count) == NVRTC_SUCCESS && count > 0 && count <= ARCHS_MOST &&
        nvrtc->archs(nvrtc->arch) == NVRTC_SUCCESS)
        nvrtc->archs_known = count;
    const char *slash = strrchr(nvrtc->path, '/');
    snprintf(nvrtc->title, sizeof nvrtc->title, "NVRTC %d.%d (%.40s)", nvrtc->major, nvrtc->minor,
             slash ? slash + 1 : nvrtc->path);
    *result = nvrtc;
    return ATT_OK;
}

void nvrtc_close(struct nvrtc *nvrtc) { free(nvrtc); }

void nvrtc_describe(const struct nvrtc *nvrtc, struct nvrtc_info *info) {
    *info = (struct nvrtc_info){.major = nvrtc->major,
                                .minor = nvrtc->minor,
                                .path = nvrtc->path,
                                .rule = nvrtc->rule,
                                .builtins = *nvrtc->builtins ? nvrtc->builtins : NULL,
                                .title = nvrtc->title};
}

/* --- compiling ------------------------------------------------------------------------------------------------- */

static const char ptx_prefix[] = "compute_";

static bool is_ptx(const char *arch) { return strncmp(arch, ptx_prefix, sizeof ptx_prefix - 1) == 0; }

/* "sm_90a" -> 90. Valid are sm_, digits and optionally one of the letters a and f, or compute_ and digits; -1 for
   everything else. PTX with a letter would serve no later GPU. */
static int arch_number(const char *arch) {
    int number = 0, used = 0;
    const char *digits = arch + (is_ptx(arch) ? sizeof ptx_prefix - 1 : 3);
    if ((!is_ptx(arch) && strncmp(arch, "sm_", 3) != 0) || sscanf(digits, "%3d%n", &number, &used) != 1 ||
        number < 10 || *digits < '1' || *digits > '9')
        return -1;
    const char *rest = digits + used;
    if (!is_ptx(arch) && (*rest == 'a' || *rest == 'f'))
        rest++;
    return *rest ? -1 : number;
}

bool nvrtc_knows(const struct nvrtc *nvrtc, const char *arch) {
    int number = arch_number(arch);
    for (int i = 0; i < nvrtc->archs_known; i++)
        if (nvrtc->arch[i] == number)
            return true;
    return nvrtc->archs_known == 0 && number > 0;
}

/* The complete list of options. -no-cache: NVRTC's own cache returns no log, and our cache precedes it anyway. */
static int list_options(const struct nvrtc *nvrtc, const char *arch, char arch_option[32],
                        const char *options[OPTIONS_MOST]) {
    int count = 0;
    snprintf(arch_option, 32, "-arch=%.16s", arch);
    options[count++] = arch_option;
    options[count++] = "--std=c++17";
    options[count++] = "--ptxas-options=-v";
    if (nvrtc->major > 12 || nvrtc->minor >= 9)
        options[count++] = "-no-cache";
    return count;
}

void nvrtc_identity(const struct nvrtc *nvrtc, const char *arch, struct text *text) {
    char arch_option[32];
    const char *options[OPTIONS_MOST];
    int count = list_options(nvrtc, arch, arch_option, options);
    text_print(text, "compiler: NVRTC %d.%d\nbuild: %s\nbuiltins: %s\noptions:", nvrtc->major, nvrtc->minor,
               nvrtc->build_id, nvrtc->builtins_id);
    for (int i = 0; i < count; i++)
        text_print(text, " %s", options[i]);
    text_print(text, "\n");
}

static void read_log(const struct nvrtc *nvrtc, void *program, struct text *log) {
    size_t size = 0;
    if (nvrtc->log_size(program, &size) != NVRTC_SUCCESS || size <= 1)
        return;
    char *bytes = malloc(size);
    if (bytes && nvrtc->log(program, bytes) == NVRTC_SUCCESS)
        text_append(log, bytes, strnlen(bytes, size));
    free(bytes);
}

/* PTX is a string: its size includes the NUL. */
static enum att_status take_ptx(const struct nvrtc *nvrtc, void *program, const struct compile_job *job,
                                struct binary *binary, struct failure *failure) {
    if (nvrtc->ptx_size(program, &binary->size) != NVRTC_SUCCESS || binary->size <= 1)
        return failure_set(failure, ATT_COMPILE_FAILED, "%s: NVRTC made no PTX for %s", job->name, job->arch);
    binary->bytes = malloc(binary->size);
    if (!binary->bytes)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for %zu bytes of PTX", binary->size);
    if (nvrtc->ptx(program, binary->bytes) != NVRTC_SUCCESS)
        return failure_set(failure, ATT_COMPILE_FAILED, "%s: NVRTC did not return its PTX", job->name);
    return ATT_OK;
}

/* Warps that multiply with wgmma get as many registers as they need (setmaxnreg), so spills there are not a trade-off
   of the compiler but an exceeded budget. One instruction in thirty costs less than another schedule does. Warps that
   only load have time for spills, and in other kernels measurements decide. */
static bool spills_too_much(const struct cubin_usage *usage, struct text *reason) {
    enum { ONE_IN = 30 };
    if (usage->spills_among_products * ONE_IN <= usage->instructions_among_products)
        return false;
    text_print(
        reason,
        "of %d instructions among the matrix products %d spill registers, expected one in %d at most: smaller tiles or "
        "fewer stages of work in flight need fewer",
        usage->instructions_among_products, usage->spills_among_products, ONE_IN);
    return true;
}

static enum att_status take_cubin(const struct nvrtc *nvrtc, void *program, const struct compile_job *job,
                                  struct binary *binary, struct failure *failure) {
    if (nvrtc->cubin_size(program, &binary->size) != NVRTC_SUCCESS || binary->size == 0)
        return failure_set(failure, ATT_COMPILE_FAILED, "%s: NVRTC made no binary for %s", job->name, job->arch);
    binary->bytes = malloc(binary->size);
    if (!binary->bytes)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for a binary of %zu bytes", binary->size);
    if (nvrtc->cubin(program, binary->bytes) != NVRTC_SUCCESS)
        return failure_set(failure, ATT_COMPILE_FAILED, "%s: NVRTC did not return its binary", job->name);
    struct text reason = {0};
    binary->registers = -1;
    binary->instructions = 0;
    for (int i = 0; i < job->entry_count; i++) {
        struct cubin_usage usage;
        if (!cubin_read(binary->bytes, binary->size, job->entries[i], &usage)) {
            text_free(&reason);
            return failure_set(failure, ATT_COMPILE_FAILED,
                               "%s: the binary holds no kernel '%s'; is it declared extern \"C\" __global__?",
                               job->name, job->entries[i]);
        }
        if (usage.registers > binary->registers)
            binary->registers = usage.registers;
        binary->instructions += usage.instructions;
        if (!binary->refused)
            binary->refused = spills_too_much(&usage, &reason);
    }
    const char *log = text_string(&binary->log);
    binary->spill_bytes = compile_log_spills(log);
    if (!binary->refused)
        binary->refused = compile_log_refuses(log, &reason);
    if (binary->refused)
        failure_set(failure, ATT_COMPILE_FAILED, "%s: %s\n%s", job->name, text_string(&reason), log);
    text_free(&reason);
    return failure->status;
}

static enum att_status compile_program(const struct nvrtc *nvrtc, void *program, const struct compile_job *job,
                                       struct binary *binary, struct failure *failure) {
    char arch_option[32];
    const char *options[OPTIONS_MOST];
    int count = list_options(nvrtc, job->arch, arch_option, options);
    int result = nvrtc->compile(program, count, options);
    read_log(nvrtc, program, &binary->log);
    if (result == NVRTC_COMPILATION)
        return failure_set(failure, ATT_COMPILE_FAILED, "%s does not compile for %s:\n%s", job->name, job->arch,
                           text_string(&binary->log));
    if (result != NVRTC_SUCCESS)
        return failure_set(failure, result == NVRTC_OUT_OF_MEMORY ? ATT_OUT_OF_MEMORY : ATT_COMPILE_FAILED,
                           "%s: NVRTC failed with %s\n%s", job->name, nvrtc->error_string(result),
                           text_string(&binary->log));
    return (is_ptx(job->arch) ? take_ptx : take_cubin)(nvrtc, program, job, binary, failure);
}

enum att_status nvrtc_compile(const struct nvrtc *nvrtc, const struct compile_job *job, struct binary *binary,
                              struct failure *failure) {
    *binary = (struct binary){.registers = -1, .spill_bytes = -1, .instructions = -1};
    if (arch_number(job->arch) < 0)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "'%s' is no architecture; expected sm_80, sm_90a or the like",
                           job->arch);
    if (!nvrtc_knows(nvrtc, job->arch))
        return failure_set(failure, ATT_NO_COMPILER, "%s does not know %s; install the NVRTC of a newer CUDA Toolkit",
                           nvrtc->title, job->arch);
    void *program = NULL;
    int result = nvrtc->create(&program, job->source, job->name, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS)
        return failure_set(failure, result == NVRTC_OUT_OF_MEMORY ? ATT_OUT_OF_MEMORY : ATT_INTERNAL,
                           "%s: NVRTC made no program: %s", job->name, nvrtc->error_string(result));
    enum att_status status = compile_program(nvrtc, program, job, binary, failure);
    nvrtc->destroy(&program);
    bool refused = binary->refused;
    if (status != ATT_OK)
        binary_free(binary);
    binary->refused = refused;
    return status;
}
