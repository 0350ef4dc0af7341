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

/* Do launches of these sizes, with few rows of Q for a K/V head, take a Q tile that the heads of a group share by flash_async, and not decode? More
   rows than decode's smallest tile has, by which decode falls behind memory: H200, 32 rows 0.98 to 1.83 times as fast at d 64 and 128, 3.1 at d 256.
   Up to 16 rows it takes several groups, or the combining launch is too much of it: 1.05 to 1.43 from 8 on, 0.6 to 1.06 with one or two. */
bool choose_packs_few(const struct knobs *problem, const struct shape *shape);

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
