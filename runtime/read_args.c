#include "read_args.h"
#include "append.h"
#include "formula_args.h"
#include "gradient_args.h"
#include "sequences.h"

enum att_status read_args(const att_kernel *kernel, const struct att_args *args, struct arguments *arguments,
                          struct failure *failure) {
    const struct knobs *knobs = &kernel->variant.knobs;
    if (arguments_read(knobs, args, arguments, failure) != ATT_OK || !family_is_attention(knobs->family))
        return failure->status;
    if (formula_args_read(&kernel->formulas, arguments_attention_args(knobs->family, args), arguments, failure) !=
        ATT_OK)
        return failure->status;
    return knobs->family == family_attention_backward
               ? gradient_args_read(&kernel->formulas, &args->attention_backward, arguments, failure)
               : ATT_OK;
}

enum att_status read_numbers(const att_kernel *kernel, const struct att_args *args, const struct arguments *arguments,
                             struct failure *failure) {
    const struct knobs *knobs = &kernel->variant.knobs;
    if (family_is_attention(knobs->family))
        return sequences_check(knobs, &kernel->formulas, arguments_attention_args(knobs->family, args), arguments,
                               failure);
    if (knobs->family == family_append_kv)
        return append_check(knobs, &args->append, &arguments->shape, failure);
    return ATT_OK;
}
