/* An emitted kernel is exactly its case: nothing in it that it does not use, no comment about what is not there. Of every
   variant of the Hopper kernel in specs/ and in the cookbook. */
#include "helper_cases.h"
#include "helper_specs.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 4096, NAME = 64, SHOWN = 40 };

struct name {
    char text[NAME];
    int in_code, in_comments;
};

/* All names of one source, each with how often it stands where. */
struct names {
    struct name name[NAMES];
    int count;
};

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static struct name *name_of(struct names *names, const char *text, size_t size) {
    for (int i = 0; i < names->count; i++)
        if (strlen(names->name[i].text) == size && memcmp(names->name[i].text, text, size) == 0)
            return &names->name[i];
    cr_assert(names->count < NAMES && size < NAME);
    struct name *name = &names->name[names->count++];
    memcpy(name->text, text, size);
    return name;
}
