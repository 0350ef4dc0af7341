/* plan_text: a launch plan as text and back, so that bundles can store it. One line per launch, followed by its special
   properties; expressions in postfix:

       launch ENTRY THREADS SHARED_BYTES len_q 63 + 64 / heads * sm_count min
       cluster 2
       dependent
       params attention_params
       fills tables
       map NAME TENSOR ROWS COLUMNS packed
       workspace 0 */
#ifndef ATTILE_PLAN_TEXT_H
#define ATTILE_PLAN_TEXT_H

#include "plan.h"

void plan_write(const struct plan *plan, struct text *text);

/* False if the text is not a complete, well-formed plan with at least one launch. */
bool plan_read(const char *text, struct plan *plan);

#endif
