#include "formulas.h"
#include "formula_tree.h"
#include "knob_text.h"

#include <stdio.h>
#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool is_wordlike(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool formulas_reserved(const char *name, struct place place, struct diag *diag) {
    if (strcmp(name, "sinks") != 0)
        return false;
    diag_error(diag, place, "'sinks' is the tensor of knob sinks: choose another name");
    return true;
}

/* --- declarations ------------------------------------------------------------------------------------------------ */

/* Iterates over "NAME: TYPE, NAME: TYPE". */
struct declarations {
    struct formula_text left;
};

static void skip(struct declarations *at, size_t count) {
    for (; count; count--, at->left.text++, at->left.size--) {
        bool newline = *at->left.text == '\n';
        at->left.place.line += newline;
        at->left.place.col = newline ? 1 : at->left.place.col + 1;
    }
}

static void skip_spaces(struct declarations *at) {
    while (at->left.size && is_space(*at->left.text))
        skip(at, 1);
}

/* Copies `size` bytes without trailing blanks into a buffer; false if they do not fit. */
static bool copy_trimmed(char *to, size_t room, const char *from, size_t size) {
    while (size && is_space(from[size - 1]))
        size--;
    if (size >= room)
        return false;
    memcpy(to, from, size);
    to[size] = '\0';
    return true;
}

static bool declare_one(struct formula_scope *scope, struct declarations *at, struct diag *diag) {
    char name[FORMULA_PARAM_NAME], type[FORMULAS_TEXT];
    size_t size = 0;
    int depth = 0;
    struct place name_place = at->left.place;
    while (size < at->left.size && is_wordlike(at->left.text[size]))
        size++;
    bool named = size && copy_trimmed(name, sizeof name, at->left.text, size);
    skip(at, size);
    skip_spaces(at);
    if (!named || !at->left.size || *at->left.text != ':') {
        diag_error(diag, name_place, "expected NAME: TYPE, as in window: int; a name has less than %d letters",
                   FORMULA_PARAM_NAME);
        return false;
    }
    skip(at, 1);
    skip_spaces(at);
    struct place type_place = at->left.place;
    for (size = 0; size < at->left.size && (depth > 0 || at->left.text[size] != ','); size++) {
        char c = at->left.text[size];
        depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    }
    if (!copy_trimmed(type, sizeof type, at->left.text, size)) {
        diag_error(diag, type_place, "a type has less than %d letters", FORMULAS_TEXT);
        return false;
    }
    skip(at, size);
    if (at->left.size)
        skip(at, 1); /* the comma */
    skip_spaces(at);
    return !formulas_reserved(name, name_place, diag) &&
           formula_declare(scope, name_place, name, type_place, type, diag);
}

bool formulas_declare(struct formula_scope *scope, struct formula_text params, struct diag *diag) {
    struct declarations at = {params};
    bool good = true;
    skip_spaces(&at);
    while (good && at.left.size)
        good = declare_one(scope, &at, diag);
    return good;
}

unsigned formulas_params(const struct formula_scope *scope, const struct formula *formula) {
    unsigned params = formula ? formula_params(formula) : 0;
    for (int i = scope->count - 1; i >= 0; i--) /* a shape refers to parameters before its own */
        for (int d = 0; params >> i & 1 && d < scope->param[i].dims; d++)
            params |= formula_params(scope->param[i].dim[d]);
    return params;
}

/* --- texts of a user -> knobs ------------------------------------------------------------------------------------ */

static int last_word(enum knob_id id) {
    int last = 0;
    while (knob_table[id].words[last + 1])
        last++;
    return last;
}

int formulas_canonical(enum knob_id id, const struct formula *formula, struct text *text) {
    const char *name = formula_is_none(formula) ? knob_table[id].words[0] : formula_word(formula);
    int word = name ? knob_word(id, name, strlen(name)) : -1;
    if (word >= 0)
        return word;
    formula_print(formula, text);
    return last_word(id);
}

/* Stores a text in knobs; an error at `place` if it is too long. */
static bool keep(char to[FORMULAS_TEXT], const struct text *text, const char *what, struct place place,
                 struct diag *diag) {
    if (text->failed || text->size >= FORMULAS_TEXT) {
        diag_error(diag, place,
                   text->failed ? "out of memory"
                                : "the %s has %zu letters in its shortest form, expected less than %d",
                   what, text->size, FORMULAS_TEXT);
        return false;
    }
    memset(to, 0, FORMULAS_TEXT); /* all of it, so that equal knobs have equal bytes */
    memcpy(to, text_string(text), text->size);
    return true;
}

/* Returns the text of one knob: given now, kept from before, or none. */
static struct formula_text text_of(const struct knobs *knobs, enum knob_id id, struct formula_text given) {
    const char *kept = knob_formula(knobs, id);
    if (knob_get(knobs, id) != last_word(id))
        return (struct formula_text){0};
    return given.text || !kept ? given : (struct formula_text){.text = kept, .size = strlen(kept)};
}

/* Reads one formula into knobs and adds the parameters that it needs to *params. */
static bool read_one(enum knob_id id, struct formula_text given, const struct formula_scope *scope, struct knobs *knobs,
                     unsigned *params, struct diag *diag) {
    char *kept = id == KNOB_mask ? knobs->formulas.mask : knobs->formulas.score;
    struct formula_text source = text_of(knobs, id, given);
    struct text text = {0};
    bool good = true;
    if (source.text) {
        struct formula *formula = formula_parse(id == KNOB_mask ? FORMULA_MASK : FORMULA_SCORE, source.place,
                                                source.text, source.size, scope, diag);
        good = formula != NULL;
        if (good) {
            knob_set(knobs, id, formulas_canonical(id, formula, &text));
            *params |= formulas_params(scope, formula);
        }
        formula_free(formula);
    }
    good = good && keep(kept, &text, knob_table[id].name, source.place, diag);
    text_free(&text);
    return good;
}

/* Reads the requested gradients into knobs, which already have their score. */
static bool read_wants(struct formula_text given, const struct formula_scope *scope, struct knobs *knobs,
                       struct diag *diag) {
    struct formula_text source = text_of(knobs, KNOB_wants, given);
    struct wants wants;
    struct text text = {0};
    bool good = true;
    if (source.text) {
        const char *kept = knob_formula(knobs, KNOB_score);
        struct formula_text score_text = {.text = kept, .size = kept ? strlen(kept) : 0};
        struct formula *score =
            kept ? formula_parse(FORMULA_SCORE, (struct place){0}, kept, score_text.size, scope, diag) : NULL;
        good = (score || !kept) && wants_read(&wants, source, scope, diag) &&
               wants_check(&wants, score, scope, source.place, diag);
        if (good)
            wants_print(&wants, scope, &text);
        formula_free(score);
        knobs->wants = text.size ? wants_custom_wants : wants_inputs;
    }
    good = good && keep(knobs->formulas.wants, &text, "wants", source.place, diag);
    text_free(&text);
    return good;
}

bool formulas_read(const struct formula_texts *texts, struct knobs *knobs, struct diag *diag) {
    if (!texts->mask.text && !texts->score.text && !texts->wants.text && !texts->params.text)
        return true;
    struct formula_scope scope = {0};
    struct knobs result = *knobs;
    struct text text = {0};
    unsigned used = 0;
    struct formula_text params = texts->params;
    if (!params.text)
        params = (struct formula_text){.text = knobs->formulas.params, .size = strlen(knobs->formulas.params)};
    bool good = formulas_declare(&scope, params, diag) &&
                read_one(KNOB_mask, texts->mask, &scope, &result, &used, diag) &&
                read_one(KNOB_score, texts->score, &scope, &result, &used, diag) &&
                read_wants(texts->wants, &scope, &result, diag);
    for (int i = 0; good && texts->params.text && i < scope.count; i++)
        if (!(used >> i & 1)) {
            diag_error(diag, params.place,
                       "parameter '%s' is declared, and neither mask nor score depends on it; leave it out",
                       scope.param[i].name);
            good = false;
        }
    if (good) {
        formula_print_params(&scope, used, &text);
        good = keep(result.formulas.params, &text, "params", params.place, diag);
    }
    text_free(&text);
    formula_scope_free(&scope);
    if (good)
        *knobs = result;
    return good;
}

/* --- knobs -> trees ---------------------------------------------------------------------------------------------- */

static struct formula *parse_kept(enum formula_kind kind, const char *text, const struct formula_scope *scope,
                                  struct diag *diag) {
    return formula_parse(kind, (struct place){0}, text, strlen(text), scope, diag);
}

/* Returns the tensors whose last index depends on the query or the key. */
static unsigned find_tabled(const struct formula *mask) {
    unsigned tabled = 0;
    for (int i = 0; i < mask->count; i++) {
        const struct tree_node *n = &mask->node[i];
        if (n->op == OP_AT && tree_names_of(mask, n->operand[n->operands - 1]) & (1u << FORMULA_Q | 1u << FORMULA_K))
            tabled |= 1u << n->number;
    }
    return tabled;
}

/* False, with the reason, if a requested gradient does not exist. */
static bool find_wants(struct formula_set *set, const struct knobs *knobs, struct diag *diag) {
    const char *text = knobs->formulas.wants;
    const struct formula_text names = {.text = text, .size = strlen(text)};
    set->wants = (struct wants){true, true, true, knobs->sinks > 0, 0};
    if (!*text)
        return true;
    if (!wants_read(&set->wants, names, &set->scope, diag) ||
        !wants_check(&set->wants, set->score, &set->scope, (struct place){0}, diag) ||
        (set->wants.params && !formula_reads_find(set->score, set->wants.params, &set->reads))) {
        snprintf(set->reason, sizeof set->reason, "wants a gradient that the score has not: %s", text);
        return false;
    }
    if (set->wants.sinks && knobs->sinks <= 0) {
        snprintf(set->reason, sizeof set->reason, "wants d_sinks, and the problem has no sinks (knob sinks)");
        return false;
    }
    return true;
}

bool formula_set_open(struct formula_set *set, const struct knobs *knobs) {
    const struct formulas *texts = &knobs->formulas;
    struct diag diag = {0};
    *set = (struct formula_set){0};
    struct formula_text params = {.text = texts->params, .size = strlen(texts->params)};
    bool good = formulas_declare(&set->scope, params, &diag);
    snprintf(set->reason, sizeof set->reason, "mask and score cannot be read, or memory ran out");
    if (good && knobs->sinks > 0 && set->scope.count == FORMULA_PARAMS) {
        snprintf(set->reason, sizeof set->reason, "mask and score take %d parameters, and with sinks there may be %d",
                 set->scope.count, FORMULA_PARAMS - 1);
        good = false;
    }
    if (good && knobs->sinks > 0)
        good = formula_declare(&set->scope, (struct place){0}, "sinks", (struct place){0}, "float[heads]", &diag);
    if (good && *texts->mask)
        good = (set->mask = parse_kept(FORMULA_MASK, texts->mask, &set->scope, &diag)) != NULL;
    if (good && *texts->score)
        good = (set->score = parse_kept(FORMULA_SCORE, texts->score, &set->scope, &diag)) != NULL;
    good = good && find_wants(set, knobs, &diag);
    set->tabled = set->mask ? find_tabled(set->mask) : 0;
    diag_free(&diag);
    return good;
}

void formula_set_close(struct formula_set *set) {
    formula_free(set->mask);
    formula_free(set->score);
    formula_reads_free(&set->reads);
    formula_scope_free(&set->scope);
    set->mask = set->score = NULL;
}
