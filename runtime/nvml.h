/* nvml: the current clocks of a GPU, from the driver's management library, opened at run time. It is optional: without
   it the clocks are not known. */
#ifndef ATTILE_NVML_H
#define ATTILE_NVML_H

struct nvml;

struct nvml *nvml_open(const char *bus); /* "0000:18:00.0"; null if there is no such library or GPU */
void nvml_close(struct nvml *nvml);      /* accepts null */

void nvml_clocks(const struct nvml *nvml, int *sm_mhz, int *memory_mhz); /* -1 = not known */

#endif
