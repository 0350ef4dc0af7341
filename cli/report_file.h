/* report_file: the --report option of explore and tune: where the page goes. */
#ifndef ATTILE_REPORT_FILE_H
#define ATTILE_REPORT_FILE_H

#include "cli.h"
#include "report.h"

#define REPORT_OPTION                                                                                                  \
    { "report", 0, OPTION_TEXT, "DIR", "write DIR/index.html, a page with pictures that needs no other file" }

/* Checks that the page of --report can be written. Creates its folder. */
enum exit_code report_file_check(const struct cli *cli);

/* Writes the page of --report. */
enum exit_code report_file_save(const struct cli *cli, const struct report *report);

/* The same, only from the records of this device and family in a results file. */
enum exit_code report_file_results(const struct cli *cli, const char *device, int family,
                                   const struct template_set *set, const char *path);

#endif
