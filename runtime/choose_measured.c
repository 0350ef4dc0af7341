/* choose_measured: rows of the tuned tables -> the schedule for the given shape.

   The row with the nearest shape decides, unless the model predicts that another schedule gains more on the step from
   that row's shape to this one. Measurements at the row's own shape always hold: there the row is the fastest, whatever
   the model predicts. A problem without rows borrows those of a similar one (docs/tuned.md). */
#include "choose_parts.h"
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Knobs that depend on the number formats of a problem: a borrowed schedule does not set them. */
static const knob_flags UNBORROWED = KNOB_FLAG(KNOB_rescale) | KNOB_FLAG(KNOB_store);

/* Schedules of larger head dimensions were not measured for this problem: such a schedule must be predicted to be
   faster than the template's defaults by this factor, which exceeds the error of the model. */
static const double CLEARLY = 1.05;

/* The nearest row is kept unless a rival is predicted to be faster by this factor, the error of the predicted step from
   one shape to another. */
static const double STANDS = 1.02;

enum { RIVALS = 64 };

struct rival {
    const struct tuned_row *row; /* null = the template's defaults */
    double seconds;              /* predicted at the given shape */
    double score;                /* lowest wins */
};

struct match {
    struct att_session *session;
    const struct request *request;
    struct table_list tables;
    const struct tuned *table;     /* the first table that has rows */
    const struct tuned_row *near;  /* the nearest of its rows */
    struct knobs lender;           /* the problem of these rows */
    bool borrowed, larger;         /* from another number format; from larger head dimensions */
    bool others;                   /* do rows whose algorithm is not that of the defaults count at every shape? */
    struct shape shape;            /* the given shape */
    struct choice usual;           /* the template's defaults; infeasible = there are none */
    struct model_mask here, there; /* mask at this shape, and at that of the nearest row */
    double nearest;                /* predicted for the nearest row at its own shape */
    struct rival rival[RIVALS];
    int rivals;
};

/* --- rows -------------------------------------------------------------------------------------------------------- */

/* The built-in tables are part of this library: if they cannot be read, the library is faulty, which a test would have
   caught, or memory ran out. The choice then proceeds without them. */
struct table_list choose_tables(struct att_session *session, const struct knobs *problem) {
    struct failure failure = {0};
    struct table_list tables;
    if (tables_ask(&session->tables, session->info.device_name, problem, &tables, &failure) != ATT_OK)
        session_log(session, ATT_LOG_WARNING, "%s", text_string(&failure.text));
    failure_clear(&failure);
    return tables;
}

/* The knobs that a row sets. */
static knob_flags set_by(const struct match *match, const struct tuned_row *row) {
    knob_flags set = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_get(&row->schedule, (enum knob_id)id) != AUTO)
            set |= KNOB_FLAG(id);
    return match->borrowed ? set & ~UNBORROWED : set;
}

static void put(const struct match *match, const struct tuned_row *row, struct knobs *knobs) {
    knob_flags set = set_by(match, row);
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_in(set, id))
            knob_set(knobs, (enum knob_id)id, knob_get(&row->schedule, (enum knob_id)id));
}

static bool has_target(const struct tuned_row *row, const void *request) {
    return choose_agrees(((const struct request *)request)->knobs.target, row->schedule.target);
}

const struct tuned_row *choose_pinned(const struct att_session *session, const struct request *request) {
    const struct tuned *own = session->tables.own;
    const struct knobs problem = tuned_problem(&request->knobs);
    const struct shape shape = choose_shape(request);
    bool locked = own && own->lock && tuned_is_for(own, session->info.device_name);
    if (!locked)
        return NULL;
    const struct tuned_row *row = tuned_nearest(own, &problem, &shape, (struct tuned_filter){has_target, request});
    return row ? row : tuned_nearest(own, &problem, &shape, (struct tuned_filter){0});
}

bool choose_complete_pinned(struct att_session *session, const struct request *request, const struct tuned_row *row,
                            struct variant *variant) {
    struct match match = {.session = session};
    struct knobs knobs = request->knobs;
    put(&match, row, &knobs);
    return choose_complete(session->templates, knobs, target_any, variant);
}

/* Completes the variant for a row; null = the template's defaults. */
static bool complete(const struct match *match, const struct tuned_row *row, struct variant *variant) {
    struct knobs knobs = match->request->knobs;
    *variant = match->usual.variant;
    if (!row)
        return true;
    put(match, row, &knobs);
    return choose_complete(match->session->templates, knobs, target_any, variant);
}

static bool is_here(const struct match *match, const struct tuned_row *row) {
    for (int i = 0; i < SHAPE_COUNT; i++)
        if (shape_table[i].families >> row->problem.family & 1 &&
            shape_get(&row->shape, (enum shape_id)i) != shape_get(&match->shape, (enum shape_id)i))
            return false;
    return true;
}

/* Rows count if they are for the requested target and have the same algorithm as the defaults. A row of another
   algorithm, which may have been the only one in its contest, counts only at its own shape, or if there are no other
   rows, and only if it can run. */
static bool accepts(const struct tuned_row *row, const void *context) {
    const struct match *match = context;
    struct variant variant;
    if (!choose_agrees(match->request->knobs.target, row->schedule.target))
        return false;
    if (match->usual.variant.feasible && row->schedule.algorithm == match->usual.variant.knobs.algorithm)
        return true;
    return (match->others || is_here(match, row)) && complete(match, row, &variant) &&
           choose_is_usable(match->session, match->request, &match->tables, &variant);
}

static bool find_rows_of(struct match *match, const struct knobs *lender) {
    match->lender = *lender;
    match->tables = choose_tables(match->session, lender);
    for (int i = 0; i < match->tables.count; i++)
        for (int pass = 0; pass < 2; pass++) {
            match->table = match->tables.table[i];
            match->others = pass > 0;
            match->near = tuned_nearest(match->table, lender, &match->shape, (struct tuned_filter){accepts, match});
            if (match->near)
                return true;
        }
    return false;
}

static bool find_rows(struct match *match) {
    struct knobs problem = tuned_problem(&match->request->knobs), lender;
    match->tables = choose_tables(match->session, &problem);
    if (!choose_default(match->session, match->request, &match->tables, &match->usual))
        match->usual.variant.feasible = false;
    if (find_rows_of(match, &problem))
        return true;
    if (!tables_lender(&match->session->tables, match->session->info.device_name, &problem, &lender))
        return false;
    match->borrowed = true;
    match->larger = lender.head_dim != problem.head_dim || lender.head_dim_v != problem.head_dim_v;
    return find_rows_of(match, &lender);
}

const struct tuned_row *choose_measured_rows(struct att_session *session, const struct request *request, int *count) {
    struct match match = {.session = session, .request = request, .shape = choose_shape(request)};
    *count = 0;
    if (!request->any_schedule || !find_rows(&match))
        return NULL;
    const struct tuned_row *row = match.table->row, *end = row + match.table->rows;
    while (memcmp(&row->problem, &match.lender, sizeof match.lender) != 0)
        row++;
    while (row + *count < end && memcmp(&row[*count].problem, &match.lender, sizeof match.lender) == 0)
        ++*count;
    return row;
}

static bool follow(const struct match *match, const struct tuned_row *row, struct choice *choice) {
    choice->by_rule = set_by(match, row);
    complete(match, row, &choice->variant);
    return choose_is_usable(match->session, match->request, &match->tables, &choice->variant);
}

/* --- predictions of the model ------------------------------------------------------------------------------------ */

/* Predicts the time at the given shape, or at that of the nearest row. 0 = not known. */
static double predict(const struct match *match, const struct variant *variant, bool here) {
    struct model_terms terms;
    const struct model_usage usage = {.mask = here ? &match->here : &match->there};
    return model_predict(&match->session->gpu, variant, here ? &match->shape : &match->near->shape, &usage, &terms)
               ? terms.seconds
               : 0;
}

/* The model predicts how the times of two schedules change from the nearest row's shape to this one. At the row's
   shape, the schedule that was measured to be slower is assumed to take at least as long as the other. */
static void add_rival(struct match *match, const struct tuned_row *row) {
    struct variant variant;
    if (!complete(match, row, &variant))
        return;
    double here = predict(match, &variant, true);
    struct rival rival = {row, here, here};
    if (match->larger) {
        rival.score *= row ? CLEARLY : 1;
    } else if (row != match->near) {
        double there = predict(match, &variant, false);
        rival.score *= there > 0 ? STANDS * fmax(there, match->nearest) / there : 0;
    } else {
        match->nearest = predict(match, &variant, false);
    }
    if (rival.score > 0 && match->rivals < RIVALS)
        match->rival[match->rivals++] = rival;
}

static bool is_repeated(const struct tuned *table, const struct tuned_row *row, const struct tuned_row *near) {
    if (row != near && memcmp(&near->schedule, &row->schedule, sizeof row->schedule) == 0)
        return true;
    for (const struct tuned_row *other = table->row; other < row; other++)
        if (memcmp(&other->schedule, &row->schedule, sizeof row->schedule) == 0 &&
            memcmp(&other->problem, &row->problem, sizeof row->problem) == 0)
            return row != near;
    return false;
}

/* Adds the nearest row first: among equals, the first wins. False if the model cannot predict. */
static bool find_rivals(struct match *match) {
    if (!match->session->modelled || !match->usual.variant.feasible ||
        match->near->schedule.algorithm != match->usual.variant.knobs.algorithm)
        return false;
    model_mask_make(&match->here, &match->usual.variant.knobs, &match->shape);
    model_mask_make(&match->there, &match->usual.variant.knobs, &match->near->shape);
    if (!match->larger)
        add_rival(match, match->near);
    add_rival(match, NULL);
    for (const struct tuned_row *row = match->table->row; row < match->table->row + match->table->rows; row++)
        if (memcmp(&row->problem, &match->lender, sizeof match->lender) == 0 && (match->larger || row != match->near) &&
            !is_repeated(match->table, row, match->near) &&
            row->schedule.algorithm == match->usual.variant.knobs.algorithm &&
            choose_agrees(match->request->knobs.target, row->schedule.target))
            add_rival(match, row);
    return match->rivals > 0;
}

/* Makes the best usable rival the choice. */
static const struct rival *find_best(struct match *match, struct choice *choice) {
    for (;;) {
        struct rival *best = NULL;
        for (struct rival *rival = match->rival; rival < match->rival + match->rivals; rival++)
            if (rival->score < (best ? best->score : INFINITY))
                best = rival;
        if (!best)
            return NULL;
        if (!best->row) {
            choice->variant = match->usual.variant;
            choice->by_rule = match->usual.by_rule;
            choice->fits = match->usual.fits;
            return best;
        }
        if (follow(match, best->row, choice))
            return best;
        best->score = INFINITY;
    }
}

/* --- as text ----------------------------------------------------------------------------------------------------- */

void choose_print_sizes(const struct shape *shape, int family, struct text *text) {
    for (int i = 0; i < SHAPE_COUNT; i++)
        if (shape_table[i].families >> family & 1)
            text_print(text, " %s=%" PRId64, shape_table[i].name, shape_get(shape, (enum shape_id)i));
}

static void print_shape(const struct tuned_row *row, struct text *text) {
    choose_print_sizes(&row->shape, row->problem.family, text);
}

static void describe_row(const struct match *match, struct text *text) {
    text_print(text, "%s:%d measured it best%s%s at", match->table->name, match->near->line,
               match->borrowed ? " for " : "", match->borrowed ? knob_word_name(KNOB_dtype, match->lender.dtype) : "");
    print_shape(match->near, text);
    if (match->near->margin > 0)
        text_print(text, ", %.3f times as fast as the next", match->near->margin);
    if (match->borrowed)
        text_print(text, "; there are no rows for this very problem");
}

/* What the model compares with, if it does not confirm the nearest row. */
static void describe_rival(const struct match *match, const struct rival *best, struct text *text) {
    double usual = predict(match, &match->usual.variant, true);
    text_print(text, "the model: %.1f us are predicted", best->seconds * 1e6);
    if (!best->row)
        text_print(text, " with the template's defaults");
    if (match->larger && !best->row)
        text_print(text, ", and not clearly less with a schedule that was");
    else if (match->larger)
        text_print(text, ", %.1f us with the template's defaults; it was", usual * 1e6);
    if (match->larger) {
        text_print(text, " measured best for head_dim=%d", match->lender.head_dim);
        if (match->lender.head_dim_v != match->lender.head_dim)
            text_print(text, " head_dim_v=%d", match->lender.head_dim_v);
        text_print(text, " (%s)", match->table->name);
        return;
    }
    text_print(text, ", %.1f us with what %s:%d measured best at", match->rival[0].seconds * 1e6, match->table->name,
               match->near->line);
    print_shape(match->near, text);
    if (best->row) {
        text_print(text, "; this is best (:%d) at", best->row->line);
        print_shape(best->row, text);
    }
}

/* Follows the lock file where it has a row: no model, no borrowing, no rule about few queries. */
static bool choose_locked(struct match *match, const struct tuned_row *row, struct choice *choice) {
    struct text rule = {0};
    const struct knobs problem = tuned_problem(&match->request->knobs);
    match->tables = choose_tables(match->session, &problem);
    match->table = match->session->tables.own;
    match->near = row;
    follow(match, row, choice);
    choice->pinned = true;
    text_print(&rule, "the lock file %s:%d pins it for", match->table->name, row->line);
    print_shape(row, &rule);
    snprintf(choice->rule, sizeof choice->rule, "%s", text_string(&rule));
    text_free(&rule);
    return true;
}

/* True if the caller measured this row, at exactly the given shape, which is not one that is only assumed. */
static bool is_own(const struct match *match, const struct tuned_row *row) {
    return row && choose_knows_sizes(&match->request->hints.shape) && match->table == match->session->tables.own &&
           !match->borrowed && is_here(match, row);
}

bool choose_measured(struct att_session *session, const struct request *request, struct choice *choice) {
    struct match match = {.session = session, .request = request, .shape = choose_shape(request)};
    if (!request->any_schedule)
        return false;
    const struct tuned_row *pinned = choose_pinned(session, request);
    if (pinned)
        return choose_agrees(request->knobs.target, pinned->schedule.target) && choose_locked(&match, pinned, choice);
    if (!find_rows(&match))
        return false;
    if (match.near->schedule.algorithm != algorithm_decode && !tuned_has_few_rows(&match.near->shape) &&
        match.usual.variant.feasible && (match.usual.variant.knobs.algorithm == algorithm_decode || match.usual.fits))
        return false; /* rows of many queries do not apply to few */
    struct text rule = {0};
    bool usable = !match.larger && follow(&match, match.near, choice);
    const struct rival *best = (usable || match.larger) && find_rivals(&match) ? find_best(&match, choice) : NULL;
    if (best && (match.larger || best->row != match.near))
        describe_rival(&match, best, &rule);
    else
        describe_row(&match, &rule);
    snprintf(choice->rule, sizeof choice->rule, "%s", text_string(&rule));
    text_free(&rule);
    choice->pinned = is_own(&match, best ? best->row : match.near);
    return best || !match.larger;
}
