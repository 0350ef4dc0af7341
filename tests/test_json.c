#include "json.h"

#include <criterion/criterion.h>
#include <math.h>

static void expect(struct text *text, const char *wanted) {
    cr_assert(!text->failed);
    cr_assert_str_eq(text_string(text), wanted);
    text_free(text);
}

Test(json, objects_and_arrays_nest_with_commas_and_indentation) {
    struct text text = {0};
    struct json json;
    json_open(&json, &text);
    json_open_object(&json, NULL);
    json_put_string(&json, "name", "a");
    json_open_array(&json, "list");
    json_put_integer(&json, NULL, 1);
    json_put_integer(&json, NULL, INT64_MIN);
    json_end(&json);
    json_open_object(&json, "empty");
    json_end(&json);
    json_put_bool(&json, "yes", true);
    json_put_null(&json, "none");
    json_close(&json);
    expect(&text, "{\n  \"name\": \"a\",\n  \"list\": [\n    1,\n    -9223372036854775808\n  ],\n  \"empty\": {},\n"
                  "  \"yes\": true,\n  \"none\": null\n}\n");
}

Test(json, strings_are_valid_utf8_whatever_goes_in) {
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain", "\"plain\""},
        {"quote\" back\\slash", "\"quote\\\" back\\\\slash\""},
        {"line\nbell\a\x7f", "\"line\\nbell\\u0007\\u007f\""},
        {"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\""},
        {"\xC3", "\"\\ufffd\""},                                  /* cut off */
        {"\xC0\xAF", "\"\\ufffd\\ufffd\""},                       /* overlong */
        {"\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""},            /* a surrogate */
        {"\xF4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* beyond U+10FFFF */
        {"\xE2\x82X", "\"\\ufffd\\ufffdX\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text text = {0};
        struct json json;
        json_open(&json, &text);
        json_put_string(&json, NULL, cases[i].in);
        expect(&text, cases[i].out);
    }
}

Test(json, numbers_that_json_cannot_say_become_null) {
    static const struct {
        double in;
        const char *out;
    } cases[] = {{0.5, "0.5"}, {-1e300, "-1e+300"}, {NAN, "null"}, {INFINITY, "null"}, {-INFINITY, "null"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text text = {0};
        struct json json;
        json_open(&json, &text);
        json_put_number(&json, NULL, cases[i].in);
        expect(&text, cases[i].out);
    }
}

Test(json, too_deep_is_a_failure_not_an_overrun) {
    struct text text = {0};
    struct json json;
    json_open(&json, &text);
    for (int i = 0; i < JSON_DEPTH + 3; i++)
        json_open_array(&json, NULL);
    cr_assert(text.failed);
    text_free(&text);
}
