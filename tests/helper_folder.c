#include "helper_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/attile-test-XXXXXX";

void folder_enter(void) {
    cr_assert(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

void folder_leave(void) {
    char command[64];
    cr_assert_eq(chdir("/"), 0);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

const char *folder_path(void) { return folder; }
