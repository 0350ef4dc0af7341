/* attile doctor: what this machine has, by which rule it was found, and what to do about missing parts. */
#include "backend.h"
#include "cache.h"
#include "cli.h"
#include "cuda_api.h"
#include "nvrtc.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum verdict { FINE, MISSING, TROUBLE };

struct report {
    struct cli *cli;
    struct json json;
    int troubles;
};

static void tell(struct report *report, const char *name, enum verdict verdict, const char *found, const char *advice) {
    static const char *const words[] = {"ok", "missing", "trouble"};
    static const char *const colors[] = {"\033[32m", "\033[33m", "\033[31m"};
    struct text *out = &report->cli->out;
    report->troubles += verdict == TROUBLE;
    if (report->cli->json) {
        json_open_object(&report->json, name);
        json_put_string(&report->json, "state", words[verdict]);
        json_put_string(&report->json, "found", found);
        json_put_string(&report->json, "advice", verdict == FINE ? NULL : advice);
        json_end(&report->json);
        return;
    }
    bool color = report->cli->color_out;
    text_print(out, "%-13s %s%-8s%s ", name, color ? colors[verdict] : "", words[verdict], color ? "\033[0m" : "");
    for (const char *at = found; *at; at++) /* continuation lines stay in their column */
        text_print(out, *at == '\n' && at[1] ? "\n%*s" : "%.*s", *at == '\n' ? 23 : 1, *at == '\n' ? "" : at);
    text_print(out, "\n");
    if (verdict != FINE && advice)
        text_print(out, "%23s%s\n", "", advice);
}

/* --- devices and compilers ---------------------------------------------------------------------------------------- */

static bool tell_driver(struct report *report) {
    struct cuda_api api = {0};
    struct failure failure = {0};
    struct text found = {0};
    bool there = cuda_api_open(&api, &failure) == ATT_OK;
    int version = 0;
    if (there && api.driver_version(&version) == CUDA_OK)
        text_print(&found, "CUDA driver for CUDA %d.%d", version / 1000, version % 1000 / 10);
    tell(report, "driver", there ? FINE : MISSING, there ? text_string(&found) : text_string(&failure.text), NULL);
    text_free(&found);
    failure_clear(&failure);
    return there;
}

static bool tell_device(struct report *report, const struct backend_type *type, const char *name, const char *advice) {
    struct backend_options options = {0};
    struct backend *backend = NULL;
    struct failure failure = {0};
    struct text found = {0};
    bool there = type->open(&options, &backend, &failure) == ATT_OK;
    if (there) {
        struct backend_info info = {0};
        type->describe(backend, &info);
        text_print(&found, "%s, %s", info.device_name, info.arch);
        if (info.multiprocessors > 0)
            text_print(&found, ", %d %s", info.multiprocessors, type == &backend_host ? "threads" : "multiprocessors");
    }
    tell(report, name, there ? FINE : MISSING, there ? text_string(&found) : text_string(&failure.text), advice);
    type->close(backend);
    text_free(&found);
    failure_clear(&failure);
    return there;
}

static bool tell_nvrtc(struct report *report) {
    struct nvrtc *nvrtc = NULL;
    struct failure failure = {0};
    struct text found = {0};
    bool there = nvrtc_open(&nvrtc, &failure) == ATT_OK;
    if (there) {
        struct nvrtc_info info = {0};
        nvrtc_describe(nvrtc, &info);
        text_print(&found, "%s, found by %s\n%s\nbuiltins: %s", info.title, info.rule, info.path,
                   info.builtins ? info.builtins : "left to the system's search");
    }
    tell(report, "nvrtc", there ? FINE : MISSING, there ? text_string(&found) : text_string(&failure.text), NULL);
    nvrtc_close(nvrtc);
    text_free(&found);
    failure_clear(&failure);
    return there;
}

static bool tell_host_compiler(struct report *report) {
    struct backend_options options = {0};
    struct backend *backend = NULL;
    struct failure failure = {0};
    struct text identity = {0};
    bool there = backend_host.open(&options, &backend, &failure) == ATT_OK &&
                 backend_host.identity(backend, NULL, &identity, &failure) == ATT_OK;
    struct backend_info info = {.compiler = ""};
    if (there)
        backend_host.describe(backend, &info);
    tell(report, "c++ compiler", there ? FINE : MISSING, there ? info.compiler : text_string(&failure.text), NULL);
    backend_host.close(backend);
    text_free(&identity);
    failure_clear(&failure);
    return there;
}

/* --- the cache ---------------------------------------------------------------------------------------------------- */

static const char *file_system(const char *path) {
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{0xEF53, "ext"},         {0x58465342, "xfs"}, {0x9123683E, "btrfs"}, {0x01021994, "tmpfs"},
                 {0x794C7630, "overlay"}, {0x6969, "nfs"},     {0x65735546, "fuse"},  {0x2FC12FC1, "zfs"}};
    struct statfs info;
    if (statfs(path, &info) != 0)
        return "unknown file system";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((unsigned long)info.f_type == known[i].magic)
            return known[i].name;
    return "other file system";
}

static bool flock_works(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool works = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return works;
}

static void collect(void *context, enum att_log_level level, const char *message) {
    (void)level;
    struct text *text = context;
    text_print(text, "%s%s", text->size ? "\n" : "", message);
}

static void tell_cache(struct report *report) {
    struct text found = {0}, warning = {0};
    struct cache *cache = cache_open(&(struct cache_options){.log = collect, .log_context = &warning});
    const char *folder = cache ? cache_dir(cache) : NULL;
    struct stat info;
    struct statvfs space;
    bool usable = folder && stat(folder, &info) == 0 && statvfs(folder, &space) == 0;
    bool locks = usable && flock_works(folder);
    if (usable) {
        struct cache_stat content = {0};
        struct failure failure = {0};
        text_print(&found, "%s\nowner %u, mode %04o, %s, ", folder, (unsigned)info.st_uid,
                   (unsigned)info.st_mode & 07777, file_system(folder));
        print_bytes(&found, (double)space.f_bavail * (double)space.f_frsize);
        text_print(&found, " free, flock %s", locks ? "works" : "does not work");
        if (cache_stat(cache, &content, &failure) == ATT_OK)
            text_print(&found, "\n%" PRIu64 " kernels, %" PRIu64 " in quarantine, %" PRIu64 " bytes of %" PRIu64,
                       content.entries, content.quarantined, content.bytes, content.limit);
        failure_clear(&failure);
    } else {
        text_print(&found, "kernels are kept in memory only%s%s", warning.size ? ": " : "", text_string(&warning));
    }
    tell(report, "cache", usable && locks ? FINE : TROUBLE, text_string(&found),
         usable ? "without locks two processes may compile the same kernel; results are the same"
                : "set ATTILE_CACHE_DIR to a folder of yours that can be written");
    cache_close(cache);
    text_free(&found);
    text_free(&warning);
}

enum exit_code verb_doctor(struct cli *cli) {
    struct report report = {.cli = cli};
    if (cli->json)
        cli_json_open(cli, &report.json);
    tell(&report, "attile", FINE, att_version(), NULL);
    bool gpu = tell_driver(&report) &&
               tell_device(&report, &backend_cuda, "gpu", "see nvidia-smi; inside a container, pass the GPU through");
    bool nvrtc = tell_nvrtc(&report);
    bool host = tell_device(&report, &backend_host, "host device", NULL);
    bool compiler = tell_host_compiler(&report);
    tell_cache(&report);
    if (cli->json)
        json_close(&report.json);
    if (!(gpu && nvrtc) && !(host && compiler))
        return cli_error(cli, CLI_TOOLCHAIN, "no device can run kernels: neither a GPU with NVRTC nor a C++ compiler");
    if (!nvrtc)
        return cli_error(cli, CLI_TOOLCHAIN, "NVRTC is missing: no kernel can be compiled for a GPU");
    if (!compiler)
        return cli_error(cli, CLI_TOOLCHAIN, "a C++ compiler is missing: no kernel can run on this CPU");
    return report.troubles ? CLI_IO : CLI_OK;
}
