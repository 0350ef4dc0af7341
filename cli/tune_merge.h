/* tune_merge: attile tune --merge FILE...: many results files become one, and its tuned table. */
#ifndef ATTILE_TUNE_MERGE_H
#define ATTILE_TUNE_MERGE_H

#include "cli.h"

enum exit_code tune_merge(struct cli *cli);

#endif
