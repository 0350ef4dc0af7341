/* Which kernels fit into a budget, and the sizes that the option accepts. */
#include "build_budget.h"
#include "byte_size.h"

#include <criterion/criterion.h>

enum { ITEMS = 5 };

Test(build_budget, keeps_one_of_each_group_then_what_wins_most) {
    static const struct budget_item items[ITEMS] = {
        {.bytes = 100, .wins = 1, .group = 0}, {.bytes = 100, .wins = 5, .group = 0},
        {.bytes = 300, .wins = 1, .group = 2}, {.bytes = 200, .wins = 3, .group = 0},
        {.bytes = 50, .wins = 1, .group = 2},
    };
    static const struct {
        uint64_t limit, bytes;
        bool kept[ITEMS];
    } cases[] = {
        {0, 150, {0, 1, 0, 0, 1}},   {149, 150, {0, 1, 0, 0, 1}},        {150, 150, {0, 1, 0, 0, 1}},
        {349, 250, {1, 1, 0, 0, 1}}, {350, 350, {0, 1, 0, 1, 1}},        {750, 750, {1, 1, 1, 1, 1}},
        {749, 450, {1, 1, 0, 1, 1}}, {UINT64_MAX, 750, {1, 1, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct budget_item all[ITEMS];
        for (int k = 0; k < ITEMS; k++)
            all[k] = items[k];
        cr_expect_eq(budget_keep(all, ITEMS, cases[i].limit), cases[i].bytes, "%llu",
                     (unsigned long long)cases[i].limit);
        for (int k = 0; k < ITEMS; k++)
            cr_expect_eq(all[k].kept, cases[i].kept[k], "limit %llu, item %d", (unsigned long long)cases[i].limit, k);
    }
    cr_expect_eq(budget_keep(NULL, 0, 10), 0);
}

Test(build_budget, reads_sizes) {
    static const struct {
        const char *text;
        uint64_t bytes; /* 0 = refused */
    } cases[] = {
        {"1", 1},  {"500000", 500000}, {"640K", 655360}, {"1.5M", 1572864}, {"2G", 2147483648u}, {"0", 0},  {"", 0},
        {"K", 0},  {".5M", 0},         {"0.1", 0},       {"-1", 0},         {"2MB", 0},          {"2m", 0}, {"1e6", 0},
        {" 1", 0}, {"1 M", 0},         {"inf", 0},       {"0x10", 0},       {"99999999999G", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        bool read = byte_size_read(cases[i].text, &bytes);
        cr_expect_eq(read, cases[i].bytes > 0, "%s", cases[i].text);
        cr_expect(!read || bytes == cases[i].bytes, "%s", cases[i].text);
    }
}
