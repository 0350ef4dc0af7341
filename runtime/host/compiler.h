/* compiler: finds a C++ compiler and compiles kernel source into a shared object. The file it compiles consists of the
   device header, the source and the entry table, and is in a private folder. The compiler runs as a child process,
   never through a shell. */
#ifndef ATTILE_HOST_COMPILER_H
#define ATTILE_HOST_COMPILER_H

#include "backend.h"

enum { COMPILER_WORDS = 8 };

struct compiler {
    char *words;                   /* owned: the text that `command` points into */
    char *command[COMPILER_WORDS]; /* "g++" or what $CXX says, null-terminated */
    bool wished;                   /* $CXX names it, so no other is tried */
    char *path;                    /* owned: the program found, absolute; null = there is none */
    char *addr2line;               /* owned, absolute; reads line numbers from binaries; null = there is none */
    char *version;                 /* owned: first line of --version; null = not asked yet */
};

/* Looks for $CXX if it is set, otherwise for c++, g++, clang++ on the PATH. A set-user-ID process ignores $CXX and uses
   a fixed PATH. Starts no process. It is not an error to find none. */
void compiler_find(struct compiler *compiler);
void compiler_free(struct compiler *compiler);

/* Fills in `version`, once. Two threads must not call it at the same time. */
enum att_status compiler_ask(struct compiler *compiler, struct failure *failure);

/* Writes "name: value\n" lines: compiler, options, mode, and a hash of the device header. */
void compiler_describe(const struct compiler *compiler, enum att_host_mode mode, struct text *text);

/* ATT_COMPILE_FAILED: the message has the compiler's log. ATT_IO: another try may succeed. */
enum att_status compiler_run(const struct compiler *compiler, enum att_host_mode mode, const struct compile_job *job,
                             struct binary *binary, struct failure *failure);

/* Returns the line in the kernel's source for a code address in a binary, from addr2line; 0 = unknown. */
int compiler_line(const struct compiler *compiler, const char *object, size_t offset);

#endif
