#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char path_default[] = "/usr/local/bin:/usr/bin:/bin";

enum { INTERRUPTS = 10000 }; /* of one wait: a timer may tick all the time, but must not hang us */

/* --- finding ------------------------------------------------------------------------------------------------------- */

static bool can_run(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* Returns `folder`/`program` if it is a program; the caller frees it. */
static char *try_folder(const char *folder, size_t size, const char *program) {
    char *full;
    if (asprintf(&full, "%.*s/%s", (int)size, folder, program) < 0)
        return NULL;
    if (can_run(full))
        return full;
    free(full);
    return NULL;
}

static const char *get_path(void) {
    const char *path = secure_getenv("PATH");
    return path ? path : path_default;
}

char *child_find(const char *program) {
    if (*program == '/')
        return can_run(program) ? strdup(program) : NULL;
    if (strchr(program, '/')) {
        char *here = getcwd(NULL, 0), *full = here ? try_folder(here, strlen(here), program) : NULL;
        free(here);
        return full;
    }
    for (const char *path = get_path(); *path;) {
        size_t size = strcspn(path, ":");
        char *full = *path == '/' ? try_folder(path, size, program) : NULL;
        if (full)
            return full;
        path += size + (path[size] == ':');
    }
    return NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------- */

enum { VARIABLES = 5 };

struct environment {
    char *variable[VARIABLES + 1]; /* "NAME=value", owned; null-terminated */
    int count;
    bool failed; /* out of memory */
};

static void set(struct environment *environment, const char *name, const char *value) {
    char **variable = &environment->variable[environment->count];
    if (!value)
        return;
    if (asprintf(variable, "%s=%s", name, value) >= 0) {
        environment->count++;
    } else {
        *variable = NULL;
        environment->failed = true;
    }
}

static struct environment make_environment(const char *folder) {
    struct environment environment = {0};
    set(&environment, "PATH", get_path());
    set(&environment, "HOME", secure_getenv("HOME"));
    set(&environment, "LD_LIBRARY_PATH", secure_getenv("LD_LIBRARY_PATH"));
    set(&environment, "LC_ALL", "C");
    set(&environment, "TMPDIR", folder);
    return environment;
}

static void free_environment(struct environment *environment) {
    for (int i = 0; i < environment->count; i++)
        free(environment->variable[i]);
}

static int start(const char *path, char *const argv[], char *const variables[], int output, pid_t *child) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    if (!(error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) &&
        !(error = posix_spawn_file_actions_adddup2(&actions, output, 1)) &&
        !(error = posix_spawn_file_actions_adddup2(&actions, output, 2)))
        error = posix_spawn(child, path, &actions, NULL, argv, variables);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Returns 0, or the errno that cut the output short. */
static int read_to_end(int file, struct text *text) {
    char bytes[4096];
    for (int interrupts = 0;;) {
        ssize_t size = read(file, bytes, sizeof bytes);
        if (size == 0)
            return text->failed ? ENOMEM : 0;
        if (size > 0)
            text_append(text, bytes, (size_t)size);
        else if (errno != EINTR || ++interrupts > INTERRUPTS)
            return errno;
    }
}

static int wait_for(pid_t child, bool *good) {
    int status = 0;
    for (int interrupts = 0; waitpid(child, &status, 0) < 0;)
        if (errno != EINTR || ++interrupts > INTERRUPTS)
            return errno;
    *good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return 0;
}

static enum att_status cannot(const char *what, const char *path, int error, struct failure *failure) {
    return failure_set(failure, error == ENOMEM ? ATT_OUT_OF_MEMORY : ATT_IO, "cannot %s %s: %s", what, path,
                       strerror(error));
}

enum att_status child_run(const char *path, char *const argv[], const char *folder, struct text *output, bool *good,
                          struct failure *failure) {
    int ends[2];
    pid_t child;
    *good = false;
    struct environment environment = make_environment(folder);
    int error = environment.failed ? ENOMEM : pipe2(ends, O_CLOEXEC) ? errno : 0;
    if (!error) {
        error = start(path, argv, environment.variable, ends[1], &child);
        close(ends[1]);
        if (error)
            close(ends[0]);
    }
    free_environment(&environment);
    if (error)
        return cannot("start", path, error, failure);
    int heard = read_to_end(ends[0], output);
    close(ends[0]); /* a child that keeps writing ends by SIGPIPE */
    error = wait_for(child, good);
    if (heard)
        return cannot("read what was written by", path, heard, failure);
    return error ? cannot("wait for", path, error, failure) : ATT_OK;
}
