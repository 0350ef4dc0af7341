/* Where the cache directory is, when it is refused, and what still works without one, or with a full or read-only
   one. */
#include "fixture_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

TestSuite(cache_dir, .init = setup, .fini = teardown, .timeout = 120);

Test(cache_dir, finds_its_directory) {
    char base[200], attile[220], xdg[220], home[220], missing[220], file[220];
    snprintf(base, sizeof base, "%s", directory);
    snprintf(attile, sizeof attile, "%s/own/cache", base);
    snprintf(xdg, sizeof xdg, "%s/xdg", base);
    snprintf(home, sizeof home, "%s/home", base);
    snprintf(missing, sizeof missing, "%s/missing", base);
    snprintf(file, sizeof file, "%s/file", base);
    cr_assert_eq(mkdir(home, 0700), 0);
    cr_assert_eq(close(open(file, O_CREAT | O_WRONLY, 0600)), 0);
    const struct {
        const char *attile, *xdg, *home;
        const char *base, *below; /* expected directory; null = memory only */
        const char *message;
    } cases[] = {
        {attile, xdg, home, attile, "", NULL},
        {NULL, xdg, home, xdg, "/attile", NULL},
        {"", xdg, home, xdg, "/attile", NULL},
        {NULL, NULL, home, home, "/.cache/attile", NULL},
        {NULL, "", home, home, "/.cache/attile", NULL},
        {NULL, "relative", home, home, "/.cache/attile", NULL},
        {"relative", xdg, home, NULL, "", "ATTILE_CACHE_DIR is not an absolute path"},
        {NULL, NULL, NULL, NULL, "", "none of ATTILE_CACHE_DIR, XDG_CACHE_HOME and HOME"},
        {NULL, NULL, "relative", NULL, "", "none of ATTILE_CACHE_DIR, XDG_CACHE_HOME and HOME"},
        {NULL, NULL, missing, NULL, "", "No such file or directory"},
        {NULL, NULL, file, NULL, "", "Not a directory"},
        {file, xdg, home, NULL, "", "Not a directory"},
        {"/dev/null/cache", NULL, NULL, NULL, "", "Not a directory"},
        {"/tmp", xdg, home, NULL, "", "others may write to it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const names[] = {"ATTILE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
        const char *const values[] = {cases[i].attile, cases[i].xdg, cases[i].home};
        for (int j = 0; j < 3; j++)
            cr_assert_eq(values[j] ? setenv(names[j], values[j], 1) : unsetenv(names[j]), 0);
        text_free(&messages.text);
        messages.count = 0;
        struct cache *cache = open_at(NULL, 0);
        char expected[300];
        snprintf(expected, sizeof expected, "%s%s", cases[i].base ? cases[i].base : "", cases[i].below);
        cr_expect_str_eq(cache_dir(cache) ? cache_dir(cache) : "", expected, "case %zu", i);
        cr_expect_eq(get(cache, 1) == SAMPLE_FAILED, 0);
        cr_expect_neq(get(cache, 1), SAMPLE_WRONG);
        cr_expect_eq(messages.count, cases[i].message ? 1 : 0, "case %zu: %s", i, text_string(&messages.text));
        if (cases[i].message)
            cr_expect(logged(cases[i].message), "case %zu: %s", i, text_string(&messages.text));
        cache_close(cache);
    }
    cr_expect_neq(access(missing, F_OK), 0, "a missing HOME was made");
}

Test(cache_dir, can_be_switched_off) {
    struct cache_options options = {.dir = directory, .disabled = 1, .log = sample_log, .log_context = &messages};
    struct cache *cache = cache_open(&options);
    cr_assert(cache);
    cr_expect_null(cache_dir(cache));
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 0);
    cr_expect_eq(scratch_count(directory, ""), 0);
    cache_close(cache);
}

Test(cache_dir, refuses_directories_that_others_can_write) {
    static const char *const parts[] = {"", "entries"};
    for (int i = 0; i < 2; i++) {
        teardown(), setup();
        cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
        cr_assert_eq(chmod(scratch_path(directory, parts[i], ""), 0770), 0);
        cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT, "%s was trusted", parts[i]);
        cr_expect(logged("others may write to it"), "%s", text_string(&messages.text));
        if (geteuid() != 0)
            continue;
        teardown(), setup();
        cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
        cr_assert_eq(chown(scratch_path(directory, parts[i], ""), NOBODY, NOBODY), 0);
        cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT, "%s of another user was trusted", parts[i]);
        cr_expect(logged("it belongs to another user"), "%s", text_string(&messages.text));
    }
}

Test(cache_dir, a_linked_part_is_refused_and_a_linked_directory_is_not) {
    char real[300], link[300];
    snprintf(real, sizeof real, "%s/real", directory);
    snprintf(link, sizeof link, "%s/link", directory);
    cr_assert_eq(symlink("real", link), 0);
    cr_assert_eq(get_at(real, 1), SAMPLE_BUILT);
    cr_expect_eq(get_at(link, 1), SAMPLE_HIT, "people link their cache to another disk");
    cr_assert_eq(rename(scratch_path(real, "entries", ""), scratch_path(real, "moved", "")), 0);
    cr_assert_eq(symlink("moved", scratch_path(directory, "real", "entries")), 0);
    cr_expect_eq(get_at(real, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 1);
}

Test(cache_dir, a_read_only_directory_is_memory_only_with_one_warning) {
    cr_assert(become_nobody());
    cr_assert_eq(chmod(directory, 0500), 0);
    struct cache *cache = open_at(directory, 0);
    cr_expect_null(cache_dir(cache));
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 1, "%s", text_string(&messages.text));
    cache_close(cache);
    cr_assert_eq(chmod(directory, 0700), 0);
    become_self();
}

Test(cache_dir, a_read_only_cache_still_hits) {
    static const char *const parts[] = {"", "entries", "temporary", "locks", "quarantine"};
    cr_assert(become_nobody());
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_assert_eq(get_at(directory, 2), SAMPLE_BUILT);
    cr_assert_eq(scratch_damage(directory, 2), 0);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(chmod(scratch_path(directory, parts[i], ""), 0500), 0);
    struct cache *cache = open_at(directory, 0);
    cr_expect_eq(get(cache, 1), SAMPLE_HIT);
    for (int round = 0; round < 3; round++) {
        cr_expect_eq(get(cache, 2), SAMPLE_BUILT, "damaged, and cannot be moved");
        cr_expect_eq(get(cache, 3), SAMPLE_BUILT, "cannot be kept");
    }
    cr_expect_eq(messages.count, 2, "one about moving and one about writing: %s", text_string(&messages.text));
    cache_close(cache);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(chmod(scratch_path(directory, parts[i], ""), 0700), 0);
    become_self();
}

Test(cache_dir, roots_cache_serves_other_users) {
    if (geteuid() != 0)
        cr_skip("only root can make a cache of root's");
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(chmod(scratch_path(directory, "entries", ""), 0755), 0);
    cr_assert_eq(chmod(entry_path(1), 0644), 0);
    cr_assert_eq(seteuid(NOBODY), 0);
    cr_expect_eq(get_at(directory, 1), SAMPLE_HIT);
    cr_expect_eq(get_at(directory, 2), SAMPLE_BUILT);
    become_self();
}

Test(cache_dir, a_full_disk_costs_compiles_and_heals) {
    if (geteuid() != 0 || mount("tmpfs", directory, "tmpfs", 0, "size=64k,mode=700") != 0)
        cr_skip("a small tmpfs cannot be mounted here");
    struct cache *cache = open_at(directory, 0);
    for (int number = 0; number < 40; number++)
        cr_expect_eq(get(cache, number), SAMPLE_BUILT, "%d", number);
    cr_expect_eq(messages.count, 1, "%s", text_string(&messages.text));
    cr_expect(logged("No space left on device"), "%s", text_string(&messages.text));
    int kept = scratch_count(directory, "entries");
    cr_expect(kept > 5 && kept < 40, "%d", kept);
    cr_expect_eq(scratch_count(directory, "temporary"), 0, "what could not be written was left behind");
    for (int number = 0; number < 40; number++)
        cr_expect_neq(get(cache, number), SAMPLE_WRONG, "%d", number);
    uint64_t removed;
    struct failure failure = {0};
    cr_expect_eq(cache_trim(cache, 0, 1, 0, &removed, &failure), ATT_OK);
    cr_expect_eq(get(cache, 39), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 39), SAMPLE_HIT, "not healed though there is room again");
    cache_close(cache);
    cr_expect_eq(umount(directory), 0);
}

/* A write that stops half-way: the kernel accepts part of it, then refuses. */
Test(cache_dir, a_file_size_limit_leaves_nothing_half_written) {
    struct cache *cache = open_at(directory, 0);
    struct rlimit before, small;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = SIZE / 2;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum sample_result limited = get(cache, 1);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    cr_expect_eq(limited, SAMPLE_BUILT);
    cr_expect_eq(scratch_count(directory, "entries"), 0);
    cr_expect_eq(scratch_count(directory, "temporary"), 0);
    cr_expect(logged("cannot write") && logged("File too large"), "%s", text_string(&messages.text));
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 1), SAMPLE_HIT);
    cache_close(cache);
}

static int run_probe(const char *program) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        execl(program, program, directory, "0", "7", (char *)NULL);
        _exit(100);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Root runs a copy of the probe that is set-user-ID nobody, in a directory of nobody that a plain process of
   nobody can use. */
Test(cache_dir, a_set_user_id_process_keeps_nothing_on_disk) {
    struct statvfs volume;
    if (geteuid() != 0 || statvfs(directory, &volume) != 0 || (volume.f_flag & ST_NOSUID) ||
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
        cr_skip("set-user-ID programs cannot be made here");
#if defined(__SANITIZE_ADDRESS__)
    cr_skip("the leak check cannot work in a set-user-ID process");
#endif
    char copy[300], command[700];
    snprintf(copy, sizeof copy, "%s.probe", directory);
    snprintf(command, sizeof command, "cp '%s/tests/cache_probe' '%s'", BUILD_DIR, copy);
    cr_assert_eq(system(command), 0);
    cr_assert(chown(copy, NOBODY, NOBODY) == 0 && chmod(copy, 04755) == 0);
    cr_assert_eq(chown(directory, NOBODY, NOBODY), 0);
    cr_expect_eq(run_probe(copy), SAMPLE_BUILT);
    cr_expect_eq(scratch_count(directory, ""), 0, "something was written");
    cr_assert_eq(seteuid(NOBODY), 0);
    struct cache *cache = open_at(directory, 0);
    struct sample_build sample = {.number = 7, .size = PROBE_SIZE};
    cr_expect_eq(sample_get(cache, &sample), SAMPLE_BUILT);
    cr_expect_eq(sample_get(cache, &sample), SAMPLE_HIT, "nobody could have used it");
    cache_close(cache);
    become_self();
    cr_expect_eq(run_probe(copy), SAMPLE_BUILT, "something was read");
    unlink(copy);
}
