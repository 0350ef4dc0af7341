/* tune_report: what a results file says, for people, as JSON, and as a tuned table. */
#ifndef ATTILE_TUNE_REPORT_H
#define ATTILE_TUNE_REPORT_H

#include "catalog.h"
#include "results.h"

/* Before anything is measured: can --table and --lock be written? If they exist, are they for this device? */
enum exit_code tune_can_save_tables(const struct cli *cli);
enum exit_code tune_check_tables(const struct cli *cli, const char *device);

/* Print the winner of every cell of one setting to standard output, and put them into --table and --lock, as far as these are
   given. */
enum exit_code tune_report(struct cli *cli, const struct results *results, int setting, const struct template_set *set);

#endif
