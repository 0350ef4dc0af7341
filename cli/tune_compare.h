/* tune_compare: what the measurements of a finished tuner say about a tuned table and the performance model. */
#ifndef ATTILE_TUNE_COMPARE_H
#define ATTILE_TUNE_COMPARE_H

#include "candidates.h"
#include "cli.h"
#include "tuner.h"

/* Opens a session that chooses by the table of --validate as a session on this device would (setting: what a worker
   reported about it). */
enum exit_code tune_open_validated(const struct cli *cli, const struct record *setting, att_session **session);

/* Adds two candidates to the tuner's last cell: the template's own schedule for the algorithm of `like`, and what
   att_find would choose with the table. Adds one if they are the same. False when memory runs out. */
bool tune_pick_two(att_session *session, const struct knobs *like, const struct shape *shape, struct tuner *tuner);

/* Prints for every cell how many times longer the template's own schedule took than the table's, then the geometric
   mean and the worst. */
enum exit_code tune_compare(struct cli *cli, const struct tuner *tuner);

/* Prints how much the model's first choice loses to the best that was measured, and how often that one is among the
   model's first eight. Cells that are not done do not count. */
void tune_judge_model(const struct cli *cli, const struct tuner *tuner, const struct model_gpu *gpu);

#endif
