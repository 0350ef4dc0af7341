/* tuned: makes, queries and writes tables of measured best schedules; tuned_read.c reads them. */
#include "tuned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- making ---------------------------------------------------------------------------------------------------- */

struct tuned *tuned_new(const char *name, const char *device, const char *measured) {
    struct tuned *tuned = calloc(1, sizeof *tuned);
    if (!tuned)
        return NULL;
    tuned->name = strdup(name);
    tuned->device = strdup(device);
    tuned->measured = strdup(measured);
    if (tuned->name && tuned->device && tuned->measured)
        return tuned;
    tuned_free(tuned);
    return NULL;
}

void tuned_free(struct tuned *tuned) {
    if (!tuned)
        return;
    for (int i = 0; i < tuned->denials; i++) {
        free(tuned->denial[i].version);
        free(tuned->denial[i].because);
    }
    free(tuned->denial);
    free(tuned->row);
    free(tuned->name);
    free(tuned->device);
    free(tuned->measured);
    free(tuned->lock);
    free(tuned);
}

bool tuned_lock(struct tuned *tuned) {
    char *version = strdup(GEN_VERSION);
    if (version) {
        free(tuned->lock);
        tuned->lock = version;
    }
    return version;
}

static bool same_knobs(const struct knobs *a, const struct knobs *b) { return memcmp(a, b, sizeof *a) == 0; }

static bool same_shape(int family, const struct shape *a, const struct shape *b) {
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families >> family & 1 &&
            shape_get(a, (enum shape_id)id) != shape_get(b, (enum shape_id)id))
            return false;
    return true;
}

bool tuned_put(struct tuned *tuned, const struct tuned_row *row) {
    int place = tuned->rows; /* after the last row of the same problem */
    for (int i = 0; i < tuned->rows; i++) {
        if (!same_knobs(&tuned->row[i].problem, &row->problem))
            continue;
        place = i + 1;
        if (same_shape(row->problem.family, &tuned->row[i].shape, &row->shape) &&
            tuned->row[i].schedule.target == row->schedule.target) {
            tuned->row[i] = *row;
            return true;
        }
    }
    struct tuned_row *rows = realloc(tuned->row, ((size_t)tuned->rows + 1) * sizeof *rows);
    if (!rows)
        return false;
    memmove(rows + place + 1, rows + place, (size_t)(tuned->rows - place) * sizeof *rows);
    rows[place] = *row;
    tuned->row = rows;
    tuned->rows++;
    return true;
}

void tuned_file_name(const char *device, struct text *text) {
    for (const char *at = device; *at; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9');
        char lower = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : plain ? *at : '_');
        text_append(text, &lower, 1);
    }
    text_print(text, ".yaml");
}

bool tuned_deny(struct tuned *tuned, const struct knobs *knobs, const char *version, const char *because) {
    for (int i = 0; i < tuned->denials; i++) {
        const struct tuned_denial *old = &tuned->denial[i];
        if (same_knobs(&old->knobs, knobs) && !old->version == !version &&
            (!version || strcmp(old->version, version) == 0))
            return true;
    }
    struct tuned_denial *more = realloc(tuned->denial, ((size_t)tuned->denials + 1) * sizeof *more);
    if (!more)
        return false;
    tuned->denial = more;
    struct tuned_denial made = {
        .knobs = *knobs, .version = version ? strdup(version) : NULL, .because = strdup(because)};
    if (!made.because || (version && !made.version)) {
        free(made.version);
        free(made.because);
        return false;
    }
    more[tuned->denials++] = made;
    return true;
}

/* --- asking ---------------------------------------------------------------------------------------------------- */

struct knobs tuned_problem(const struct knobs *knobs) {
    struct knobs problem = *knobs;
    for (int i = 0; i < KNOB_COUNT; i++) {
        enum knob_id id = (enum knob_id)i;
        if (knob_table[id].group != KNOB_GROUP_PROBLEM && id != KNOB_family)
            knob_set(&problem, id, AUTO);
        else
            knob_set(&problem, id, knob_meant(knobs, id));
    }
    for (int i = 0; i < FIXED_SIZES; i++) /* a pinned size is a size: it belongs to the shape */
        knob_set(&problem, fixed_sizes[i].knob, 0);
    return problem;
}

struct shape tuned_shape(const struct shape *shape) {
    struct shape result = *shape;
    if (result.kv_heads == 0)
        result.kv_heads = result.heads;
    return result;
}

bool tuned_is_for(const struct tuned *tuned, const char *device) {
    return strcmp(tuned->device, device) == 0 || strcmp(tuned->device, "any") == 0;
}

static double doublings(double a, double b) { return fabs(log2(fmax(a, 1)) - log2(fmax(b, 1))); }

int64_t tuned_few_rows(const struct shape *shape) {
    int64_t group = shape->heads > 0 && shape->kv_heads > 0 ? shape->heads / shape->kv_heads : 1;
    if (shape->len_q <= 0)
        return 0;
    bool few = shape->len_q <= TUNED_FEW_ROWS && group <= TUNED_FEW_ROWS && shape->len_q * group <= TUNED_FEW_ROWS;
    return few ? shape->len_q * group : TUNED_FEW_ROWS + 1;
}

bool tuned_has_few_rows(const struct shape *shape) {
    int64_t rows = tuned_few_rows(shape);
    return rows > 0 && rows <= TUNED_FEW_ROWS;
}

static double kv_heads_of(const struct shape *shape) {
    return (double)shape->batch * (double)(shape->kv_heads > 0 ? shape->kv_heads : shape->heads);
}

double tuned_distance(int family, const struct shape *a, const struct shape *b) {
    static const double farthest = 1000; /* doublings between shapes that say nothing about each other */
    bool few = family_is_attention(family) && tuned_has_few_rows(a);
    if (family_is_attention(family) && few != tuned_has_few_rows(b))
        return farthest + doublings((double)a->len_kv, (double)b->len_kv);
    if (few)
        return doublings((double)tuned_few_rows(a), (double)tuned_few_rows(b)) +
               doublings((double)a->len_kv, (double)b->len_kv) + doublings(kv_heads_of(a), kv_heads_of(b));
    if (family_is_attention(family))
        return doublings((double)a->len_q, (double)b->len_q) + doublings((double)a->len_kv, (double)b->len_kv) +
               doublings((double)a->batch * (double)a->heads, (double)b->batch * (double)b->heads);
    double sum = 0;
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families >> family & 1)
            sum += doublings((double)shape_get(a, (enum shape_id)id), (double)shape_get(b, (enum shape_id)id));
    return sum;
}

/* True if `a` was measured to be faster; a missing time counts as the slowest. */
static bool is_faster(const struct tuned_row *a, const struct tuned_row *b) {
    return a->microseconds > 0 && (b->microseconds <= 0 || a->microseconds < b->microseconds);
}

const struct tuned_row *tuned_nearest(const struct tuned *tuned, const struct knobs *problem, const struct shape *shape,
                                      struct tuned_filter filter) {
    const struct tuned_row *nearest = NULL;
    double least = INFINITY;
    for (int i = 0; i < tuned->rows; i++) {
        const struct tuned_row *row = &tuned->row[i];
        if (!same_knobs(&row->problem, problem))
            continue;
        double here = tuned_distance(problem->family, &row->shape, shape);
        bool nearer =
            !nearest || here < least ||
            (here == least && same_shape(problem->family, &row->shape, &nearest->shape) && is_faster(row, nearest));
        if (nearer && (!filter.accepts || filter.accepts(row, filter.context))) {
            least = here;
            nearest = row;
        }
    }
    return nearest;
}

static bool covers(const struct tuned_denial *denial, const struct variant *variant, const char *version) {
    if (denial->version && strcmp(denial->version, version) != 0)
        return false;
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = knob_get(&denial->knobs, (enum knob_id)id);
        const char *formula = knob_formula(&denial->knobs, (enum knob_id)id);
        if (value != AUTO && value != knob_get(&variant->knobs, (enum knob_id)id))
            return false;
        if (formula && strcmp(formula, knob_formula(&variant->knobs, (enum knob_id)id)) != 0)
            return false;
    }
    return true;
}

const struct tuned_denial *tuned_denies(const struct tuned *tuned, const struct variant *variant, const char *version) {
    for (int i = 0; i < tuned->denials; i++)
        if (covers(&tuned->denial[i], variant, version))
            return &tuned->denial[i];
    return NULL;
}

/* --- writing --------------------------------------------------------------------------------------------------- */

/* False for values that need not be written: a default, and a value that follows from another knob. */
static bool is_said(const struct knobs *knobs, enum knob_id id) {
    int value = knob_get(knobs, id);
    if ((id == KNOB_dtype_out || id == KNOB_dtype_kv) && value == knobs->dtype)
        return false;
    if (id == KNOB_head_dim_v && value == knobs->head_dim)
        return false;
    bool plain = knob_table[id].group == KNOB_GROUP_PROBLEM && id != KNOB_dtype && id != KNOB_head_dim;
    return value != AUTO && !(plain && value == knob_table[id].fallback);
}

static void write_knobs(const struct knobs *knobs, bool all, struct text *text) {
    const char *separator = "{";
    for (int i = 0; i < KNOB_COUNT; i++) {
        enum knob_id id = (enum knob_id)i;
        int value = knob_get(knobs, id);
        if (value == AUTO || (!all && !is_said(knobs, id)))
            continue;
        text_print(text, "%s%s: ", separator, knob_table[id].name);
        knob_print(knobs, id, text); /* expressions contain nothing that YAML's quotes would change */
        separator = ", ";
    }
    if (*knobs->formulas.params)
        text_print(text, "%sparams: \"%s\"", separator, knobs->formulas.params);
    text_print(text, "%s}", *separator == '{' ? "{" : "");
}

static void write_shape(const struct shape *shape, int family, struct text *text) {
    const char *separator = "{";
    for (int i = 0; i < SHAPE_COUNT; i++) {
        enum shape_id id = (enum shape_id)i;
        if (!(shape_table[id].families >> family & 1))
            continue;
        text_print(text, "%s%s: %lld", separator, shape_table[id].name, (long long)shape_get(shape, id));
        separator = ", ";
    }
    text_print(text, "}");
}

/* Formatted by hand, because printf writes the locale's decimal point. */
static void write_decimal(const char *key, double value, struct text *text) {
    if (!(value > 0 && value < 1e15))
        return;
    long long thousandths = (long long)(value * 1000 + 0.5);
    text_print(text, "        %s: %lld.%03lld\n", key, thousandths / 1000, thousandths % 1000);
}

/* Writes a double-quoted scalar, so that any sentence is read back unchanged. */
static void write_string(const char *string, struct text *text) {
    text_append(text, "\"", 1);
    for (const char *at = string; *at; at++) {
        if (*at == '"' || *at == '\\')
            text_append(text, "\\", 1);
        text_append(text, *at == '\n' || *at == '\t' ? " " : at, 1);
    }
    text_append(text, "\"\n", 2);
}

/* Omits knobs at their own default, because rows are read at every start of a program. */
static void write_schedule(const struct knobs *schedule, struct text *text) {
    struct knobs knobs = *schedule;
    for (int i = 0; i < KNOB_COUNT; i++)
        if (knob_table[i].group == KNOB_GROUP_SCHEDULE && knob_get(&knobs, (enum knob_id)i) == knob_table[i].fallback)
            knob_set(&knobs, (enum knob_id)i, AUTO);
    write_knobs(&knobs, true, text);
}

/* A lock file omits nothing: a default may change some day. */
static void write_row(const struct tuned_row *row, bool locked, struct text *text) {
    text_print(text, "      - shape: ");
    write_shape(&row->shape, row->problem.family, text);
    text_print(text, "\n        schedule: ");
    if (locked)
        write_knobs(&row->schedule, true, text);
    else
        write_schedule(&row->schedule, text);
    text_print(text, "\n");
    write_decimal("microseconds", row->microseconds, text);
    write_decimal("margin", row->margin, text);
}

static void write_denial(const struct tuned_denial *denial, struct text *text) {
    text_print(text, "  - variant: ");
    write_knobs(&denial->knobs, true, text);
    if (denial->version) {
        text_print(text, "\n    version: ");
        write_string(denial->version, text);
    } else {
        text_print(text, "\n");
    }
    text_print(text, "    because: ");
    write_string(denial->because, text);
}

void tuned_write(const struct tuned *tuned, struct text *text) {
    text_print(text, "# %s: docs/tuned.md.\ndevice: ",
               tuned->lock ? "Schedules that att_find takes as they are"
                           : "Measured best schedules, for att_find to choose by");
    write_string(tuned->device, text);
    if (tuned->lock) {
        text_print(text, "lock: ");
        write_string(tuned->lock, text);
    }
    if (*tuned->measured) {
        text_print(text, "measured: ");
        write_string(tuned->measured, text);
    }
    text_print(text, tuned->rows ? "best:\n" : "best: []\n");
    for (int i = 0; i < tuned->rows; i++) {
        const struct tuned_row *row = &tuned->row[i];
        if (i == 0 || !same_knobs(&row[-1].problem, &row->problem)) {
            text_print(text, "  - problem: ");
            write_knobs(&row->problem, false, text);
            text_print(text, "\n    shapes:\n");
        }
        write_row(row, tuned->lock, text);
    }
    text_print(text, tuned->denials ? "deny:\n" : "");
    for (int i = 0; i < tuned->denials; i++)
        write_denial(&tuned->denial[i], text);
}

/* --- a part of a table ----------------------------------------------------------------------------------------- */

static bool starts(const char *line, size_t size, const char *start) {
    return size >= strlen(start) && memcmp(line, start, strlen(start)) == 0;
}

/* True if this entry is in the table. Its first line is as tuned_write writes it. */
static bool has_line(const char *table, size_t size, const struct text *line) {
    return memmem(table, size, text_string(line), line->size) != NULL;
}

void tuned_excerpt(const char *table, size_t size, const struct knobs *problem, struct text *excerpt) {
    struct text wanted = {0};
    text_print(&wanted, "  - problem: ");
    write_knobs(problem, false, &wanted);
    text_print(&wanted, "\n");
    bool found = has_line(table, size, &wanted), keep = true;
    for (const char *line = table, *next; line < table + size; line = next) {
        const char *end = memchr(line, '\n', (size_t)(table + size - line));
        next = end ? end + 1 : table + size;
        size_t length = (size_t)(next - line);
        if (starts(line, length, "best:"))
            keep = found;
        else if (starts(line, length, "  - problem:"))
            keep = length == wanted.size && memcmp(line, text_string(&wanted), length) == 0;
        else if (*line != ' ' && *line != '\n')
            keep = true; /* another key of the table */
        text_append(excerpt, keep ? line : "\n", keep ? length : 1);
    }
    excerpt->failed |= wanted.failed;
    text_free(&wanted);
}

/* --- borrowing ------------------------------------------------------------------------------------------------- */

static bool can_lend(const struct knobs *lender, const struct knobs *problem) {
    struct knobs like = *lender;
    if ((lender->dtype == dtype_fp32) != (problem->dtype == dtype_fp32) || lender->head_dim < problem->head_dim ||
        lender->head_dim_v < problem->head_dim_v)
        return false;
    like.dtype = problem->dtype;
    like.dtype_out = problem->dtype_out;
    if (lender->dtype_kv == lender->dtype)
        like.dtype_kv = problem->dtype;
    like.head_dim = problem->head_dim;
    like.head_dim_v = problem->head_dim_v;
    return same_knobs(&like, problem);
}

bool tuned_offer(const struct knobs *problem, const struct knobs *offered, struct knobs *lender) {
    bool first = lender->family == AUTO;
    if (!can_lend(offered, problem) ||
        (!first && offered->head_dim + offered->head_dim_v >= lender->head_dim + lender->head_dim_v))
        return false;
    *lender = *offered;
    return true;
}

void tuned_offer_all(const struct knobs *problem, const char *table, size_t size, struct knobs *lender) {
    static const char start[] = "\n  - problem: {";
    const char *end = table + size;
    for (const char *at = table; (at = memmem(at, (size_t)(end - at), start, sizeof start - 1));) {
        at += sizeof start - 1;
        const char *stop = memmem(at, (size_t)(end - at), "}\n", 2);
        struct input line = {"", at, stop ? (size_t)(stop - at) : 0};
        struct knobs offered = knobs_default();
        struct diag diag = {0};
        if (knobs_parse(&line, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &offered, &diag)) {
            offered = tuned_problem(&offered);
            tuned_offer(problem, &offered, lender);
        }
        diag_free(&diag);
    }
}
