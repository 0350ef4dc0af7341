/* tune_report: what a results file says, for people, as JSON, and as a tuned table. */
#ifndef ATTILE_TUNE_REPORT_H
#define ATTILE_TUNE_REPORT_H

#include "catalog.h"
#include "results.h"

/* Read --table, if it exists, and see that it is for this device, before anything is measured. */
enum exit_code tune_check_table(const struct cli *cli, const char *device);

/* Print the winner of every cell of one setting to standard output, and put them into --table, if that is given. */
enum exit_code tune_report(struct cli *cli, const struct results *results, int setting, const struct template_set *set);

#endif
