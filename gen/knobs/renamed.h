/* renamed: what the knobs and words of earlier versions are called now (renamed.def). Whatever reads knobs asks here before
   it calls a name unknown: YAML, command lines, templates, tables and results. */
#ifndef ATTILE_RENAMED_H
#define ATTILE_RENAMED_H

#include "diag.h"
#include "knobs.h"

/* The knob that was called `s`, or -1. */
int renamed_find(const char *s, size_t size);

/* The same, after an error that says what it is called now. */
int renamed_knob(const char *s, size_t size, struct place place, struct diag *diag);

/* Was a word of this knob called `s`? Then an error says what it is called now. `id` -1 means any knob. */
bool renamed_word(int id, const char *s, size_t size, struct place place, struct diag *diag);

/* Is there such a name or word in a schedule as knobs_print writes it, "block_m=64 stages=2"? Then *error gets the sentence
   about the first one. */
bool renamed_in_schedule(const char *schedule, struct text *error);

#endif
