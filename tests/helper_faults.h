/* helper_faults: runs a program under strace, lists the system calls that it makes between two marks (calls
   of getppid), and runs it again with a kill before one of them, or with one of them failing. The program
   itself is unchanged. */
#ifndef ATTILE_HELPER_FAULTS_H
#define ATTILE_HELPER_FAULTS_H

#include <stdbool.h>

enum { FAULTS_CALLS = 10000, FAULTS_WORDS = 12 };

struct fault_call {
    char name[24];
    int nth; /* count of this name in the process, from 1, as strace counts */
};
struct fault_trace {
    struct fault_call calls[FAULTS_CALLS];
    int count;
};

/* How a call may fail: "error=EIO", "retval=0". `lasting`: "" = this call only, "+" = this call and all later ones
   of its name. */
struct fault {
    const char *how, *lasting;
};
extern const struct fault fault_table[]; /* ends at a null `how` */

/* Skips the test where strace cannot inject. */
void faults_need_strace(void);

/* Runs a command (null-terminated, as for execvp) silently. Returns the status from waitpid. */
int faults_run(const char *const *command);

/* Lists the calls of a command between its marks number `from` and `end`, both counted from 1. `file` is
   for strace's use. */
void faults_record(const char *const *command, const char *file, int from, int end, struct fault_trace *trace);

/* Runs the command with one fault. `text` becomes "inject=read:error=EIO:when=3", for messages. `alone`: the
   program starts no other program, so strace may stop it at this call only, which makes it twice as fast. Returns
   the status from waitpid. */
enum { FAULTS_TEXT = 100 };
int faults_kill(const char *const *command, const struct fault_call *call, char text[FAULTS_TEXT]);
int faults_inject(const char *const *command, const struct fault_call *call, const struct fault *fault, bool alone,
                  char text[FAULTS_TEXT]);

/* True if this call can fail like this. Only transfers may misreport how much they did, and some calls never fail. */
bool faults_possible(const struct fault_call *call, const struct fault *fault);
bool faults_of_memory(const struct fault_call *call); /* mmap and the like */

#endif
