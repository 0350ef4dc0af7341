/* Lines of a results file: what is printed reads back the same, and other text is not a record. */
#include "record.h"
#include "file.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct record example(void) {
    struct record record;
    record_clear(&record);
    strcpy(record.device, "NVIDIA \"H200\" \\ é");
    strcpy(record.problem, "family=attention_forward dtype=bf16");
    strcpy(record.status, "wrong");
    strcpy(record.error, "line 1\nline 2\ttab \x01 control");
    record.pass = 63;
    record.when = 1795276562;
    record.cold_median = 1.2345678e-5;
    return record;
}

Test(record, reads_back_what_it_prints) {
    struct record record = example(), again;
    struct text line = {0}, twice = {0};
    record_print(&record, &line);
    cr_assert_eq(line.bytes[line.size - 1], '\n');
    cr_assert_eq(strchr(line.bytes, '\n'), line.bytes + line.size - 1, "a record is one line");
    cr_assert(record_read(line.bytes, line.size - 1, &again));
    record_print(&again, &twice);
    cr_expect_str_eq(line.bytes, twice.bytes);
    cr_expect_str_eq(again.error, record.error);
    cr_expect_str_eq(again.device, record.device);
    cr_expect_eq(again.pass, 63);
    cr_expect_eq(again.registers, -1);
    cr_expect(isnan(again.warm_median), "what is not known stays so");
    cr_expect_float_eq(again.cold_median, 1.2345678e-5, 1e-13);
    text_free(&line);
    text_free(&twice);
}

Test(record, refuses_every_torn_line) {
    struct record record = example(), again;
    struct text line = {0};
    record_print(&record, &line);
    for (size_t size = 0; size + 1 < line.size; size++)
        cr_expect_not(record_read(line.bytes, size, &again), "%zu bytes of %zu", size, line.size);
    text_free(&line);
}

Test(record, refuses_what_is_no_record) {
    static const char *const lines[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"schema\": \"attile.tune/2\"}",
        "{\"schema\": 1}",
        "{\"schema\": \"attile.tune/1\"} x",
        "{\"schema\": \"attile.tune/1\", }",
        "{\"schema\": \"attile.tune/1\", \"pass\": }",
        "{\"schema\": \"attile.tune/1\", \"pass\": 1 2}",
        "{\"schema\": \"attile.tune/1\", \"error\": \"\\q\"}",
        "{\"schema\": \"attile.tune/1\", \"error\": \"\\u12\"}",
        "{\"schema\": \"attile.tune/1\", \"error\": \"a\nb\"}",
        "{\"schema\": \"attile.tune/1\", \"pass\": Infinity}",
    };
    struct record record;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect_not(record_read(lines[i], strlen(lines[i]), &record), "%s", lines[i]);
}

Test(record, skips_fields_of_other_versions_and_values_of_other_kinds) {
    static const char line[] = " {\"schema\":\"attile.tune/"
                               "1\",\"new\":{\"a\":[1,null]},\"pass\":\"seven\",\"device\":5,\"arch\":\"sm_90a\"} \r";
    struct record record;
    cr_assert(record_read(line, sizeof line - 1, &record));
    cr_expect_eq(record.pass, -1);
    cr_expect_str_eq(record.device, "");
    cr_expect_str_eq(record.arch, "sm_90a");
}

Test(record, reads_every_escape_of_json) {
    static const char line[] = "{\"schema\": \"attile.tune/1\", \"error\": \"\\ud83d\\ude00 \\u00b5s \\/\\t\"}";
    struct record record;
    cr_assert(record_read(line, sizeof line - 1, &record));
    cr_expect_str_eq(record.error, "\U0001F600 \u00b5s /\t");
}

Test(record, cuts_texts_that_are_too_long) {
    struct record record;
    struct text line = {0};
    text_print(&line, "{\"schema\": \"attile.tune/1\", \"arch\": \"");
    for (int i = 0; i < 5000; i++)
        text_print(&line, "x");
    text_print(&line, "\"}");
    cr_assert(record_read(line.bytes, line.size, &record));
    cr_expect_eq(strlen(record.arch), sizeof record.arch - 1);
    text_free(&line);
}

Test(record, has_every_field_in_the_manual) {
    static const char *const names[] = {
#define RECORD_TEXT(name, size, about) #name,
#define RECORD_INT(name, about)        #name,
#define RECORD_NUMBER(name, about)     #name,
#include "record.def"
    };
    struct text manual = {0}, error = {0};
    cr_assert(file_load(SOURCE_DIR "/docs/tuning.md", 1 << 20, &manual, &error), "%s", text_string(&error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "`%s`", names[i]);
        cr_expect(strstr(text_string(&manual), quoted), "docs/tuning.md does not explain %s", names[i]);
    }
    text_free(&manual);
}
