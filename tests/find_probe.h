/* The exit status of find_probe. */
#ifndef ATTILE_FIND_PROBE_H
#define ATTILE_FIND_PROBE_H

enum probe_result { PROBE_BUILT, PROBE_HIT, PROBE_FAILED, PROBE_WRONG };

#endif
