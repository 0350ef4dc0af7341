/* helper_spills: variants that may spill registers. */
#ifndef HELPER_SPILLS_H
#define HELPER_SPILLS_H

/* Bytes of spills, stores and loads together, that a variant of flash_mma may have: 0 but for those that were measured to be
   faster than tiles that do not spill (docs/performance-notes.md). */
int spills_allowed(const char *variant);

#endif
