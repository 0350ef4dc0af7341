/* helper_evaluator: what the text of a mask or a score says, evaluated while it is read, as docs/expressions.md defines
   it. It shares nothing with the generator but the struct that holds names and parameters: no tokens, no tree, no
   simplification. */
#ifndef ATTILE_HELPER_EVALUATOR_H
#define ATTILE_HELPER_EVALUATOR_H

#include "helper_formula.h"

struct evaluated {
    enum formula_type type;
    int64_t integer; /* of bool and int */
    double real;
};

/* The value of a whole text that formula_parse accepts, at the position in the fixture's env. False where the text is
   none that this evaluator understands. */
bool evaluate_text(const char *text, const struct formula_fixture *fixture, struct evaluated *value);

#endif
