#include "report_file.h"
#include "file.h"

#include <stdio.h>

enum exit_code report_file_check(const struct cli *cli) {
    const char *folder = cli_text(cli, "report", NULL);
    struct text path = {0}, error = {0};
    enum exit_code code = CLI_OK;
    text_print(&path, "%s/index.html", folder ? folder : "");
    if (folder && (!file_make_folder(folder, &error) || !file_can_save(text_string(&path), &error)))
        code = cli_error(cli, CLI_IO, "--report: %s", text_string(&error));
    text_free(&path);
    text_free(&error);
    return code;
}

enum exit_code report_file_save(const struct cli *cli, const struct report *report) {
    const char *folder = cli_text(cli, "report", "");
    struct text html = {0}, path = {0}, error = {0};
    enum exit_code code = CLI_OK;
    report_write(report, &html);
    text_print(&path, "%s/index.html", folder);
    if (report->failed || html.failed || path.failed)
        code = cli_error(cli, CLI_INTERNAL, "out of memory for the report");
    else if (!file_make_folder(folder, &error) || !file_save(text_string(&path), html.bytes, html.size, NULL, &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    else
        cli_note(cli, "wrote %s", text_string(&path));
    text_free(&html);
    text_free(&path);
    text_free(&error);
    return code;
}

enum exit_code report_file_results(const struct cli *cli, const char *device, int family,
                                   const struct template_set *set, const char *path) {
    struct model_gpu gpu;
    struct report report;
    struct report_results results;
    struct text error = {0};
    enum exit_code code = CLI_OK;
    if (!model_gpu_find(device, &gpu)) {
        cli_note(cli, "no page: there is no device file for %s, which the roof and the predictions come from", device);
        return CLI_OK;
    }
    report_open(&report, "Schedules measured", &gpu, family);
    if (!report_read_results(&report, set, path, false, &results, &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    snprintf(
        report.about, sizeof report.about,
        "%s: %d measurements of %d kernels and shapes on %s, %d failures; %d records of other GPUs and %d of other "
        "versions left out (attile %s).",
        path, results.used, report.points, device, results.failed, results.foreign, results.unknown, GEN_VERSION);
    report_add_time(&report, "compiling, all processes", results.compile_seconds);
    report_add_time(&report, "launches that were timed", results.launch_seconds);
    if (!code)
        code = report_file_save(cli, &report);
    report_close(&report);
    text_free(&error);
    return code;
}
