/* choose_parts: the steps of a choice, each of which uses only those before it: choose_request.c reads what is asked for,
   choose_preferred.c has the table of preferences, choose_measured.c knows the tuned tables, choose_tiles.c and choose_sizes.c the sizes of
   launches, choose.c goes through all. */
#ifndef ATTILE_CHOOSE_PARTS_H
#define ATTILE_CHOOSE_PARTS_H

#include "choose.h"
#include "tables.h"

/* Does an offered value satisfy the request? AUTO as a request accepts any value, as an offer it satisfies any. */
static inline bool choose_agrees(int asked, int offered) {
    return asked == AUTO || offered == AUTO || asked == offered;
}

/* Rows of the smallest Q tile of decode; each next one has twice as many, up to TUNED_FEW_ROWS. */
enum { LEAST_ROWS = 8 };

/* Do hints say all sizes of a launch? */
static inline bool choose_knows_sizes(const struct shape *hints) {
    return hints->batch >= 0 && hints->heads >= 0 && hints->len_q >= 0 && hints->len_kv >= 0;
}

/* choose_preferred.c */

/* The variant of a row of the table of preferences. False, without a reason, when it has nothing to do with the request. */
int choose_preferences(void); /* rows */
bool choose_preferred(const struct att_session *session, const struct request *request, int row, struct choice *choice);

/* Which kernel takes few rows of Q that share a K/V head, by the bytes of K and V. H200, 16 bits, d 64 to 256, no mask (performance-notes.md):
   - FEW_BY_EIGHT: several Q tiles of decode, each of which reads K and V, from L2 if they are few: more rows in a tile take longer to
     merge and to combine. 0.62 to 0.97 of the time of one tile while all tiles read up to 80 MB, a tile being worth half a megabyte.
   - FEW_PACKED: one Q tile of flash_async, which the heads of a group share. With more than eight rows mma.sync falls behind memory, and
     where sequences are short a change of the Q tile costs decode more. But keys in parts take a second launch.
   - FEW_AT_ONCE: one Q tile of decode. Masks and scores that are expressions, sequences and caches of 8 bits were not measured otherwise. */
enum few_rows { FEW_AT_ONCE, FEW_BY_EIGHT, FEW_PACKED };
enum few_rows choose_few(const struct knobs *problem, const struct shape *shape);

/* The kernel of FEW_PACKED, into *choice, whether it can be used or not. `grouped`: heads share K/V heads, or nobody knows. */
void choose_packed_few(const struct att_session *session, const struct request *request, bool grouped,
                       struct choice *choice);

/* Complete with a target that the caller may not have asked for: such a wish is dropped, not refused, where the
   template has no use for it. */
bool choose_complete(const struct template_set *set, struct knobs knobs, int target, struct variant *variant);

/* What speaks against a variant goes into its own reason: infeasible, out of service, alignment. */
bool choose_is_usable(const struct att_session *session, const struct request *request, const struct table_list *tables,
                      struct variant *variant);

/* What would answer if there were no tables. */
bool choose_default(const struct att_session *session, const struct request *request, const struct table_list *tables,
                    struct choice *choice);

/* choose_measured.c */

/* What the tables say of a problem, as tuned_problem gives it. */
struct table_list choose_tables(struct att_session *session, const struct knobs *problem);

/* The row of the session's lock file for this problem and shape; null = there is none, or no lock file for this device. */
const struct tuned_row *choose_pinned(const struct att_session *session, const struct request *request);

/* The variant of such a row, with what the request says beside it. False, with a reason, where it cannot be made. */
bool choose_complete_pinned(struct att_session *session, const struct request *request, const struct tuned_row *row,
                            struct variant *variant);

/* What the tables say of this problem, else of one like it; the model says how to carry that over to the shape at hand.
   False when they say nothing, or when the request names a schedule. */
bool choose_measured(struct att_session *session, const struct request *request, struct choice *choice);

/* choose_tiles.c */

enum { TILE_ROWS = 18 };

/* Which row of the table of tiles suits launches of these sizes, -1 = none. `in_parts`: what would split the keys, into `parts`;
   tiles with all keys must be faster. */
int choose_tile_row(const struct knobs *knobs, const struct shape *shape, const struct variant *in_parts,
                    int64_t parts);
void choose_print_tile_row(int row, struct text *text);

/* Puts the tiles of that row in the place of those of the choice. */
bool choose_tiles_of_row(const struct att_session *session, const struct request *request,
                         const struct table_list *tables, int row, struct choice *choice);

/* Puts tiles that the hinted sizes ask for in the place of those of the choice. `in_parts`: as above, null = nothing would; `parts` is 1 unless all
   sizes are known. */
bool choose_tiles(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  const struct variant *in_parts, int64_t parts, struct choice *choice);

/* choose_sizes.c */

/* Where queries of a head fill so little of a Q tile that half of the tiles suffice when the heads of a group share them, they do:
   K and V are read once for the group then. Returns the rows of such a tile: the smallest, where it holds all rows of a group, else
   AUTO; 0 = they do not share. `apart`: the variant whose tiles are not shared. */
int choose_packing(const struct variant *apart, const struct shape *shape);

/* Puts a kernel whose heads share tiles of `block_m` rows in the place of the choice. */
bool choose_pack(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 int block_m, struct choice *choice);

/* A kernel that may split keys costs nothing where it does not, so it is the first choice unless the hints say that it never will:
   for masks that are words, with scores that are plain, whose loops are the same with it. Where tiles of the choice cannot be split,
   the template's defaults for parts can, but they are slower otherwise. False where there is no such variant. */
bool choose_split(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  struct choice *choice);

/* All that the hinted sizes ask for: heads that share Q tiles, other tiles, keys in parts. False where they ask for nothing. */
bool choose_fit(const struct att_session *session, const struct request *request, const struct table_list *tables,
                struct choice *choice);

#endif
