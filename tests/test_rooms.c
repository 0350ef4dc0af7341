/* CMake gives each room the include directories of the rooms that it may see, so that a wrong include does not compile.
   These tests compare the directories with the rule of docs/design.md, section 3, and close the way around them. */
#include "file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* A room may see those before it in this list. Only code in gen/ may see "inner" rooms. */
static const struct {
    const char *folder;
    bool inner;
} rooms[] = {
    {"text", false},      {"gen/knobs", false}, {"gen/plan", false},  {"gen/expr", true},     {"gen/formula", false},
    {"gen/yaml", false}, /* model/ reads devices/ with it */
    {"gen", false},       {"gen/spec", true},   {"gen/tuned", false}, {"gen/template", true}, {"gen/variant", true},
    {"gen/source", true}, {"system", false},    {"model", false},     {"templates", false}, /* params/ */
    {"runtime", false},   {"check", false},     {"tune", false},      {"explore", false},     {"cli", false}};

enum { ROOMS = sizeof rooms / sizeof *rooms, NONE = -1 };

/* Returns the room that contains a path: the one with the longest name. */
static int room_of(const char *path) {
    int found = NONE;
    for (int i = 0; i < ROOMS; i++) {
        size_t size = strlen(rooms[i].folder);
        bool within = strncmp(path, rooms[i].folder, size) == 0 && strchr("/ \"", path[size]);
        if (within && (found == NONE || size > strlen(rooms[found].folder)))
            found = i;
    }
    return found;
}

static void check_command(const char *path, int room, const char *command) {
    static const char include[] = "-I" SOURCE_DIR "/";
    bool in_gen = strncmp(path, "gen/", 4) == 0;
    for (const char *at = command; (at = strstr(at, include)); at++) {
        const char *folder = at + strlen(include);
        int seen = room_of(folder);
        if (strncmp(folder, "cmake", 5) == 0) /* embedded.h, which tells how files are carried */
            continue;
        cr_expect(seen != NONE && seen <= room && (in_gen || !rooms[seen].inner), "%.*s may not see %.*s/",
                  (int)strcspn(path, "\""), path, (int)strcspn(folder, " "), folder);
    }
}

Test(rooms, the_compiler_shows_a_room_only_those_below_it) {
    static const char file[] = "\"file\": \"" SOURCE_DIR "/";
    struct text commands = {0}, error = {0};
    const char *command = "";
    int held = 0;
    cr_assert(file_load(BUILD_DIR "/compile_commands.json", 1 << 26, &commands, &error), "%s", text_string(&error));
    for (char *line = strtok(commands.bytes, "\n"); line; line = strtok(NULL, "\n")) {
        const char *path = strstr(line, file);
        if (strstr(line, "\"command\": "))
            command = line;
        int room = path ? room_of(path + strlen(file)) : NONE;
        if (room != NONE) {
            check_command(path + strlen(file), room, command);
            held++;
        }
    }
    cr_expect_gt(held, 150, "the build says its commands otherwise than this test expects");
    text_free(&commands);
    text_free(&error);
}

Test(rooms, no_include_goes_around_the_directories) {
    char found[256] = "";
    FILE *lines = popen("cd " SOURCE_DIR " && grep -rnE '^ *# *include *[<\"](/|[^\">]*\\.\\.)' --include='*.[ch]' "
                        "text gen system model runtime check tune explore cli",
                        "r");
    cr_assert(lines);
    cr_expect_null(fgets(found, sizeof found, lines), "%s", found);
    pclose(lines);
}
