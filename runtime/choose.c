/* Iterates over the candidates: first measured ones, then preferred ones. */
#include "choose_parts.h"
#include "session.h"

#include <stdio.h>
#include <string.h>

/* Notes a candidate that is passed over. Several preferences may lead to the same kernel: it is noted once. */
static void pass_over(const struct choice *choice, struct text *passed) {
    struct text line = {0};
    if (!passed)
        return;
    if (*choice->variant.name)
        text_print(&line, "  passed over: %s: %s\n", choice->variant.name, choice->variant.reason);
    else
        text_print(&line, "  passed over: %s for %s: %s\n",
                   knob_word_name(KNOB_algorithm, choice->variant.knobs.algorithm),
                   knob_word_name(KNOB_target, choice->variant.knobs.target), choice->variant.reason);
    if (!strstr(text_string(passed), text_string(&line)))
        text_append(passed, text_string(&line), line.size);
    passed->failed |= line.failed;
    text_free(&line);
}

/* False if the sizes require nothing, or the variant that they required before. */
static bool fit_sizes(const struct att_session *session, const struct request *request, const struct table_list *tables,
                      struct choice *choice) {
    struct choice fitted = *choice;
    if (!choose_fit(session, request, tables, &fitted) || strcmp(fitted.variant.name, fitted.fitted) == 0)
        return false;
    *choice = fitted;
    snprintf(choice->fitted, sizeof choice->fitted, "%s", choice->variant.name);
    return true;
}

bool choose_next(struct att_session *session, const struct request *request, struct choice *choice,
                 struct text *passed) {
    char last[VARIANT_NAME] = "";
    bool general = false; /* the kept reason comes from a kernel for any device */
    const struct knobs problem = tuned_problem(&request->knobs);
    struct table_list tables = choose_tables(session, &problem);
    if (choice->next > 0)
        snprintf(last, sizeof last, "%s", choice->variant.name);
    while (choice->next <= choose_preferences()) {
        int number = choice->next; /* 0 = the measured one */
        bool whole = choice->whole;
        choice->next++;
        choice->whole = choice->pinned = choice->fits = false;
        if (!(number ? choose_preferred(session, request, number - 1, choice)
                     : choose_measured(session, request, choice)))
            continue;
        if (!choose_is_usable(session, request, &tables, &choice->variant)) {
            bool plain = number && request->knobs.algorithm == AUTO && !knob_in(choice->by_rule, KNOB_algorithm);
            if (!*choice->reason || (plain && !general))
                snprintf(choice->reason, sizeof choice->reason, "%s", choice->variant.reason);
            general = general || plain;
            pass_over(choice, passed);
        } else if (strcmp(choice->variant.name, last) != 0) { /* a tuned row may equal the template's choice */
            if (!whole && !choice->pinned && fit_sizes(session, request, &tables, choice)) {
                choice->next--; /* once more, for the variant without the changes for these sizes */
                choice->whole = true;
            }
            return true;
        }
    }
    return false;
}
