/* helper_part: tests that take minutes are dealt out to several entries of ctest, each of which does a part of the work. */
#ifndef HELPER_PART_H
#define HELPER_PART_H

#include <stdbool.h>

/* ATTILE_PART=3/8 is the third of eight; unset = all of it. Does piece of work number `number` belong to this part? */
bool part_has(int number);

/* All variants and mutants take hours on two cores, so a test does one of `shards` shares of them: which one, ATTILE_SHARD says, the
   number of a commit for example; unset = 0, `all` = all of them. Does piece of work number `number` belong to this share? */
bool shard_has(int number, int shards);

/* 3 of 3/8: for what differs from part to part, or is done in one only. */
int part_number(void);

#endif
