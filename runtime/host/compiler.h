/* compiler: finds a C++ compiler, and turns kernel source into a shared object with it: device words, source, entry
   table, written as one file into a private directory and compiled by a child process, never through a shell. */
#ifndef ATTILE_HOST_COMPILER_H
#define ATTILE_HOST_COMPILER_H

#include "backend.h"

enum { COMPILER_WORDS = 8 };

struct compiler {
    char *words;                   /* owned: the text behind `command` */
    char *command[COMPILER_WORDS]; /* "g++" or what $CXX says, null-terminated */
    bool wished;                   /* $CXX says which; there is no other then */
    char *path;                    /* owned: the program found, absolute; null = there is none */
    char *addr2line;               /* owned, likewise: reads line numbers from binaries */
    char *version;                 /* owned: first line of --version; null = not asked yet */
};

/* Look for $CXX when it is set, else for c++, g++, clang++ on the PATH, on a fixed one in a set-user-ID process, which
   does not look at $CXX. Starts nothing. None found is no error. */
void compiler_find(struct compiler *compiler);
void compiler_free(struct compiler *compiler);

/* Fill in `version`, once; not to be called by two threads at once. */
enum att_status compiler_ask(struct compiler *compiler, struct failure *failure);

/* "name: value\n" lines: compiler, options, mode, and a hash of the device words. */
void compiler_describe(const struct compiler *compiler, enum att_host_mode mode, struct text *text);

/* ATT_COMPILE_FAILED carries the compiler's log; ATT_IO: another try may succeed. */
enum att_status compiler_run(const struct compiler *compiler, enum att_host_mode mode, const struct compile_job *job,
                             struct binary *binary, struct failure *failure);

/* The line in the kernel's source of a code address in a binary, by the program addr2line; 0 = not known. */
int compiler_line(const struct compiler *compiler, const char *object, size_t offset);

#endif
