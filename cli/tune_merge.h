/* tune_merge: attile tune --merge FILE...: merges many results files into one, and makes its tuned table. */
#ifndef ATTILE_TUNE_MERGE_H
#define ATTILE_TUNE_MERGE_H

#include "cli.h"

enum exit_code tune_merge(struct cli *cli);

#endif
