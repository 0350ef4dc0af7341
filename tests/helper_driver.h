/* helper_driver: functions of libcuda that attile does not call, for tests on a GPU: streams and graphs of the program's own. Needs an
   open session, which has loaded the driver. A failure ends the test. */
#ifndef HELPER_DRIVER_H
#define HELPER_DRIVER_H

#include <stdbool.h>

/* Call a function of at most three arguments; integers are given as pointers. Its CUresult. */
int driver_call(const char *symbol, void *a, void *b, void *c);

/* A stream that does not wait for the null stream, in the primary context of GPU 0, which becomes the current one. */
void *driver_stream(void);

/* `relaxed`: calls that are unsafe during a capture stay allowed. */
void driver_capture_begin(void *stream, bool relaxed);
/* The graph, ready to be launched. */
void *driver_capture_end(void *stream);
void driver_graph_launch(void *graph, void *stream);

#endif
