#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 1000 }; /* milliseconds */

/* Starts a process group: the terminal's Ctrl-C does not reach it, and killing it kills the compilers it started. */
static void become_worker(pid_t parent, int channel) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the parent died before prctl */
        _exit(1);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere >= 0 && nowhere != channel) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
    }
}

bool worker_start(struct worker *worker, worker_body *body, void *context, struct text *error) {
    int end[2];
    pid_t parent = getpid();
    *worker = (struct worker){.channel = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) != 0) {
        text_print(error, "cannot make a channel to a worker: %s", strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child < 0) {
        text_print(error, "cannot start a worker: %s", strerror(errno));
        close(end[0]);
        close(end[1]);
        return false;
    }
    if (child == 0) {
        close(end[0]);
        become_worker(parent, end[1]);
        body(context, end[1]);
        _exit(0);
    }
    setpgid(child, child);
    close(end[1]);
    *worker = (struct worker){child, end[0]};
    return true;
}

bool worker_send(int channel, const void *message, size_t size) {
    ssize_t sent;
    do
        sent = send(channel, message, size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size;
}

bool worker_receive(int channel, void *message, size_t size) {
    ssize_t got;
    do
        got = recv(channel, message, size, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)size;
}

void worker_stop(struct worker *worker, struct text *how) {
    int status = 0;
    if (worker->process > 0) {
        pid_t ended = waitpid(worker->process, &status, WNOHANG);
        for (int i = 0; how && ended == 0 && i < PATIENCE; i++) { /* its end of the channel closes before it exits */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            ended = waitpid(worker->process, &status, WNOHANG);
        }
        if (how && ended == worker->process && WIFSIGNALED(status))
            text_print(how, "died of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        else if (how && ended == worker->process)
            text_print(how, "ended with status %d", WEXITSTATUS(status));
        kill(-worker->process, SIGKILL);
        if (ended == 0) {
            kill(worker->process, SIGKILL);
            while (waitpid(worker->process, &status, 0) < 0 && errno == EINTR)
                ;
        }
    }
    if (worker->channel >= 0)
        close(worker->channel);
    *worker = (struct worker){.channel = -1};
}
