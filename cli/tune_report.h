/* tune_report: prints a results file for people and as JSON, and makes a tuned table of it. */
#ifndef ATTILE_TUNE_REPORT_H
#define ATTILE_TUNE_REPORT_H

#include "catalog.h"
#include "results.h"

/* Before anything is measured, check that --table and --lock can be written and, if they exist, that they are for this
   device. */
enum exit_code tune_can_save_tables(const struct cli *cli);
enum exit_code tune_check_tables(const struct cli *cli, const char *device);

/* Prints the winner of every cell of one setting to standard output, and puts the winners into --table and --lock, if
   these are given. */
enum exit_code tune_report(struct cli *cli, const struct results *results, int setting, const struct template_set *set);

#endif
