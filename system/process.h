/* process: has this process forked since? Asked at every launch, so it is no system call. */
#ifndef ATTILE_PROCESS_H
#define ATTILE_PROCESS_H

/* A number that differs between a process and the children it forks, from the first call on. Children made behind the
   back of the C library (a bare clone) keep their parent's. */
unsigned process_number(void);

#endif
