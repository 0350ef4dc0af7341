/* helper_part: splits tests that take minutes over several ctest entries, each of which does a part of the work. */
#ifndef HELPER_PART_H
#define HELPER_PART_H

#include <stdbool.h>

/* True if piece of work `number` belongs to this part. ATTILE_PART=3/8 is the third of eight; unset = all of it. */
bool part_has(int number);

/* True if piece of work `number` belongs to this share. All variants and mutants take hours on two cores, so a test
   does one of `shards` shares of them. ATTILE_SHARD selects it, for example the number of a commit; unset = 0, `all`
   = all shares. */
bool shard_has(int number, int shards);

/* Returns 3 for 3/8: for work that differs between parts or is done in one part only. */
int part_number(void);

#endif
