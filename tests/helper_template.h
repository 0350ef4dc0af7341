/* helper_template: a template set from one text. A line "@ name" begins the file of that name. The text before the
   first such line is attention_flash.cu. Other templates are absent. */
#ifndef ATTILE_HELPER_TEMPLATE_H
#define ATTILE_HELPER_TEMPLATE_H

#include "gen.h"

struct template_text {
    const char *text;
    size_t size;
};

/* For template_set_open; the context is a struct template_text. */
template_loader template_text_load;

struct template_set *template_text_open(struct template_text *text, struct diag *diag);

/* Returns knobs of attention_forward with the flash algorithm and defaults for everything else. */
struct knobs template_text_knobs(void);

#endif
