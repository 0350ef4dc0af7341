/* template: the set of templates, one per file of templates.def, and which of them makes which variant. The built-in
   templates are correct (tests/test_template.c), so each is read on first use. A caller's templates are all read at
   once, which shows their errors. */
#include "template.h"

#include <stdatomic.h>
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
    const char *file[ROWS];
    _Atomic(struct template *) template[ROWS]; /* null = not read yet */
};

static unsigned families_of(const char *file) {
    unsigned families = SHAPE_OF_DEVICE;
    for (int i = 0; i < template_row_count; i++)
        if (strcmp(template_rows[i].file, file) == 0)
            families |= 1u << template_rows[i].family;
    return families;
}

static void free_template(struct template *t) {
    for (int i = 0; t && i < t->files; i++) {
        for (int j = 0; j < t->file[i].ops; j++)
            for (int k = 0; k < TEMPLATE_EXPRS; k++)
                expr_free(t->file[i].op[j].expr[k]);
        free(t->file[i].op);
        free(t->file[i].name);
    }
    for (int id = 0; t && id < KNOB_COUNT; id++)
        expr_free(t->tune[id]);
    if (t)
        defaults_free(t->defaults);
    free(t);
}

static struct template *read_template(const char *name, template_loader *load, void *context, struct diag *diag) {
    int errors = diag->errors;
    struct template *t = calloc(1, sizeof *t);
    if (!t) {
        diag_error(diag, (struct place){0}, "out of memory");
        return NULL;
    }
    t->name = name;
    t->families = families_of(name);
    template_read(t, load, context, diag);
    if (diag->errors == errors)
        return t;
    free_template(t);
    return NULL;
}

static int place_of(const struct template_set *set, const char *file) {
    int i = 0;
    while (i < set->count && strcmp(set->file[i], file) != 0)
        i++;
    return i;
}

struct template_set *template_set_open(template_loader *load, void *context, struct diag *diag) {
    struct template_set *set = calloc(1, sizeof *set);
    if (!set)
        diag_error(diag, (struct place){0}, "out of memory");
    for (int i = 0; set && i < template_row_count; i++) {
        const char *file = template_rows[i].file;
        if (place_of(set, file) < set->count)
            continue;
        set->file[set->count] = file;
        /* Stop after a template with errors: the next one may share its parts, and would repeat them. */
        struct template *read = load ? read_template(file, load, context, diag) : NULL;
        if (load && !read) {
            template_set_close(set);
            return NULL;
        }
        atomic_init(&set->template[set->count++], read);
    }
    return set;
}

void template_set_close(struct template_set *set) {
    for (int i = 0; set && i < set->count; i++)
        free_template(set->template[i]);
    free(set);
}

/* Threads that need the same template at the same time may all read it; the first result is kept. */
static const struct template *get_template(struct template_set *set, const char *file, char *reason, size_t size) {
    _Atomic(struct template *) *kept = &set->template[place_of(set, file)];
    struct template *known = atomic_load_explicit(kept, memory_order_acquire);
    if (known)
        return known;
    struct diag diag = {0};
    struct template *t = read_template(file, template_embedded, NULL, &diag);
    if (t && !atomic_compare_exchange_strong(kept, &known, t)) {
        free_template(t);
        t = known;
    }
    if (!t)
        snprintf(reason, size, "the template %s, which is built in, cannot be read: %s", file,
                 diag.text.failed ? "out of memory" : text_string(&diag.text));
    diag_free(&diag);
    return t;
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
        if (algorithm == AUTO && row->family == family_attention_forward && knobs->append > 0)
            algorithm = algorithm_decode; /* the only one that writes new tokens to the cache */
        if (algorithm == AUTO && row->family == family_attention_forward &&
            (knobs->layout > layout_dense || knobs_quantised(knobs)))
            algorithm = algorithm_flash; /* takes sequences of any layout and element type */
        if (algorithm == AUTO)
            algorithm = row->algorithm;
        if (row->algorithm != algorithm ||
            (row->loop_order != ANY_LOOP_ORDER && knobs->loop_order != AUTO && row->loop_order != knobs->loop_order))
            continue;
        const struct template *t = get_template((struct template_set *)(uintptr_t)set, row->file, reason, size);
        *found = row;
        if (!t || !t->missing)
            return t;
        snprintf(reason, size, "there is no template %s", row->file);
        return NULL;
    }
    snprintf(reason, size, "family %s has no algorithm %s with loop_order %s", family,
             knob_word_name(KNOB_algorithm, algorithm), knob_word_name(KNOB_loop_order, knobs->loop_order));
    return NULL;
}
