/* choose_parts: what choose.c, which goes through the candidates, and choose_measured.c, which knows the tables, share. */
#ifndef ATTILE_CHOOSE_PARTS_H
#define ATTILE_CHOOSE_PARTS_H

#include "choose.h"
#include "tables.h"

/* Is what is offered what was asked for? AUTO asks for nothing, and offers anything. */
static inline bool choose_agrees(int asked, int offered) {
    return asked == AUTO || offered == AUTO || asked == offered;
}

/* Complete with a target that the caller may not have asked for: such a wish is dropped, not refused, where the
   template has no use for it. */
bool choose_complete(const struct template_set *set, struct knobs knobs, int target, struct variant *variant);

/* What speaks against a variant goes into its own reason: infeasible, out of service, alignment. */
bool choose_is_usable(const struct att_session *session, const struct request *request, const struct table_list *tables,
                      struct variant *variant);

/* What would answer if there were no tables. */
bool choose_default(const struct att_session *session, const struct request *request, const struct table_list *tables,
                    struct choice *choice);

/* What the tables say of a problem, as tuned_problem gives it. */
struct table_list choose_tables(struct att_session *session, const struct knobs *problem);

/* What the tables say of this problem, else of one like it; the model says how to carry that over to the shape at hand.
   False when they say nothing, or when the request names a schedule. */
bool choose_measured(struct att_session *session, const struct request *request, struct choice *choice);

#endif
