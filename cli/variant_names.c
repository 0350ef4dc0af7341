#include "variant_names.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    char *name;
    char *variant; /* as printed by variant_print */
};

static void free_kept(void *kept) {
    free(((struct kept *)kept)->name);
    free(((struct kept *)kept)->variant);
    free(kept);
}

static struct kept *make_kept(const struct variant *variant) {
    struct kept *kept = calloc(1, sizeof *kept);
    struct text text = {0};
    variant_print(variant, &text);
    if (kept && !text.failed) {
        kept->name = strdup(variant->name);
        kept->variant = strdup(text_string(&text));
    }
    text_free(&text);
    if (kept && kept->name && kept->variant)
        return kept;
    if (kept)
        free_kept(kept);
    return NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct kept *)a)->name, ((const struct kept *)b)->name);
}

enum variant_names_answer variant_names_take(struct variant_names *names, const struct variant *variant,
                                             struct text *error) {
    struct kept *kept = make_kept(variant);
    struct kept **found = kept ? tsearch(kept, &names->root, by_name) : NULL;
    enum variant_names_answer answer = VARIANT_NAMES_NEW;
    if (found && *found == kept)
        return answer;
    if (!found) {
        text_print(error, "out of memory");
        answer = VARIANT_NAMES_FAILED;
    } else if (strcmp((*found)->variant, kept->variant) == 0) {
        answer = VARIANT_NAMES_KNOWN;
    } else {
        text_print(error,
                   "expected one variant of the name %s, found \"%s\" and \"%s\"; write an expression of one of them "
                   "another way",
                   variant->name, (*found)->variant, kept->variant);
        answer = VARIANT_NAMES_FAILED;
    }
    if (kept)
        free_kept(kept);
    return answer;
}

void variant_names_free(struct variant_names *names) {
    tdestroy(names->root, free_kept);
    names->root = NULL;
}
