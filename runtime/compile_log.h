/* compile_log: what the assembler's log says of a kernel -> spills, and whether the kernel is fit for use. */
#ifndef ATTILE_COMPILE_LOG_H
#define ATTILE_COMPILE_LOG_H

#include "text.h"

/* Bytes of spill stores and loads, summed over all entries. */
int compile_log_spills(const char *log);

/* Adds to `reason` why a kernel that compiled is refused all the same, and returns true:
   - the compiler ignored setmaxnreg, serialised matrix products or put waits among them: each costs a multiple in time,
     and success is reported all the same;
   - it spilled although it deals out the registers itself (setmaxnreg), so that a spill is no trade of the compiler's but
     a budget that did not hold. In other kernels, also of the same source, spills are reported, and measuring decides. */
bool compile_log_refuses(const char *source, const char *log, struct text *reason);

#endif
