/* helper_evaluator: evaluates the text of a mask or a score while it reads it, as docs/expressions.md defines
   it. It shares nothing with the generator but the struct that holds names and parameters: no tokens, no
   tree, no simplification. */
#ifndef ATTILE_HELPER_EVALUATOR_H
#define ATTILE_HELPER_EVALUATOR_H

#include "helper_formula.h"

struct evaluated {
    enum formula_type type;
    int64_t integer; /* value of a bool or an int */
    double real;
};

/* Evaluates a whole text that formula_parse accepts, at the position in the fixture's env. Returns false when this
   evaluator does not understand the text. */
bool evaluate_text(const char *text, const struct formula_fixture *fixture, struct evaluated *value);

#endif
