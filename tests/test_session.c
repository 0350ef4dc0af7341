#include "helper_cache.h"
#include "session.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* A refused allocation is an answer here, not a reason for the address sanitizer to stop. */
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

static att_session *open_host(void) {
    const struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    return session;
}

Test(session, opens_closes_and_describes_itself) {
    att_session *session = open_host();
    struct att_session_info info = {.size = sizeof info};
    cr_assert_eq(att_session_describe(session, &info), ATT_OK);
    cr_expect_eq(info.device, ATT_DEVICE_HOST);
    cr_expect_str_eq(info.arch, "host");
    cr_expect(info.device_name && *info.device_name);
    cr_expect(info.compiler && *info.compiler);
    cr_expect_null(info.cache_dir, "memory only was asked for");
    cr_expect_str_eq(att_message(session), "", "nothing has failed");
    att_close(session);
    att_close(NULL);
}

Test(session, statuses_have_names) {
    for (int status = 0; status < ATT_STATUS_COUNT; status++)
        cr_expect(*att_status_name((enum att_status)status) &&
                      strcmp(att_status_name((enum att_status)status), "unknown status"),
                  "status %d", status);
    cr_expect_str_eq(att_status_name((enum att_status)ATT_STATUS_COUNT), "unknown status");
    cr_expect_str_eq(att_status_name((enum att_status) - 1), "unknown status");
    cr_expect_str_eq(att_version(), "0.1.0");
}

/* docs/errors.md has a section for every status, named like the enumerator. */
Test(session, every_status_is_documented) {
    static const char *const names[ATT_STATUS_COUNT] = {
        "ATT_OK",          "ATT_INVALID_ARGUMENT", "ATT_INVALID_TEXT", "ATT_UNSUPPORTED",   "ATT_NO_DEVICE",
        "ATT_NO_COMPILER", "ATT_COMPILE_FAILED",   "ATT_NOT_PREPARED", "ATT_LAUNCH_FAILED", "ATT_OUT_OF_MEMORY",
        "ATT_IO",          "ATT_FORKED",           "ATT_INTERNAL"};
    FILE *file = fopen(SOURCE_DIR "/docs/errors.md", "rb");
    cr_assert_not_null(file);
    static char text[1 << 16];
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (int i = 0; i < ATT_STATUS_COUNT; i++) {
        char heading[64];
        snprintf(heading, sizeof heading, "\n## %s\n", names[i]);
        cr_expect(strstr(text, heading), "docs/errors.md has no section %s", names[i]);
    }
}

Test(session, bad_options_leave_a_message_and_a_session_to_close) {
    static const struct att_bundle old_bundle = {ATT_BUNDLE_FORMAT + 7, 0, NULL, NULL};
    static const struct att_bundle *const bundles[] = {&old_bundle, NULL};
    enum { SIZE = sizeof(struct att_options) };
    const struct {
        struct att_options options;
        enum att_status status;
        const char *words;
    } cases[] = {
        {{.device = ATT_DEVICE_HOST}, ATT_INVALID_ARGUMENT, "options.size is 0"},
        {{.size = SIZE, .device = (enum att_device)7}, ATT_INVALID_ARGUMENT, "options.device is 7"},
        {{.size = SIZE, .device = ATT_DEVICE_HOST, .host_mode = (enum att_host_mode)9},
         ATT_INVALID_ARGUMENT,
         "options.host_mode is 9"},
        {{.size = SIZE, .device = ATT_DEVICE_HOST, .bundles = bundles},
         ATT_INVALID_ARGUMENT,
         "bundles[0]: format is 9"},
        {{.size = SIZE, .device = ATT_DEVICE_CUDA, .ordinal = 10000}, ATT_NO_DEVICE, ""},
        {{.size = SIZE, .device = ATT_DEVICE_CUDA, .ordinal = -1}, ATT_NO_DEVICE, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        att_session *session;
        att_kernel *kernel;
        size_t needed;
        cr_expect_eq(att_open(&cases[i].options, &session), cases[i].status, "case %zu: %s", i, att_message(session));
        cr_assert_not_null(session);
        cr_expect(strstr(att_message(session), cases[i].words), "case %zu: %s", i, att_message(session));
        cr_expect_neq(*att_message(session), '\0');
        cr_expect_eq(att_find(session, "family=softmax", NULL, &kernel), ATT_INVALID_ARGUMENT);
        cr_expect(strstr(att_message(session), "att_open failed"), "%s", att_message(session));
        cr_expect_eq(att_explain(session, "family=softmax", NULL, NULL, 0, &needed), ATT_INVALID_ARGUMENT);
        att_close(session);
    }
}

Test(session, structs_without_their_size_are_refused_everywhere) {
    att_session *session = open_host();
    struct att_session_info info = {0};
    struct att_kernel_info kernel_info = {0};
    struct att_counters counters = {0};
    struct att_args args = {.family = ATT_SOFTMAX};
    att_kernel *kernel;
    size_t size;
    cr_assert_eq(att_find(session, "family=softmax", NULL, &kernel), ATT_OK, "%s", att_message(session));
#define REFUSED(call, words)                                                                                           \
    cr_expect_eq(call, ATT_INVALID_ARGUMENT);                                                                          \
    cr_expect(strstr(att_message(session), words), "%s", att_message(session))
    REFUSED(att_session_describe(session, &info), "info.size is 0, expected sizeof(struct att_session_info)");
    REFUSED(att_kernel_describe(kernel, &kernel_info), "info.size is 0, expected sizeof(struct att_kernel_info)");
    REFUSED(att_counters_read(session, &counters, 1), "counters.size is 0");
    REFUSED(att_launch(kernel, &args, NULL), "args.size is 0");
    REFUSED(att_workspace_size(kernel, &args, &size), "args.size is 0");
    att_close(session);
}

Test(session, null_arguments_are_refused_everywhere) {
    att_session *session = open_host();
    struct att_session_info info = {.size = sizeof info};
    struct att_counters counters = {.size = sizeof counters};
    att_kernel *kernel;
    void *memory;
    size_t size;
    cr_expect_eq(att_open(NULL, NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_find(NULL, "family=softmax", NULL, &kernel), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_find(session, NULL, NULL, &kernel), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "problem is null"));
    cr_expect_eq(att_find(session, "family=softmax", NULL, NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_prepare(NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_launch(NULL, NULL, NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_workspace_size(NULL, NULL, &size), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_kernel_describe(NULL, NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_explain(NULL, "", NULL, NULL, 0, &size), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_explain(session, "family=softmax", NULL, NULL, 10, &size), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_alloc(NULL, 1, &memory), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_alloc(session, 1, NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_copy_in(session, NULL, "x", 1), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_copy_out(session, NULL, session, 1), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_session_describe(NULL, &info), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_session_describe(session, NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_counters_read(session, NULL, 0), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_counters_read(NULL, &counters, 0), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_synchronize(NULL), ATT_INVALID_ARGUMENT);
    cr_expect_str_eq(att_message(NULL), "");
    cr_expect_str_eq(att_kernel_name(NULL), "");
    cr_expect_str_eq(att_kernel_source(NULL), "");
    att_close(session);
}

Test(session, memory_keeps_what_is_copied) {
    att_session *session = open_host();
    char in[100], out[100] = "";
    void *memory, *nothing;
    memset(in, 'x', sizeof in);
    cr_assert_eq(att_alloc(session, sizeof in, &memory), ATT_OK);
    cr_expect_eq((uintptr_t)memory % 256, 0);
    cr_expect_eq(att_copy_in(session, memory, in, sizeof in), ATT_OK);
    cr_expect_eq(att_copy_out(session, out, memory, sizeof out), ATT_OK);
    cr_expect_arr_eq(in, out, sizeof in);
    cr_expect_eq(att_copy_in(session, NULL, NULL, 0), ATT_OK, "nothing to copy");
    cr_expect_eq(att_alloc(session, 0, &nothing), ATT_OK);
    cr_expect_eq(att_free(session, nothing), ATT_OK);
    cr_expect_eq(att_free(session, memory), ATT_OK);
    cr_expect_eq(att_free(session, NULL), ATT_OK);
    cr_expect_eq(att_alloc(session, (size_t)1 << 62, &memory), ATT_OUT_OF_MEMORY);
    cr_expect_neq(*att_message(session), '\0');
    cr_expect_eq(att_synchronize(session), ATT_OK);
    att_close(session);
}

static void *fail_differently(void *session) {
    att_kernel *kernel;
    cr_expect_str_eq(att_message(session), "", "another thread's failure is not this one's");
    att_find(session, "family=nonsense", NULL, &kernel);
    cr_expect(strstr(att_message(session), "nonsense"), "%s", att_message(session));
    return NULL;
}

Test(session, messages_belong_to_the_thread_that_failed) {
    att_session *session = open_host();
    att_kernel *kernel;
    pthread_t thread;
    att_find(session, "famili=softmax", NULL, &kernel);
    const char *mine = att_message(session);
    cr_assert(strstr(mine, "famili"), "%s", mine);
    cr_assert_eq(pthread_create(&thread, NULL, fail_differently, session), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(att_message(session), mine, "still valid, still there");
    cr_expect(strstr(mine, "famili"));
    att_close(session);
}

Test(session, a_forked_child_is_told_so_and_may_close) {
    att_session *session = open_host();
    att_kernel *kernel;
    cr_assert_eq(att_find(session, "family=softmax", NULL, &kernel), ATT_OK, "%s", att_message(session));
    pid_t child = fork();
    if (child == 0) {
        att_kernel *other;
        struct att_args args = {0};
        int good = att_find(session, "family=softmax", NULL, &other) == ATT_FORKED &&
                   att_launch(kernel, &args, NULL) == ATT_FORKED && att_prepare(kernel) == ATT_FORKED &&
                   strstr(att_message(session), "forked") && att_synchronize(session) == ATT_FORKED;
        att_close(session);
        _exit(good ? 0 : 1);
    }
    int result;
    cr_assert_eq(waitpid(child, &result, 0), child);
    cr_expect(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    cr_expect_eq(att_prepare(kernel), ATT_OK, "the parent goes on");
    att_close(session);
}

static enum att_status touch_synchronize(struct backend *backend, struct failure *failure) {
    (void)backend, (void)failure;
    _exit(2);
}
static void touch_unload(struct backend *backend, struct module *module) {
    (void)backend, (void)module;
    _exit(3);
}
static void touch_close(struct backend *backend) {
    (void)backend;
    _exit(4);
}

/* The device and all locks belong to the parent: a thread that the child lacks may hold them. */
Test(session, a_forked_childs_close_touches_nothing_of_the_parents) {
    att_session *session = open_host();
    att_kernel *kernel;
    cr_assert_eq(att_find(session, "family=softmax", NULL, &kernel), ATT_OK, "%s", att_message(session));
    pthread_mutex_lock(&session->lock);
    pid_t child = fork();
    if (child == 0) {
        struct backend_type touchy = backend_host;
        touchy.synchronize = touch_synchronize;
        touchy.unload = touch_unload;
        touchy.close = touch_close;
        session->type = &touchy;
        alarm(20);
        att_close(session);
        _exit(session->open && session->kernels == kernel ? 0 : 1);
    }
    pthread_mutex_unlock(&session->lock);
    int result;
    cr_assert_eq(waitpid(child, &result, 0), child);
    cr_expect(WIFEXITED(result), "the child died");
    cr_expect_eq(WEXITSTATUS(result), 0, "1 = freed, 2 to 4 = the device was touched: %d", WEXITSTATUS(result));
    att_close(session);
}

/* --- set-user-ID --------------------------------------------------------------------------------------------------- */

enum { NOBODY = 65534 };

static void write_script(const char *folder, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "#!/bin/sh\necho > %s/intruder\nexit 1\n", folder);
    fclose(file);
    cr_assert_eq(chmod(path, 0755), 0);
}

/* Returns the exit status of the probe in this environment; -1 = it died. */
static int run_probe(const char *program, char *const environment[]) {
    pid_t child = fork();
    if (child == 0) {
        char *const argv[] = {(char *)(uintptr_t)program, NULL};
        execve(program, argv, environment);
        _exit(100);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Root runs a copy of the probe that is set-user-ID nobody. Everything that the environment names is misleading, as the
   plain probe shows. */
Test(session, a_set_user_id_process_reads_no_environment, .timeout = 120) {
    const char *folder = scratch_make();
    struct statvfs volume;
    cr_assert_not_null(folder);
    if (geteuid() != 0 || statvfs(folder, &volume) != 0 || (volume.f_flag & ST_NOSUID) ||
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0) {
        scratch_remove(folder);
        cr_skip("set-user-ID programs cannot be made here");
    }
#if defined(__SANITIZE_ADDRESS__)
    scratch_remove(folder);
    cr_skip("the leak check cannot work in a set-user-ID process");
#endif
    static const char *const programs[] = {"c++", "g++", "clang++", "as", "ld", "cc1plus"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        write_script(folder, programs[i]);
    char copy[300], command[700], intruder[300], names[8][400];
    snprintf(copy, sizeof copy, "%s/probe", folder);
    snprintf(intruder, sizeof intruder, "%s/intruder", folder);
    snprintf(command, sizeof command,
             "cp '%s/tests/session_probe' '%s' && mkdir '%s/lib64' && cp '%s/runtime/libattile.so' "
             "'%s/lib64/libnvrtc.so.13'",
             BUILD_DIR, copy, folder, BUILD_DIR, folder);
    cr_assert_eq(system(command), 0);
    cr_assert(chown(folder, NOBODY, NOBODY) == 0 && chmod(folder, 0755) == 0);
    cr_assert(chown(copy, NOBODY, NOBODY) == 0 && chmod(copy, 04755) == 0);

    static const char *const variables[] = {"CXX=%s/c++",
                                            "PATH=%s",
                                            "COMPILER_PATH=%s",
                                            "TMPDIR=%s/missing",
                                            "ATTILE_TUNED=%s/missing",
                                            "ATTILE_NVRTC=%s/missing",
                                            "CUDA_HOME=%s",
                                            "CUDA_PATH=%s"};
    char *wrong[9] = {0}, *homes[3] = {0};
    for (int i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], variables[i], folder);
        wrong[i] = names[i];
    }
    homes[0] = names[6], homes[1] = names[7];
    char *none[] = {NULL};
    char plain[300];
    snprintf(plain, sizeof plain, "%s/tests/session_probe", BUILD_DIR);
    int right = run_probe(plain, none);
    cr_assert_eq(right & ~4, 0, "NVRTC may be missing, nothing else");
    cr_expect_eq(run_probe(plain, wrong) & 1, 1, "the variables are read when nothing is against it");
    unlink(intruder);
    cr_expect_eq(run_probe(copy, wrong), right);
    cr_expect_eq(run_probe(copy, homes), right);
    cr_expect_neq(access(intruder, F_OK), 0, "a program of the caller's was started");
    scratch_remove(folder);
}

struct log_count {
    int lines;
};

static void count_log(void *context, enum att_log_level level, const char *message) {
    struct log_count *count = context;
    cr_expect(level <= ATT_LOG_DEBUG && message && *message);
    count->lines++;
}

Test(session, silent_but_for_the_callback) {
    struct log_count count = {0};
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .log = count_log, .log_context = &count};
    att_session *session;
    att_kernel *kernel;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_find(session, "family=softmax", NULL, &kernel), ATT_OK, "%s", att_message(session));
    cr_expect_geq(count.lines, 1, "compiling is worth a line");
    att_close(session);
}
