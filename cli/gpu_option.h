/* gpu_option: the GPU that --for names. */
#ifndef ATTILE_GPU_OPTION_H
#define ATTILE_GPU_OPTION_H

#include "cli.h"
#include "model.h"

/* A GPU of devices/ by its name; `instead` ends the message when there is none: what else may be done. */
enum exit_code gpu_option_name(const struct cli *cli, const char *name, const char *instead, struct model_gpu *gpu);

/* The GPU of --for, h200 when it is not given; it may be a device file, too. */
enum exit_code gpu_option_read(const struct cli *cli, struct model_gpu *gpu);

#endif
