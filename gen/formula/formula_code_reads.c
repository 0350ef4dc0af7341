/* formula_code_reads: what a mask reads from tensors for a query, or for a key, apart from the test of the pair, for
   templates/backward/mask_reads.cuh. */
#include "formula_code.h"

#include <ctype.h>
#include <string.h>

enum { READS = 8 }; /* of a query, or of a key; what is beyond this number is read for each pair */
enum side { OF_QUERY, OF_KEY, SIDES, OF_PAIR = SIDES };

struct reads {
    const struct formula_set *set;
    struct {
        int count;
        const struct formula_param *param[READS];
        struct text call[READS]; /* "tensor_doc(p, at.b, q)" */
    } of[SIDES];
};

static const char *const side_names[] = {[OF_QUERY] = "of_query", [OF_KEY] = "of_key"};

/* True if the name is a word of the expression. */
static bool mentions(const char *code, const char *name) {
    for (size_t length = strlen(name); *code;) {
        const char *word = code;
        while (isalnum((unsigned char)*code) || *code == '_')
            code++;
        if ((size_t)(code - word) == length && memcmp(word, name, length) == 0)
            return true;
        code += code == word;
    }
    return false;
}

/* An element whose index is such an element is read for each pair. */
static enum side side_of(const struct formula_param *param, const char *const *index) {
    bool q = false, k = false, nested = false;
    for (int d = 0; d < param->dims; d++) {
        q |= mentions(index[d], "q");
        k |= mentions(index[d], "k");
        nested |= mentions(index[d], side_names[OF_QUERY]) || mentions(index[d], side_names[OF_KEY]);
    }
    return q == k || nested ? OF_PAIR : q ? OF_QUERY : OF_KEY;
}

/* Prints "of_query.doc_0" in place of "tensor_doc(p, at.b, q)", and keeps that call. */
static void spell_param(void *context, const struct formula_param *param, enum formula_access access,
                        const char *const *index, struct text *out) {
    struct reads *reads = context;
    struct formula_spelling plain = formula_code_spelling(reads->set);
    struct text call = {0};
    plain.param(plain.context, param, access, index, &call);
    out->failed |= call.failed;
    enum side side = access == FORMULA_AT ? side_of(param, index) : OF_PAIR;
    int i = 0, count = side == OF_PAIR ? 0 : reads->of[side].count;
    while (i < count && strcmp(text_string(&reads->of[side].call[i]), text_string(&call)) != 0)
        i++;
    if (side == OF_PAIR || i == READS) {
        text_print(out, "%s", text_string(&call));
        text_free(&call);
        return;
    }
    if (i < count) {
        text_free(&call);
    } else {
        reads->of[side].param[i] = param;
        reads->of[side].call[i] = call;
        reads->of[side].count++;
    }
    text_print(out, "%s.%s_%d", side_names[side], param->name, i);
}

/* Prints the mask, and finds what it reads. Free the reads. */
static void find_reads(const struct formula_set *set, struct reads *reads, struct text *mask) {
    *reads = (struct reads){.set = set};
    struct formula_spelling spelling = formula_code_spelling(set);
    spelling.eager = true;
    spelling.context = reads;
    spelling.param = spell_param;
    if (set->mask)
        formula_print_cuda(set->mask, &spelling, mask);
}

static void free_reads(struct reads *reads) {
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < reads->of[side].count; i++)
            text_free(&reads->of[side].call[i]);
}

int formula_query_reads(const struct formula_set *set) {
    struct reads reads;
    struct text mask = {0};
    find_reads(set, &reads, &mask);
    int count = mask.failed ? -1 : reads.of[OF_QUERY].count;
    free_reads(&reads);
    text_free(&mask);
    return count;
}

static void print_fields(const struct formula_set *set, enum side side, struct text *text) {
    struct reads reads;
    struct text mask = {0};
    find_reads(set, &reads, &mask);
    for (int i = 0; i < reads.of[side].count; i++) {
        const struct formula_param *param = reads.of[side].param[i];
        text_print(text, "    %s %s_%d;\n", param->type == FORMULA_REAL ? "float" : "int", param->name, i);
    }
    text->failed |= mask.failed;
    free_reads(&reads);
    text_free(&mask);
}
void formula_code_query_fields(const struct formula_set *set, struct text *text) { print_fields(set, OF_QUERY, text); }
void formula_code_key_fields(const struct formula_set *set, struct text *text) { print_fields(set, OF_KEY, text); }

static void print_values(const struct formula_set *set, enum side side, bool of_lane, struct text *text) {
    struct reads reads;
    struct text mask = {0};
    find_reads(set, &reads, &mask);
    text_print(text, "    return {");
    for (int i = 0; i < reads.of[side].count; i++) {
        text_print(text, i ? ", " : "");
        if (of_lane)
            text_print(text, "__shfl_sync(0xffffffffu, mine.%s_%d, lane)", reads.of[side].param[i]->name, i);
        else
            text_print(text, "%s", text_string(&reads.of[side].call[i]));
    }
    text_print(text, "};\n");
    text->failed |= mask.failed;
    free_reads(&reads);
    text_free(&mask);
}
void formula_code_query_values(const struct formula_set *set, struct text *text) {
    print_values(set, OF_QUERY, false, text);
}
void formula_code_query_of_lane(const struct formula_set *set, struct text *text) {
    print_values(set, OF_QUERY, true, text);
}
void formula_code_key_values(const struct formula_set *set, struct text *text) {
    print_values(set, OF_KEY, false, text);
}

void formula_code_mask_of_reads(const struct formula_set *set, struct text *text) {
    struct reads reads;
    text_print(text, "    return ");
    find_reads(set, &reads, text);
    text_print(text, ";\n");
    free_reads(&reads);
}
