/* helper_spills: variants that may spill registers. */
#ifndef HELPER_SPILLS_H
#define HELPER_SPILLS_H

/* Returns the bytes of spills, stores and loads together, that a variant of flash_mma may have. This is 0 except for
   variants measured to be faster than tiles without spills (docs/performance-notes.md). */
int spills_allowed(const char *variant);

#endif
