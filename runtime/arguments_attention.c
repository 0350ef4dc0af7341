/* arguments_attention: the members that the attention families have in common, wherever a family keeps them. */
#include "arguments.h"

#include <stddef.h>

const struct att_attention_args *arguments_attention_args(int family, const struct att_args *args) {
    return family == family_attention_forward    ? &args->attention
           : family == family_attention_backward ? &args->attention_backward.forward
                                                 : NULL;
}

struct attention_params *arguments_attention(struct arguments *arguments) {
    return arguments->family == family_attention_forward    ? &arguments->params.attention
           : arguments->family == family_attention_backward ? &arguments->params.attention_backward.forward
                                                            : NULL;
}

size_t arguments_attention_size(const struct arguments *arguments) {
    size_t before = arguments->family == family_attention_backward
                        ? offsetof(struct attention_backward_params, forward) - arguments->params_begin
                        : 0;
    return arguments->params_size - before;
}
