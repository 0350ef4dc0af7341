/* template: the set of parsed templates, one a file of templates.def, and which of them makes which variant. A set never
   changes once it is open. */
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { loop_order_ANY = ANY_LOOP_ORDER };

const struct template_row template_rows[] = {
#define TEMPLATE(family, algorithm, loop_order, file)                                                                  \
    {family_##family, algorithm_##algorithm, loop_order_##loop_order, file},
#include "templates.def"
};
const int template_row_count = sizeof template_rows / sizeof *template_rows;

enum { ROWS = sizeof template_rows / sizeof *template_rows };

struct template_set {
    int count;
    struct template *template[ROWS];
};

static struct template *find_template(const struct template_set *set, const char *name) {
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->template[i] -> name, name) == 0)
            return set->template[i];
    return NULL;
}

static unsigned families_of(const char *file) {
    unsigned families = SHAPE_OF_DEVICE;
    for (int i = 0; i < template_row_count; i++)
        if (strcmp(template_rows[i].file, file) == 0)
            families |= 1u << template_rows[i].family;
    return families;
}

struct template_set *template_set_open(template_loader *load, void *context, struct diag *diag) {
    int errors = diag->errors;
    struct template_set *set = calloc(1, sizeof *set);
    /* Stop after a template with errors: the next one may share its parts, and would repeat them. */
    for (int i = 0; set && i < template_row_count && diag->errors == errors; i++) {
        const char *name = template_rows[i].file;
        if (find_template(set, name))
            continue;
        struct template *t = set->template[set->count] = calloc(1, sizeof *t);
        if (!t) {
            template_set_close(set);
            set = NULL;
            break;
        }
        set->count++;
        t->name = name;
        t->families = families_of(name);
        template_read(t, load ? load : template_embedded, context, diag);
    }
    if (!set)
        diag_error(diag, (struct place){0}, "out of memory");
    if (diag->errors == errors)
        return set;
    template_set_close(set);
    return NULL;
}

static void free_template(struct template *t) {
    for (int i = 0; i < t->files; i++) {
        for (int j = 0; j < t->file[i].ops; j++)
            for (int k = 0; k < TEMPLATE_EXPRS; k++)
                expr_free(t->file[i].op[j].expr[k]);
        free(t->file[i].op);
        free(t->file[i].name);
    }
    for (int id = 0; id < KNOB_COUNT; id++)
        expr_free(t->tune[id]);
    defaults_free(t->defaults);
    free(t);
}

bool template_tune_value(const struct expr *list, int i, enum knob_id knob, int *value) {
    const struct knob_info *info = &knob_table[knob];
    struct expr_type type = expr_type(list);
    struct knobs none = knobs_default();
    struct expr_env env = {.knobs = &none};
    struct expr_fault fault;
    int64_t number;
    if ((info->words ? EXPR_WORD : EXPR_INT) != type.kind || expr_knobs(list) ||
        !expr_eval_item(list, i, &env, &number, &fault))
        return false;
    if (info->words) /* the words of a list are numbered within it */
        number = knob_word(knob, type.words[number], strlen(type.words[number]));
    *value = (int)number;
    return info->words ? number >= 0 : number >= info->least && number <= info->most;
}

void template_set_close(struct template_set *set) {
    for (int i = 0; set && i < set->count; i++)
        free_template(set->template[i]);
    free(set);
}

const struct template *template_find(const struct template_set *set, const struct knobs *knobs,
                                     const struct template_row **found, char *reason, size_t size) {
    const char *family = knob_word_name(KNOB_family, knobs->family);
    int algorithm = knobs->algorithm;
    if (knobs->family == AUTO) {
        snprintf(reason, size, "the family is not given");
        return NULL;
    }
    for (int i = 0; i < template_row_count; i++) {
        const struct template_row *row = &template_rows[i];
        if (row->family != knobs->family)
            continue;
        if (algorithm == AUTO)
            algorithm = row->algorithm;
        if (row->algorithm != algorithm ||
            (row->loop_order != ANY_LOOP_ORDER && knobs->loop_order != AUTO && row->loop_order != knobs->loop_order))
            continue;
        const struct template *t = find_template(set, row->file);
        *found = row;
        if (t && !t->missing)
            return t;
        snprintf(reason, size, "there is no template %s", row->file);
        return NULL;
    }
    snprintf(reason, size, "family %s has no algorithm %s with loop_order %s", family,
             knob_word_name(KNOB_algorithm, algorithm), knob_word_name(KNOB_loop_order, knobs->loop_order));
    return NULL;
}

/* The end of the comment or quote that begins at `at`, or `at` when none does. */
static const char *skip_quoted(const char *at, const char *end) {
    if (end - at >= 2 && at[0] == '/' && at[1] == '/') {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        return newline ? newline : end;
    }
    if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
        const char *close = memmem(at + 2, (size_t)(end - at) - 2, "*/", 2);
        return close ? close + 2 : end;
    }
    if (*at != '"')
        return at;
    const char *start = at++;
    while (at < end && *at != '"' && *at != '\n')
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    return at < end && *at == '"' ? at + 1 : start + 1;
}

void template_words(const char *text, size_t size, word_found *found, void *context) {
    const char *at = text, *end = text + size;
    while (at < end) {
        if (text_is_name(*at)) {
            bool capitals = true;
            const char *start = at;
            for (; at < end && text_is_name(*at); at++)
                capitals &= !(*at >= 'a' && *at <= 'z');
            if (!text_is_digit(*start))
                found(context, start, (size_t)(at - start), capitals);
        } else {
            const char *after = *at == '/' || *at == '"' ? skip_quoted(at, end) : at;
            at = after > at ? after : at + 1;
        }
    }
}

int template_constant(const char *name, size_t size) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        const char *knob = knob_table[id].name;
        size_t i = 0;
        while (i < size && knob[i] &&
               name[i] == (knob[i] == '_' || text_is_digit(knob[i]) ? knob[i] : knob[i] - 'a' + 'A'))
            i++;
        if (i == size && !knob[i] && knob_table[id].kind == KNOB_KIND_INT)
            return id;
    }
    return -1;
}
