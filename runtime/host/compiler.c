/* compiler: see compiler.h. */
#include "compiler.h"
#include "embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

extern char **environ;

/* What a kernel sees, in this order: parts before its source, one after it. */
static const char *const parts_before[] = {"abi.h", "watch.h", "words.h", "together.h", "target.h", "hopper.h"};
static const char part_after[] = "entries.h";

/* No standard library and no start files: a kernel is compiled and linked in a fraction of a second, and takes the few
   functions it needs (expf, the sanitizer's) from the process that loads it. */
static const char *const options_always[] = {"-std=c++17",
                                             "-fPIC",
                                             "-shared",
                                             "-nostdlib",
                                             "-Wl,-Bsymbolic",
                                             "-pipe",
                                             "-fno-exceptions",
                                             "-fno-rtti",
                                             "-ffp-contract=off",
                                             "-fno-math-errno",
                                             "-fvisibility=hidden",
                                             "-fno-strict-aliasing",
                                             "-fno-stack-protector",
                                             "-w",
                                             "-x",
                                             "c++",
                                             NULL};
static const char *const options_mode[][5] = {
    [ATT_HOST_CHECK] = {"-O1", "-g1", "-fsanitize=thread", NULL},
    [ATT_HOST_FAST] = {"-O2", NULL},
    [ATT_HOST_RACE] = {"-O1", "-g1", "-fsanitize=thread", "-fno-omit-frame-pointer", NULL},
};

/* fmaf is one instruction on nearly every CPU; the result is the same without, only slower. */
static const char *const *options_cpu(void) {
    static const char *const none[] = {NULL};
#if defined(__x86_64__)
    static const char *const fma[] = {"-mfma", NULL};
    return __builtin_cpu_supports("fma") ? fma : none;
#else
    return none;
#endif
}

/* --- children ------------------------------------------------------------------------------------------------------ */

static void read_all(int file, struct text *text) {
    char bytes[4096];
    ssize_t size;
    while ((size = read(file, bytes, sizeof bytes)) > 0 || (size < 0 && errno == EINTR))
        if (size > 0)
            text_append(text, bytes, (size_t)size);
}

bool compiler_spawn(char *const argv[], struct text *output) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    pid_t child;
    int error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!error)
        read_all(ends[0], output);
    close(ends[0]);
    if (error) {
        text_print(output, "%s: %s\n", argv[0], strerror(error));
        return false;
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- finding ------------------------------------------------------------------------------------------------------- */

/* The full path of a program, owned by the caller, or null. */
static char *search(const char *program) {
    if (strchr(program, '/'))
        return access(program, X_OK) == 0 ? strdup(program) : NULL;
    const char *path = secure_getenv("PATH");
    for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *path;) {
        size_t size = strcspn(path, ":");
        char *full = NULL;
        if (size && asprintf(&full, "%.*s/%s", (int)size, path, program) < 0)
            return NULL;
        if (full && access(full, X_OK) == 0)
            return full;
        free(full);
        path += size + (path[size] == ':');
    }
    return NULL;
}

/* Words of "ccache g++ -m64"; false when there are none or too many. */
static bool split(struct compiler *compiler, const char *text) {
    free(compiler->words);
    compiler->words = strdup(text);
    if (!compiler->words)
        return false;
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(compiler->words, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (count == COMPILER_WORDS - 1)
            return false;
        compiler->command[count++] = word;
    }
    compiler->command[count] = NULL;
    return count > 0;
}

void compiler_find(struct compiler *compiler) {
    *compiler = (struct compiler){0};
    const char *candidate[] = {secure_getenv("CXX"), "c++", "g++", "clang++"};
    for (size_t i = 0; i < sizeof candidate / sizeof *candidate && !compiler->path; i++)
        if (candidate[i] && split(compiler, candidate[i]))
            compiler->path = search(compiler->command[0]);
}

void compiler_free(struct compiler *compiler) {
    free(compiler->words);
    free(compiler->path);
    free(compiler->version);
    *compiler = (struct compiler){0};
}

static enum att_status no_compiler(struct failure *failure) {
    return failure_set(failure, ATT_NO_COMPILER,
                       "the host device needs a C++17 compiler: none of $CXX, c++, g++, clang++ was found on the PATH; "
                       "install one (for example `apt install g++`) or set CXX");
}

enum att_status compiler_ask(struct compiler *compiler, struct failure *failure) {
    if (compiler->version)
        return ATT_OK;
    if (!compiler->path)
        return no_compiler(failure);
    char *argv[COMPILER_WORDS + 1];
    int count = 0;
    for (; compiler->command[count]; count++)
        argv[count] = compiler->command[count];
    char ask[] = "--version";
    argv[count++] = ask;
    argv[count] = NULL;
    struct text output = {0};
    if (!compiler_spawn(argv, &output) || output.size == 0) {
        failure_set(failure, ATT_NO_COMPILER, "the C++ compiler %s does not answer --version:\n%s", compiler->path,
                    text_string(&output));
        text_free(&output);
        return ATT_NO_COMPILER;
    }
    char *version = strndup(output.bytes, strcspn(output.bytes, "\n"));
    __atomic_store_n(&compiler->version, version, __ATOMIC_RELEASE); /* others may be reading it */
    text_free(&output);
    return version ? ATT_OK : failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory");
}

/* --- compiling ----------------------------------------------------------------------------------------------------- */

static const struct embedded_file *part(const char *name) {
    const struct embedded_file *file = embedded_host;
    while (file->name && strcmp(file->name, name) != 0)
        file++;
    return file;
}

static void print_part(struct text *text, const char *name) {
    text_print(text, "#line 1 \"attile/%s\"\n", name);
    text_append(text, part(name)->text, part(name)->size);
}

static void print_before(struct text *text, enum att_host_mode mode) {
    text_print(text, "#define ATTILE_HOST 1\n#define ATTILE_MODE %d\n", (int)mode);
    for (size_t i = 0; i < sizeof parts_before / sizeof *parts_before; i++)
        print_part(text, parts_before[i]);
}

static void print_options(struct text *text, const char *const *option) {
    for (; *option; option++)
        text_print(text, " %s", *option);
}

void compiler_describe(const struct compiler *compiler, enum att_host_mode mode, struct text *text) {
    struct text words = {0};
    print_before(&words, mode);
    print_part(&words, part_after);
    XXH128_hash_t hash = XXH3_128bits(words.bytes, words.size);
    text->failed |= words.failed;
    text_free(&words);
    text_print(text, "compiler: %s\noptions:", compiler->version);
    for (int i = 1; compiler->command[0] && compiler->command[i]; i++)
        text_print(text, " %s", compiler->command[i]);
    print_options(text, options_always);
    print_options(text, options_mode[mode]);
    print_options(text, options_cpu());
    text_print(text, "\nwords: %016llx%016llx\n", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

static void print_unit(struct text *text, enum att_host_mode mode, const struct compile_job *job) {
    print_before(text, mode);
    text_print(text, "#line 1 \"");
    for (const char *c = job->name; *c; c++) /* as a C string */
        text_print(text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c == '\n' ? ' ' : *c);
    text_print(text, "\"\n%s\n", job->source);
    print_part(text, part_after);
    text_print(text, "#define ENTRIES(entry)");
    for (int i = 0; i < job->entry_count; i++)
        text_print(text, " entry(%s)", job->entries[i]);
    text_print(text, "\nATTILE_MODULE(ENTRIES)\n");
}

static bool write_file(const char *path, const struct text *text) {
    FILE *file = fopen(path, "wbe");
    if (!file)
        return false;
    bool good = fwrite(text->bytes, 1, text->size, file) == text->size;
    return fclose(file) == 0 && good;
}

static bool read_file(const char *path, struct text *text) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    read_all(file, text);
    close(file);
    return !text->failed && text->size > 0;
}

static void push(char **argv, int *count, const char *const *options) {
    for (; *options; options++)
        argv[(*count)++] = (char *)(uintptr_t)*options; /* posix_spawn promises not to write them */
}

static enum att_status compile_in(const char *folder, const struct compiler *compiler, enum att_host_mode mode,
                                  const struct compile_job *job, struct binary *binary, struct failure *failure) {
    char unit_path[64], object_path[64], output_option[] = "-o", map_option[96];
    snprintf(unit_path, sizeof unit_path, "%s/unit.cc", folder);
    snprintf(object_path, sizeof object_path, "%s/unit.so", folder);
    snprintf(map_option, sizeof map_option, "-fdebug-prefix-map=%s=.", folder);

    struct text unit = {0};
    print_unit(&unit, mode, job);
    bool written = !unit.failed && write_file(unit_path, &unit);
    text_free(&unit);
    if (!written)
        return failure_set(failure, ATT_IO, "cannot write %s: %s", unit_path, strerror(errno));

    char *argv[48];
    int count = 0;
    push(argv, &count, (const char *const *)compiler->command);
    push(argv, &count, options_always);
    push(argv, &count, options_mode[mode]);
    push(argv, &count, options_cpu());
    argv[count++] = map_option;
    argv[count++] = unit_path;
    argv[count++] = output_option;
    argv[count++] = object_path;
    argv[count] = NULL;

    struct text object = {0};
    bool compiled = compiler_spawn(argv, &binary->log);
    bool loaded = compiled && read_file(object_path, &object);
    unlink(unit_path);
    unlink(object_path);
    if (!loaded) {
        text_free(&object);
        failure_set(failure, ATT_COMPILE_FAILED, "%s does not compile with %s:\n%s", job->name, compiler->path,
                    text_string(&binary->log));
        text_free(&binary->log);
        return ATT_COMPILE_FAILED;
    }
    binary->bytes = object.bytes;
    binary->size = object.size;
    binary->registers = binary->spill_bytes = binary->instructions = -1;
    return ATT_OK;
}

enum att_status compiler_run(const struct compiler *compiler, enum att_host_mode mode, const struct compile_job *job,
                             struct binary *binary, struct failure *failure) {
    *binary = (struct binary){.registers = -1, .spill_bytes = -1, .instructions = -1};
    if (!compiler->path)
        return no_compiler(failure);
    char folder[] = "/tmp/attile-XXXXXX";
    if (!mkdtemp(folder))
        return failure_set(failure, ATT_IO, "cannot make a folder for the compiler, %s: %s", folder, strerror(errno));
    enum att_status status = compile_in(folder, compiler, mode, job, binary, failure);
    rmdir(folder);
    return status;
}

/* --- lines --------------------------------------------------------------------------------------------------------- */

static bool is_word(const char *frame) {
    char name[64];
    for (const struct embedded_file *file = embedded_host; file->name; file++) {
        snprintf(name, sizeof name, "attile/%s:", file->name);
        if (strstr(frame, name))
            return true;
    }
    return false;
}

/* addr2line prints "file:line" for the place and for each function it was inlined into; the device's own words are not
   what the reader looks for. */
int compiler_line(const char *object, size_t offset) {
    char address[32], path[64], program[] = "addr2line", inlined[] = "-i", executable[] = "-e";
    snprintf(address, sizeof address, "0x%zx", offset);
    snprintf(path, sizeof path, "%s", object);
    char *argv[] = {program, inlined, executable, path, address, NULL};
    struct text text = {0};
    int line = 0;
    if (compiler_spawn(argv, &text))
        for (char *rest = text.bytes, *frame; !line && (frame = strsep(&rest, "\n"));) {
            char *colon = strrchr(frame, ':');
            if (colon && !is_word(frame))
                line = atoi(colon + 1);
        }
    text_free(&text);
    return line;
}
