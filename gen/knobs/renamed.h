/* renamed: the current names of knobs and words of earlier versions (renamed.def). All readers of knobs (YAML, command
   lines, templates, tables and results) look here before they report an unknown name. */
#ifndef ATTILE_RENAMED_H
#define ATTILE_RENAMED_H

#include "diag.h"
#include "knobs.h"

/* Returns the knob that was called `s`, or -1. */
int renamed_find(const char *s, size_t size);

/* The same, after an error with its current name. */
int renamed_knob(const char *s, size_t size, struct place place, struct diag *diag);

/* True, after an error with the current name, if a word of this knob was called `s`. `id` -1 means any knob. */
bool renamed_word(int id, const char *s, size_t size, struct place place, struct diag *diag);

/* True if a schedule in the form of knobs_print, "block_m=64 stages=2", has such a name or word. *error then gets the
   sentence about the first one. */
bool renamed_in_schedule(const char *schedule, struct text *error);

#endif
