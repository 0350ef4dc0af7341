#include "helper_part.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_part(int *index, int *count) {
    const char *text = getenv("ATTILE_PART");
    *index = *count = 1;
    if (text && (sscanf(text, "%d/%d", index, count) != 2 || *index < 1 || *index > *count))
        cr_assert_fail("ATTILE_PART is '%s', expected 3/8 for the third of eight", text);
}

bool part_has(int number) {
    int index, count;
    read_part(&index, &count);
    return number % count == index - 1;
}

bool shard_has(int number, int shards) {
    const char *text = getenv("ATTILE_SHARD");
    return text && strcmp(text, "all") == 0 ? true : (number + (text ? strtol(text, NULL, 10) : 0)) % shards == 0;
}

int part_number(void) {
    int index, count;
    read_part(&index, &count);
    return index;
}
