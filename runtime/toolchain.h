/* toolchain: the identity of a session's compiler, for keys of the cache. Querying a compiler means loading it, which
   takes longer than all other steps to a kernel on disk. So the cache keeps the answer beside the kernels, under a key
   made of everything that determines which compiler is found. */
#ifndef ATTILE_TOOLCHAIN_H
#define ATTILE_TOOLCHAIN_H

#include "session.h"

/* Appends the identity, from the cache if it is there. ATT_NO_COMPILER if there is none. */
enum att_status toolchain_identity(att_session *session, struct text *identity, struct failure *failure);

/* Called before compiling: opens the compiler. True if it is not the one in `identity`; the cached identity is then
   dropped, so the next toolchain_identity returns the right one. */
bool toolchain_changed(att_session *session, const struct text *identity);

#endif
