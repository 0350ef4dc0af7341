/* gpu_option: the GPU that --for names. */
#ifndef ATTILE_GPU_OPTION_H
#define ATTILE_GPU_OPTION_H

#include "cli.h"
#include "model.h"

/* Finds a GPU of devices/ by its name. If there is none, `instead` ends the message: what the user can do instead. */
enum exit_code gpu_option_name(const struct cli *cli, const char *name, const char *instead, struct model_gpu *gpu);

/* Reads the GPU of --for, h200 by default; it may also be a device file. */
enum exit_code gpu_option_read(const struct cli *cli, struct model_gpu *gpu);

#endif
