/* append: checks the arguments of family append_kv and converts them to the parameters of its kernel. */
#ifndef ATTILE_APPEND_H
#define ATTILE_APPEND_H

#include "arguments.h"

enum att_status append_read_sizes(const struct knobs *knobs, const struct att_append_args *args, struct shape *shape,
                                  bool *empty, struct failure *failure);
enum att_status append_read(const struct knobs *knobs, const struct att_append_args *args, struct arguments *out,
                            struct failure *failure);

/* Checks the numbers of cu_seqlens_q and lengths_kv, which are in host memory here; call it after append_read. Slots
   and page numbers may have any value: a token without a place is not written. */
enum att_status append_check(const struct knobs *knobs, const struct att_append_args *args, const struct shape *shape,
                             struct failure *failure);

#endif
