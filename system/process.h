/* process: tells whether this process has forked since. Every launch asks, so it makes no system call. */
#ifndef ATTILE_PROCESS_H
#define ATTILE_PROCESS_H

/* Returns a number that differs between a process and the children it forks, from the first call on. Children made
   without the C library's knowledge (a bare clone) keep their parent's number. */
unsigned process_number(void);

#endif
