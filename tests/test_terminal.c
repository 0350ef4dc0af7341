#include "terminal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct table *table) {
    static const char *const headings[] = {"kernel", "time", "regs", ""};
    table_open(table, 4, headings, "lrrl");
    for (int i = 0; i < 2; i++) {
        table_row(table);
        table_cell(table, 0, CELL_PLAIN, "%s", i ? "flash" : "flash_tiled m64 n32 q_outer in registers");
        table_cell(table, 1, CELL_PLAIN, "%d ms", 9 + i);
        table_cell(table, 2, CELL_PLAIN, "-");
        table_cell(table, 3, CELL_GOOD, i ? "ok" : "");
    }
}

Test(terminal, a_table_leaves_out_columns_without_a_value) {
    struct table table;
    struct text text = {0};
    fill(&table);
    table_print(&table, false, WIDTH_UNKNOWN, &text);
    cr_expect_str_eq(text_string(&text), "kernel                                     time\n"
                                         "flash_tiled m64 n32 q_outer in registers   9 ms\n"
                                         "flash                                     10 ms  ok\n");
    table_free(&table);
    text_free(&text);
}

Test(terminal, a_table_that_is_too_wide_continues_words_on_the_next_line) {
    struct table table;
    struct text text = {0};
    fill(&table);
    table_print(&table, true, 32, &text);
    cr_expect_str_eq(text_string(&text), "\033[2mkernel\033[0m                  \033[2mtime\033[0m\n"
                                         "flash_tiled m64 n32     9 ms\n"
                                         "q_outer in registers\n"
                                         "flash                  10 ms  \033[32mok\033[0m\n");
    table_free(&table);
    text_free(&text);
}

Test(terminal, words_are_broken_at_blanks_then_at_their_parts_and_at_last_anywhere) {
    static const char *const headings[] = {"name"};
    static const char *const cells[] = {"one two_three four", "batch=4,heads=16,len_q=4096", "abcdefghijklmnopqrst"};
    struct table table;
    struct text text = {0};
    table_open(&table, 1, headings, "l");
    for (int i = 0; i < 3; i++) {
        table_row(&table);
        table_cell(&table, 0, CELL_PLAIN, "%s", cells[i]);
    }
    table_print(&table, false, 5, &text); /* no narrower than 12 */
    cr_expect_str_eq(text_string(&text), "name\none\ntwo_three\nfour\nbatch=4,\nheads=16,\nlen_q=4096\nabcdefghijkl\n"
                                         "mnopqrst\n");
    table_free(&table);
    text_free(&text);
}

Test(terminal, the_width_is_that_of_the_environment_and_none_for_a_file) {
    FILE *file = tmpfile();
    setenv("COLUMNS", "57", 1);
    cr_expect_eq(terminal_width(file), 57);
    setenv("COLUMNS", "x", 1);
    cr_expect_eq(terminal_width(file), WIDTH_UNKNOWN);
    fclose(file);
}

Test(terminal, sentences_are_wrapped_behind_what_is_there) {
    struct text text = {0};
    text_print(&text, "   7  ");
    terminal_wrap(&text, "a rule that does not hold", 6, 18);
    cr_expect_str_eq(text_string(&text), "   7  a rule that\n      does not\n      hold\n");
    text_free(&text);
}
