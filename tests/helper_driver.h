/* helper_driver: libcuda functions that attile does not call, for tests on a GPU: a program's own streams and graphs.
   Needs an open session, which has loaded the driver. A failure ends the test. */
#ifndef HELPER_DRIVER_H
#define HELPER_DRIVER_H

#include <stdbool.h>

/* Calls a function of at most three arguments, with integers passed as pointers. Returns its CUresult. */
int driver_call(const char *symbol, void *a, void *b, void *c);

/* Creates a stream that does not wait for the null stream, in the primary context of GPU 0, and makes
   that context current. */
void *driver_stream(void);

/* `relaxed`: allows calls that are unsafe during a capture. */
void driver_capture_begin(void *stream, bool relaxed);
/* Returns the graph, ready to be launched. */
void *driver_capture_end(void *stream);
void driver_graph_launch(void *graph, void *stream);

#endif
