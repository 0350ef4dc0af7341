/* compile_log: the assembler's log for a kernel -> spills, and whether the assembler gave up asynchronous work. */
#ifndef ATTILE_COMPILE_LOG_H
#define ATTILE_COMPILE_LOG_H

#include "text.h"

/* Bytes of spill stores and loads, summed over all entries. */
int compile_log_spills(const char *log);

/* Returns true if a kernel that compiled must be refused, and adds the reason to `reason`: the compiler ignored
   setmaxnreg, serialised matrix products or put waits among them. Each slows the kernel down several times, although
   the compiler reports success. */
bool compile_log_refuses(const char *log, struct text *reason);

#endif
