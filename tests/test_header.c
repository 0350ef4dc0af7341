/* attile.h alone must compile for C and C++ users under strict warnings, and define nothing without its prefix. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has(const char *program) {
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null", program);
    return system(command) == 0;
}

Test(header, compiles_alone_as_c_and_cpp_under_strict_warnings) {
    static const struct {
        const char *compiler, *language;
    } cases[] = {{"gcc", "c -std=c11"},     {"gcc", "c -std=c17"},   {"g++", "c++ -std=c++11"},
                 {"g++", "c++ -std=c++20"}, {"clang", "c -std=c11"}, {"clang++", "c++ -std=c++17"}};
    int tried = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[512];
        if (!has(cases[i].compiler))
            continue;
        snprintf(command, sizeof command,
                 "echo '#include <attile.h>' | %s -x %s -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I%s/runtime -",
                 cases[i].compiler, cases[i].language, SOURCE_DIR);
        cr_expect_eq(system(command), 0, "%s", command);
        tried++;
    }
    cr_assert_gt(tried, 0, "no compiler was found");
}

Test(header, defines_only_prefixed_macros) {
    if (!has("gcc"))
        cr_skip_test("needs gcc -dM");
    char command[512], line[256];
    snprintf(
        command, sizeof command,
        "printf '#include <stddef.h>\\n#include <stdint.h>\\n' | gcc -x c -dM -E - | sort >/tmp/attile-before-%ld; "
        "echo '#include <attile.h>' | gcc -x c -dM -E -I%s/runtime - | sort | comm -13 /tmp/attile-before-%ld -; "
        "rm /tmp/attile-before-%ld",
        (long)getpid(), SOURCE_DIR, (long)getpid(), (long)getpid());
    FILE *macros = popen(command, "r");
    int count = 0;
    for (; fgets(line, sizeof line, macros); count++)
        cr_expect(!strncmp(line, "#define ATT_", 12) || !strncmp(line, "#define ATTILE_H", 16), "%s", line);
    pclose(macros);
    cr_expect_geq(count, 4, "the version macros and ATT_API at least");
}
