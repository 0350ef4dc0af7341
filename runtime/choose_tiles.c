/* choose_tiles: tiles for the sizes of launches. Measured on an H200 (docs/performance-notes.md).

   If each SM has few Q tiles, these tiles are small. Such a launch takes as long as its longest Q tile, and a tile of
   64 rows takes about two thirds of the time of one of 128. The launch also waits for its first K/V tile and its first
   maxima. So it keeps maxima (`rescale: lazy`), and if no block has a second tile, blocks are not persistent. Short
   sequences keep maxima for the same reason: causal ones with the tiles that they have anyway, others in clusters. */
#include "choose_parts.h"
#include "session.h"

#include <stdio.h>

/* WORD: none or causal. CAUSAL: with as many queries as keys, so that a short tile follows a long one. PAIRS: none, and
   blocks in pairs without an unused Q tile. */
enum masks { ANY, WORD, PAIRS, CAUSAL, CUSTOM };

enum {
    ASYNC = algorithm_flash_async,
    MMA = algorithm_flash_mma,
    PER_TILE = scheduler_per_tile,
    PERSISTENT = scheduler_persistent,
    LAZY = rescale_lazy,
    SUM = rescale_from_sum,
    REGISTERS = q_in_q_registers,
    BOTH = overlap_both,
    HALVES = overlap_halves
};

/* Selection of launches: maximum of Q tiles per SM and of keys (0 = any number), masks, any scores or only plain ones,
   head dimensions above the first value and up to the second. Then their schedule, where AUTO leaves it to the
   template. Causal rows with any number of Q tiles are for launches that have these tiles anyway. The comments give the
   new time relative to the previous one; for short sequences also with scores of deviation 16. */
static const struct row {
    int algorithm, block_m, waves, longest;
    enum masks masks;
    bool any_score;
    int above, head_dim;
    int block_n, stages, rescale, overlap, scheduler, cluster, q_in;
} table[TILE_ROWS] = {
    /* 0.34 to 1.00; d 256 0.55 to 1.04 */
    {ASYNC, 64, 1, 0, ANY, true, 0, 192, 128, 2, LAZY, AUTO, PER_TILE, AUTO, AUTO},
    {ASYNC, 64, 1, 0, ANY, true, 192, 256, 64, 2, LAZY, AUTO, PER_TILE, AUTO, AUTO},
    /* 0.66 to 0.96, 1.02 at d 96 and 1000 queries; d 256 0.58 to 0.92 */
    {ASYNC, 64, 2, 0, CAUSAL, true, 0, 192, 64, 4, LAZY, AUTO, PERSISTENT, AUTO, AUTO},
    {ASYNC, 64, 2, 0, CAUSAL, true, 192, 256, 64, 2, LAZY, AUTO, PERSISTENT, AUTO, AUTO},
    /* 0.55 to 0.94; 0.72 to 0.98 */
    {ASYNC, 128, 1, 0, CUSTOM, false, 0, 128, 64, 3, LAZY, AUTO, PER_TILE, AUTO, AUTO},
    {ASYNC, 128, 1, 0, WORD, false, 0, 128, 128, 2, LAZY, AUTO, PER_TILE, AUTO, AUTO},
    /* 0.64 to 1.00; above d 128 0.63 to 0.98; three tiles, in place of 192 rows, 0.86 to 0.94 with 300 to 777 keys, but
       1.07 to 1.17 with 900 to 1500, apart from 40 heads of 1000 keys, 0.91 */
    {ASYNC, 128, 2, 0, CAUSAL, false, 0, 128, 128, 2, LAZY, AUTO, PERSISTENT, AUTO, AUTO},
    {ASYNC, 128, 2, 0, CAUSAL, false, 128, 256, 64, 2, LAZY, AUTO, PERSISTENT, AUTO, AUTO},
    {ASYNC, 128, 3, 800, CAUSAL, false, 96, 128, 128, 2, LAZY, AUTO, PERSISTENT, AUTO, AUTO},
    /* 0.49 to 0.97, 1.06 at d 80 and 2048 queries; 0.41 to 1.01; 0.82 to 1.01 */
    {MMA, 64, 2, 0, WORD, false, 0, 96, 128, 2, SUM, HALVES, AUTO, AUTO, REGISTERS},
    {MMA, 64, 2, 0, ANY, true, 0, 128, 64, 3, LAZY, AUTO, AUTO, AUTO, REGISTERS},
    {MMA, 64, 4, 0, CAUSAL, false, 0, 128, 64, 3, LAZY, AUTO, AUTO, AUTO, REGISTERS},
    /* 1.01, deviation 16 0.86; d 96 0.98 to 1.01, 0.89 to 0.93; d 128 0.97 to 1.00, 0.86 to 0.93 */
    {ASYNC, 256, 0, 512, CAUSAL, false, 0, 64, 64, 3, LAZY, AUTO, AUTO, AUTO, AUTO},
    {ASYNC, 128, 0, 1024, CAUSAL, false, 64, 96, 128, 2, LAZY, BOTH, AUTO, AUTO, AUTO},
    {ASYNC, 128, 0, 1536, CAUSAL, false, 96, 128, 128, 2, LAZY, BOTH, AUTO, AUTO, AUTO},
    /* d 192 0.99 to 1.00, 0.87 to 0.94; d 256 0.97 to 1.00, 0.77 to 0.99 */
    {ASYNC, 128, 0, 2048, CAUSAL, false, 128, 192, 64, 2, LAZY, BOTH, AUTO, AUTO, AUTO},
    {ASYNC, 128, 0, 8192, CAUSAL, false, 192, 256, 64, 2, LAZY, AUTO, AUTO, AUTO, AUTO},
    /* 0.96 to 1.00, 0.93 to 0.95; d 256 0.97 to 1.01, 0.94 to 0.98 */
    {ASYNC, 128, 0, 1024, PAIRS, false, 96, 128, 128, 2, LAZY, BOTH, AUTO, 2, AUTO},
    {ASYNC, 128, 0, 1024, PAIRS, false, 192, 256, 64, 2, LAZY, AUTO, AUTO, 2, AUTO},
};

static int64_t cover(int64_t size, int64_t part) { return (size + part - 1) / part; }

/* True if the choice has these tiles without this table. Other tiles gain more than maxima lose. */
static bool has_tiles_of(const struct row *row, const struct knobs *knobs) {
    return knobs->block_m == row->block_m && knobs->block_n == row->block_n && knobs->cluster == 1;
}

static bool suits(const struct row *row, const struct knobs *knobs) {
    const int head_dim = knobs->head_dim > knobs->head_dim_v ? knobs->head_dim : knobs->head_dim_v;
    const bool plain = knobs->score == score_scaled && knobs->sinks == 0 && knobs->dropout == 0;
    const bool none = knobs->mask == mask_none, causal = knobs->mask == mask_causal;
    const bool masks[] = {
        [ANY] = true, [WORD] = none || causal, [PAIRS] = none, [CAUSAL] = causal, [CUSTOM] = !none && !causal};
    return knobs->algorithm == row->algorithm && knobs->layout == layout_dense && knobs->dtype != dtype_fp32 &&
           head_dim > row->above && head_dim <= row->head_dim && masks[row->masks] && (row->any_score || plain) &&
           (row->waves > 0 || row->masks == PAIRS || has_tiles_of(row, knobs));
}

/* True if each SM has at most the row's number of Q tiles. */
static bool has_few(const struct row *row, const struct shape *shape) {
    const int64_t tiles = cover(shape->len_q, row->block_m), most = row->waves * shape->sm_count;
    return row->waves == 0 || (shape->batch <= most && shape->heads <= most && tiles <= most &&
                               shape->batch * shape->heads * tiles <= most);
}

static bool holds(const struct row *row, const struct shape *shape, const struct knobs *knobs) {
    return suits(row, knobs) && (row->masks != CAUSAL || shape->len_q == shape->len_kv) &&
           (row->masks != PAIRS || cover(shape->len_q, row->block_m) % 2 == 0) &&
           (row->longest == 0 || (shape->len_q <= row->longest && shape->len_kv <= row->longest)) &&
           has_few(row, shape);
}

/* --- or split keys ------------------------------------------------------------------------------------------------ */

/* The unit of time is that of gen/plan/splits.c: a block of 128 rows takes 1 per key, one of `rows` rows takes (rows +
   64) / 192. */
enum { START = PLAN_KEYS_START, PART = PLAN_KEYS_PART, COMBINE = PLAN_KEYS_COMBINE };

static int64_t time_of(int64_t keys, int64_t rows) { return keys * (rows + 64) / 192; }

/* The time for the tiles of an SM: all but one of them are short. */
static int64_t time_whole(const struct row *row, const struct shape *shape) {
    return time_of(shape->len_kv + row->waves * START, row->block_m);
}

static int64_t time_in_parts(const struct shape *shape, const struct variant *in_parts, int64_t parts) {
    const int64_t rows = in_parts->knobs.block_m, tiles = shape->batch * shape->heads * cover(shape->len_q, rows);
    const bool causal = in_parts->knobs.mask == mask_causal && shape->len_q == shape->len_kv;
    const int64_t seen = causal ? shape->len_kv / 2 : shape->len_kv, longer = shape->len_kv - seen;
    const int64_t waves = cover(tiles * parts, shape->sm_count);
    return time_of(waves * (seen / parts + START + PART) + longer / parts, rows) + COMBINE;
}

/* --- the choice ------------------------------------------------------------------------------------------------------ */

bool choose_take(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 struct knobs knobs, const char *why, struct choice *choice) {
    struct variant variant;
    knobs.algorithm = choice->variant.knobs.algorithm;
    if (!choose_complete(session->templates, knobs, choice->variant.knobs.target, &variant) ||
        !choose_is_usable(session, request, tables, &variant))
        return false;
    choice->variant = variant;
    snprintf(choice->rule, sizeof choice->rule, "%s", why);
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_get(&knobs, (enum knob_id)id) != knob_get(&request->knobs, (enum knob_id)id))
            choice->by_rule |= KNOB_FLAG(id);
    return true;
}

int choose_tile_row(const struct knobs *knobs, const struct shape *shape, const struct variant *in_parts,
                    int64_t parts) {
    int i = 0;
    while (i < TILE_ROWS && !holds(&table[i], shape, knobs))
        i++;
    if (i == TILE_ROWS)
        return -1;
    /* rows for any number of Q tiles say nothing of the time, and parts are for few */
    bool whole =
        parts <= 1 || (table[i].waves > 0 && time_in_parts(shape, in_parts, parts) >= time_whole(&table[i], shape));
    return whole ? i : -1;
}

void choose_print_tile_row(int i, struct text *text) {
    const char *queries = table[i].masks == CAUSAL  ? ", and as many queries as keys"
                          : table[i].masks == PAIRS ? ", and an even number of Q tiles"
                                                    : "";
    if (table[i].waves)
        text_print(text, "at most %d Q tile%s of %d rows for each SM", table[i].waves, table[i].waves == 1 ? "" : "s",
                   table[i].block_m);
    if (table[i].longest)
        text_print(text, "%sat most %d keys", table[i].waves ? ", " : "", table[i].longest);
    text_print(text, "%s", queries);
}

bool choose_tiles_of_row(const struct att_session *session, const struct request *request,
                         const struct table_list *tables, int i, struct choice *choice) {
    const struct row *row = &table[i];
    struct knobs knobs = request->knobs;
    char why[CHOICE_RULE];
    if (!suits(row, &choice->variant.knobs))
        return false;
    const struct {
        enum knob_id knob;
        int value;
    } wishes[] = {{KNOB_block_m, row->block_m},     {KNOB_block_n, row->block_n}, {KNOB_stages, row->stages},
                  {KNOB_rescale, row->rescale},     {KNOB_overlap, row->overlap}, {KNOB_cluster, row->cluster},
                  {KNOB_scheduler, row->scheduler}, {KNOB_q_in, row->q_in}};
    for (size_t k = 0; k < sizeof wishes / sizeof *wishes; k++)
        if (wishes[k].value != AUTO)
            knob_set(&knobs, wishes[k].knob, wishes[k].value);
    if (row->waves)
        snprintf(why, sizeof why, "small Q tiles, since each SM has at most %d of them", row->waves);
    else
        snprintf(why, sizeof why, "sequences of at most %d keys keep maxima", row->longest);
    return choose_take(session, request, tables, knobs, why, choice);
}

/* Short causal prompts in small pages: the template's tiles of 192 x 64 suit long prompts. With pages of 16 at d 128,
   tiles of 128 x 128 take 0.72 of their time for 1024 tokens and 0.95 for 2048, but 1.08 for 4096. */
static bool take_short(const struct att_session *session, const struct request *request,
                       const struct table_list *tables, struct choice *choice) {
    enum { SHORT = 2048, SMALL_PAGE = 32 };
    const struct knobs *usual = &choice->variant.knobs;
    struct knobs knobs = request->knobs;
    if (usual->algorithm != algorithm_flash_async || usual->mask != mask_causal || usual->page_size < 1 ||
        usual->page_size > SMALL_PAGE || usual->block_m != 192 || usual->head_dim <= 96 ||
        request->hints.shape.len_q < 0 || request->hints.shape.len_q > SHORT)
        return false;
    knobs.block_m = 128;
    knobs.block_n = 128;
    return choose_take(session, request, tables, knobs, "short prompts in small pages take larger K/V tiles", choice);
}

bool choose_tiles(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  const struct variant *in_parts, int64_t parts, struct choice *choice) {
    struct shape shape = request->hints.shape;
    shape.sm_count = session->info.sm_count;
    if (!request->any_schedule || choice->variant.knobs.family != family_attention_forward)
        return false;
    if (choice->variant.knobs.layout != layout_dense)
        return !in_parts && take_short(session, request, tables, choice);
    const int row = choose_knows_sizes(&shape) ? choose_tile_row(&choice->variant.knobs, &shape, in_parts, parts) : -1;
    return row >= 0 && choose_tiles_of_row(session, request, tables, row, choice);
}
