/* shape_text: "batch=1,heads=8,len_q=100" -> a shape, and back. */
#ifndef ATTILE_SHAPE_TEXT_H
#define ATTILE_SHAPE_TEXT_H

#include "plan.h"

/* Parses "len_q=7,len_kv=9" for a family, with the rules of shapes.def. False with a sentence in *error. */
bool shape_parse(const char *text, int family, struct shape *shape, struct text *error);

/* Prints a shape in the form that shape_parse reads: "batch=1,heads=8,...". */
void shape_print(const struct shape *shape, int family, struct text *text);

#endif
