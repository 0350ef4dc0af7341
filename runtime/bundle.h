/* bundle: kernels built ahead of time, as a C table (struct att_bundle in attile.h). Writing serves `attile build`,
   searching serves att_find. An entry is self-contained: knobs, launch plan and binary. */
#ifndef ATTILE_BUNDLE_H
#define ATTILE_BUNDLE_H

#include "failure.h"
#include "gen.h"

/* May the table be called that? ATT_INVALID_ARGUMENT when it is no C identifier, or a keyword of C or C++. */
enum att_status bundle_check_symbol(const char *symbol, struct failure *failure);

/* Append a complete C file that defines `const struct att_bundle SYMBOL`. Equal tables give equal bytes.
   ATT_INVALID_ARGUMENT when the symbol will not do or a kernel's plan cannot be read. */
enum att_status bundle_write_c(const char *symbol, const struct att_bundle_kernel *kernels, int count,
                               struct text *text, struct failure *failure);

/* Refuse a table of another format, for other parameter structs, or with holes; `number` is its place in att_options.bundles. */
enum att_status bundle_check(const struct att_bundle *bundle, int number, struct failure *failure);

/* The kernel for a variant on a device, or null: the one with all knobs equal, else, when any_schedule, the first
   whose problem is the same; binaries before PTX, which the driver has to compile. `bundles` is null-terminated or null. */
const struct att_bundle_kernel *bundle_find(const struct att_bundle *const *bundles, const struct variant *variant,
                                            const char *arch, bool any_schedule);

/* Does a binary, or PTX, for `built` run on a device of architecture `device`? */
bool bundle_arch_runs(const char *built, const char *device);

/* Does any of its kernels? If not, the text gets what they are built for: "sm_80, sm_90a". */
bool bundle_serves(const struct att_bundle *bundle, const char *device, struct text *built);

#endif
