/* compiler: see compiler.h. */
#include "compiler.h"
#include "child.h"
#include "embedded.h"
#include "object.h"
#include "scratch.h"
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* The headers that precede a kernel's source, in this order, and the one that follows it. */
static const char *const parts_before[] = {"abi.h",    "watch.h",  "words.h", "together.h",
                                           "target.h", "ampere.h", "ada.h",   "hopper.h"};
static const char part_after[] = "entries.h";

/* Without the standard library and start files a kernel compiles and links in a fraction of a second. In race mode the
   process that loads it provides the sanitizer's functions. */
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

/* Linked after the kernel: expf and the like, which the process may not export. */
static const char *const options_link[] = {"-lm", NULL};

/* With -mfma, fmaf is one instruction; without it, the result is the same but slower. */
static const char *const *options_cpu(void) {
    static const char *const none[] = {NULL};
#if defined(__x86_64__)
    static const char *const fma[] = {"-mfma", NULL};
    return __builtin_cpu_supports("fma") ? fma : none;
#else
    return none;
#endif
}

/* --- finding ------------------------------------------------------------------------------------------------------- */

/* Splits "ccache g++ -m64" into words; false if there are none or too many. */
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
    const char *wish = secure_getenv("CXX");
    *compiler = (struct compiler){.wished = wish && wish[strspn(wish, " \t")]};
    const char *candidate[] = {compiler->wished ? wish : "c++", "g++", "clang++"};
    size_t candidates = compiler->wished ? 1 : sizeof candidate / sizeof *candidate;
    for (size_t i = 0; i < candidates && !compiler->path; i++)
        if (split(compiler, candidate[i]))
            compiler->path = child_find(compiler->command[0]);
    compiler->addr2line = child_find("addr2line");
}

void compiler_free(struct compiler *compiler) {
    free(compiler->words);
    free(compiler->path);
    free(compiler->addr2line);
    free(compiler->version);
    *compiler = (struct compiler){0};
}

static enum att_status no_compiler(const struct compiler *compiler, struct failure *failure) {
    if (compiler->wished)
        return failure_set(
            failure, ATT_NO_COMPILER,
            "the host device needs a C++17 compiler, and CXX names the program '%s', which was not found; "
            "correct CXX, or unset it to use c++, g++ or clang++ from the PATH (`apt install g++`)",
            compiler->command[0] ? compiler->command[0] : "");
    return failure_set(failure, ATT_NO_COMPILER,
                       "the host device needs a C++17 compiler: none of c++, g++, clang++ was found on the PATH; "
                       "install one (for example `apt install g++`) or set CXX");
}

/* Pushes the command with its full path, so that exactly the compiler that was found runs. Returns the number of
   words. */
static int push_command(char **argv, const struct compiler *compiler) {
    int count = 0;
    argv[count++] = compiler->path;
    for (; compiler->command[count]; count++)
        argv[count] = compiler->command[count];
    return count;
}

enum att_status compiler_ask(struct compiler *compiler, struct failure *failure) {
    if (compiler->version)
        return ATT_OK;
    if (!compiler->path)
        return no_compiler(compiler, failure);
    char *argv[COMPILER_WORDS + 1];
    int count = push_command(argv, compiler);
    char ask[] = "--version";
    argv[count++] = ask;
    argv[count] = NULL;
    struct text output = {0};
    bool good;
    enum att_status status = child_run(compiler->path, argv, NULL, &output, &good, failure);
    if (status == ATT_OK && (!good || output.size == 0))
        status = failure_set(failure, ATT_NO_COMPILER, "the C++ compiler %s does not answer --version:\n%s",
                             compiler->path, text_string(&output));
    if (status == ATT_OK) {
        char *version = strndup(output.bytes, strcspn(output.bytes, "\n"));
        __atomic_store_n(&compiler->version, version, __ATOMIC_RELEASE); /* other threads may read it */
        if (!version)
            status = failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for the name of the C++ compiler");
    }
    text_free(&output);
    return status;
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
    print_options(text, options_link);
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

/* On failure errno has the reason. */
static bool write_file(const char *path, const struct text *text) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    bool good = transfer_write(file, text->bytes, text->size);
    int error = errno;
    if (close(file) != 0)
        return false; /* some file systems report a full disk only at this point */
    errno = error;
    return good;
}

static enum att_status read_object(const char *path, struct binary *binary, struct failure *failure) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0) {
        failure_set(failure, ATT_IO, "cannot open %s, which the compiler wrote: %s", path, strerror(errno));
        if (file >= 0)
            close(file);
        return ATT_IO;
    }
    size_t size = (size_t)status.st_size;
    char *bytes = malloc(size + 1);
    int whole = bytes ? transfer_read(file, bytes, size) : 0;
    const char *damage = whole < 0 ? strerror(errno) : !whole ? "its size changed" : object_check(bytes, size);
    close(file);
    if (!bytes)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for a binary of %zu bytes", size);
    if (damage) {
        free(bytes);
        return failure_set(failure, ATT_IO, "cannot read %s, %zu bytes that the compiler wrote: %s", path, size,
                           damage);
    }
    binary->bytes = bytes;
    binary->size = size;
    return ATT_OK;
}

static void push(char **argv, int *count, const char *const *options) {
    for (; *options; options++)
        argv[(*count)++] = (char *)(uintptr_t)*options; /* posix_spawn promises not to write them */
}

struct paths {
    char *unit, *object, *map; /* map: the option that keeps the folder out of the binary; all owned */
};

static bool make_paths(const char *folder, struct paths *paths) {
    if (asprintf(&paths->unit, "%s/unit.cc", folder) < 0)
        paths->unit = NULL;
    if (asprintf(&paths->object, "%s/unit.so", folder) < 0)
        paths->object = NULL;
    if (asprintf(&paths->map, "-fdebug-prefix-map=%s=.", folder) < 0)
        paths->map = NULL;
    return paths->unit && paths->object && paths->map;
}

static enum att_status compile(const char *folder, const struct paths *paths, const struct compiler *compiler,
                               enum att_host_mode mode, const struct compile_job *job, struct binary *binary,
                               struct failure *failure) {
    char *argv[64], output_option[] = "-o";
    bool good;
    int count = push_command(argv, compiler);
    push(argv, &count, options_always);
    push(argv, &count, options_mode[mode]);
    if (!job->arch)
        push(argv, &count, options_cpu());
    argv[count++] = paths->map;
    argv[count++] = paths->unit;
    argv[count++] = output_option;
    argv[count++] = paths->object;
    push(argv, &count, options_link);
    argv[count] = NULL;
    enum att_status status = child_run(compiler->path, argv, folder, &binary->log, &good, failure);
    if (status == ATT_OK && !good)
        status = failure_set(failure, ATT_COMPILE_FAILED, "%s does not compile with %s:\n%s", job->name, compiler->path,
                             text_string(&binary->log));
    return status == ATT_OK ? read_object(paths->object, binary, failure) : status;
}

static enum att_status compile_in(const char *folder, const struct compiler *compiler, enum att_host_mode mode,
                                  const struct compile_job *job, struct binary *binary, struct failure *failure) {
    struct paths paths;
    struct text unit = {0};
    enum att_status status;
    print_unit(&unit, mode, job);
    if (!make_paths(folder, &paths) || unit.failed)
        status = failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while compiling %s", job->name);
    else if (!write_file(paths.unit, &unit))
        status =
            failure_set(failure, ATT_IO, "cannot write %s: %s; make room there, or set TMPDIR to another directory",
                        paths.unit, strerror(errno));
    else
        status = compile(folder, &paths, compiler, mode, job, binary, failure);
    text_free(&unit);
    free(paths.unit);
    free(paths.object);
    free(paths.map);
    return status;
}

enum att_status compiler_run(const struct compiler *compiler, enum att_host_mode mode, const struct compile_job *job,
                             struct binary *binary, struct failure *failure) {
    *binary = (struct binary){.registers = -1, .spill_bytes = -1, .instructions = -1};
    if (!compiler->path)
        return no_compiler(compiler, failure);
    char *folder = scratch_open(failure);
    if (!folder)
        return failure->status;
    enum att_status status = compile_in(folder, compiler, mode, job, binary, failure);
    scratch_close(folder);
    if (status != ATT_OK)
        text_free(&binary->log);
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

/* addr2line prints "file:line" for the address and for each function that it was inlined into. Skips lines in the
   device's headers. */
int compiler_line(const struct compiler *compiler, const char *object, size_t offset) {
    char address[32], path[64], program[] = "addr2line", inlined[] = "-i", executable[] = "-e";
    snprintf(address, sizeof address, "0x%zx", offset);
    snprintf(path, sizeof path, "%s", object);
    char *argv[] = {program, inlined, executable, path, address, NULL};
    struct text text = {0};
    bool good = false;
    int line = 0;
    if (compiler->addr2line && child_run(compiler->addr2line, argv, NULL, &text, &good, NULL) == ATT_OK && good)
        for (char *rest = text.bytes, *frame; !line && (frame = strsep(&rest, "\n"));) {
            char *colon = strrchr(frame, ':');
            if (colon && !is_word(frame))
                line = atoi(colon + 1);
        }
    text_free(&text);
    return line;
}
