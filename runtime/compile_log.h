/* compile_log: what the assembler's log says of a kernel -> spills, and whether it gave up asynchronous work. */
#ifndef ATTILE_COMPILE_LOG_H
#define ATTILE_COMPILE_LOG_H

#include "text.h"

/* Bytes of spill stores and loads, summed over all entries. */
int compile_log_spills(const char *log);

/* Adds to `reason` why a kernel that compiled is refused all the same, and returns true: the compiler ignored setmaxnreg,
   serialised matrix products or put waits among them. Each costs a multiple in time, and success is reported all the same. */
bool compile_log_refuses(const char *log, struct text *reason);

#endif
