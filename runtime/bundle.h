/* bundle: kernels built ahead of time, as a C table (struct att_bundle in attile.h). Writing serves `attile build`,
   searching serves att_find. An entry is self-contained: knobs, launch plan and binary. */
#ifndef ATTILE_BUNDLE_H
#define ATTILE_BUNDLE_H

#include "failure.h"
#include "gen.h"

/* Checks the name of the table: ATT_INVALID_ARGUMENT if it is not a C identifier, or a keyword of C or C++. */
enum att_status bundle_check_symbol(const char *symbol, struct failure *failure);

/* Appends a complete C file that defines `const struct att_bundle SYMBOL`. Equal tables give equal bytes.
   ATT_INVALID_ARGUMENT if the symbol is not valid or a kernel's plan cannot be read. */
enum att_status bundle_write_c(const char *symbol, const struct att_bundle_kernel *kernels, int count,
                               struct text *text, struct failure *failure);

/* Refuses a table of another format, for other parameter structs, or with null fields; `number` is its index in
   att_options.bundles. */
enum att_status bundle_check(const struct att_bundle *bundle, int number, struct failure *failure);

/* Returns the kernel for a variant on a device, or null: the one with all knobs equal, otherwise, with any_schedule,
   the first with the same problem. Prefers binaries to PTX, which the driver has to compile. `bundles` is
   null-terminated or null. */
const struct att_bundle_kernel *bundle_find(const struct att_bundle *const *bundles, const struct variant *variant,
                                            const char *arch, bool any_schedule);

/* True if a binary, or PTX, for `built` runs on a device of architecture `device`. */
bool bundle_arch_runs(const char *built, const char *device);

/* True if any of its kernels runs there. If not, appends to the text what they are built for: "sm_80, sm_90a". */
bool bundle_serves(const struct att_bundle *bundle, const char *device, struct text *built);

#endif
