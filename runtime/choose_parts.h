/* choose_parts: the steps of a choice, each of which uses only those before it: choose_request.c reads the request,
   choose_preferred.c has the table of preferences, choose_measured.c uses the tuned tables, choose_tiles.c and
   choose_sizes.c adapt the choice to the sizes of launches, choose.c iterates over all. */
#ifndef ATTILE_CHOOSE_PARTS_H
#define ATTILE_CHOOSE_PARTS_H

#include "choose.h"
#include "tables.h"

/* True if an offered value satisfies the request. AUTO as a request accepts any value; AUTO as an offer satisfies
   any. */
static inline bool choose_agrees(int asked, int offered) {
    return asked == AUTO || offered == AUTO || asked == offered;
}

/* Rows of decode's smallest Q tile; each next tile has twice as many, up to TUNED_FEW_ROWS. */
enum { LEAST_ROWS = 8 };

/* True if the hints state all sizes of a launch. */
static inline bool choose_knows_sizes(const struct shape *hints) {
    return hints->batch >= 0 && hints->heads >= 0 && hints->len_q >= 0 && hints->len_kv >= 0;
}

/* choose_preferred.c */

/* Makes the variant of a row of the table of preferences. False, without a reason, if the row does not apply to the
   request. */
int choose_preferences(void); /* rows */
bool choose_preferred(const struct att_session *session, const struct request *request, int row, struct choice *choice);

/* The kernel for few rows of Q that share a K/V head, by the bytes of K and V. H200, 16 bits, d 64 to 256, no mask
   (performance-notes.md):
   - FEW_BY_EIGHT: several Q tiles of decode, each of which reads K and V, from L2 if it holds them: a tile with more
     rows takes longer to merge and to combine. 0.62 to 0.97 of the time of one tile as long as all tiles read up to
     80 MB, where each tile counts as half a megabyte.
   - FEW_PACKED: one Q tile of flash_async, shared by the heads of a group. With more than eight rows mma.sync is slower
     than memory, and with short sequences decode pays more for a change of the Q tile. But splitting keys takes a
     second launch.
   - FEW_AT_ONCE: one Q tile of decode. For masks and scores that are expressions, sequences and 8-bit caches, nothing
     else was measured. */
enum few_rows { FEW_AT_ONCE, FEW_BY_EIGHT, FEW_PACKED };
enum few_rows choose_few(const struct knobs *problem, const struct shape *shape);

/* Stores the kernel of FEW_PACKED in *choice, usable or not. `grouped`: heads share K/V heads, or this is not known. */
void choose_packed_few(const struct att_session *session, const struct request *request, bool grouped,
                       struct choice *choice);

/* Completes the knobs with a target that the caller may not have requested: if the template does not use such a target,
   it is dropped and not refused. */
bool choose_complete(const struct template_set *set, struct knobs knobs, int target, struct variant *variant);

/* True if the variant can be used. If not, its own reason says why: infeasible, out of service, alignment. */
bool choose_is_usable(const struct att_session *session, const struct request *request, const struct table_list *tables,
                      struct variant *variant);

/* Chooses what would be chosen without tables. */
bool choose_default(const struct att_session *session, const struct request *request, const struct table_list *tables,
                    struct choice *choice);

/* choose_measured.c */

/* The tables that apply to a problem, in the form of tuned_problem. */
struct table_list choose_tables(struct att_session *session, const struct knobs *problem);

/* The row of the session's lock file for this problem and shape; null = there is none, or no lock file for this
   device. */
const struct tuned_row *choose_pinned(const struct att_session *session, const struct request *request);

/* Makes the variant of such a row, with the rest of the request. False, with a reason, if it cannot be made. */
bool choose_complete_pinned(struct att_session *session, const struct request *request, const struct tuned_row *row,
                            struct variant *variant);

/* Chooses from the rows of the tables for this problem, or else for a similar one; the model says how they carry over
   to the given shape. False if there are no rows, or if the request names a schedule. */
bool choose_measured(struct att_session *session, const struct request *request, struct choice *choice);

/* The rows that choose_measured would use for this problem at some sizes: *count of them, null = none. */
const struct tuned_row *choose_measured_rows(struct att_session *session, const struct request *request, int *count);

/* choose_gradients.c */

enum { GRADIENT_ALTERNATIVES = 5 };

/* True for gradients whose schedule suits only long work. */
bool choose_has_alternatives(const struct knobs *found);

/* The number of the schedule with which gradients of these sizes are faster than with that of `found`; -1 = none. */
int choose_alternative(const struct knobs *found, const struct shape *shape);

/* Replaces the choice by that other schedule. False if it does not apply to the choice. */
bool choose_take_alternative(const struct att_session *session, const struct request *request,
                             const struct table_list *tables, int number, struct choice *choice);
void choose_print_alternative(int number, struct text *text);

/* choose_tiles.c */

/* Replaces the choice by the variant of `knobs`, because of `why`. */
bool choose_take(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 struct knobs knobs, const char *why, struct choice *choice);

enum { TILE_ROWS = 19 };

/* Returns the row of the table of tiles that suits launches of these sizes, -1 = none. `in_parts`: the variant that
   would split the keys, into `parts`; tiles with all keys must be faster than it. */
int choose_tile_row(const struct knobs *knobs, const struct shape *shape, const struct variant *in_parts,
                    int64_t parts);
void choose_print_tile_row(int row, struct text *text);

/* Replaces the tiles of the choice by those of that row. */
bool choose_tiles_of_row(const struct att_session *session, const struct request *request,
                         const struct table_list *tables, int row, struct choice *choice);

/* Replaces the tiles of the choice by those that suit the hinted sizes. `in_parts`: as above, null = none; `parts` is 1
   unless all sizes are known. */
bool choose_tiles(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  const struct variant *in_parts, int64_t parts, struct choice *choice);

/* choose_sizes.c */

/* The ways in which heads of a group share Q tiles. */
enum { PACKINGS = 4 };
extern const struct packing {
    bool single;                           /* each SM has at most one tile, before keys are split */
    int block_m, block_n, stages, rescale; /* AUTO: the template's choice */
} choose_packings[PACKINGS];

/* If the queries of a head fill so little of a Q tile that half of the tiles suffice when the heads of a group share
   them, the heads share tiles: the group then reads K and V once. Returns the row of choose_packings, -1 = not shared.
   `apart`: the variant whose tiles are not shared. To see if half suffice, shared tiles count as if they had as many
   rows. */
int choose_packing(const struct variant *apart, const struct shape *shape);

/* Replaces the choice by a kernel whose heads share tiles. */
bool choose_pack(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 const struct packing *packing, struct choice *choice);

/* A kernel that may split keys costs nothing when it does not split them. So it is the first choice unless the hints
   say that it never will, for masks that are words and plain scores, whose loops are the same with it. If the tiles of
   the choice cannot be split, the template's defaults for split keys can, but they are slower otherwise. False if there
   is no such variant. */
bool choose_split(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  struct choice *choice);

/* Makes all changes for the hinted sizes: heads that share Q tiles, other tiles, split keys. False if there are
   none. */
bool choose_fit(const struct att_session *session, const struct request *request, const struct table_list *tables,
                struct choice *choice);

#endif
