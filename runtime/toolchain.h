/* toolchain: the identity of a session's compiler, for keys of the cache. To ask a compiler means to load it, which takes
   longer than all other steps to a kernel on disk. So the cache keeps the answer beside the kernels, under a key of all that
   decides which compiler is found. */
#ifndef ATTILE_TOOLCHAIN_H
#define ATTILE_TOOLCHAIN_H

#include "session.h"

/* Append the identity, remembered if it is known. ATT_NO_COMPILER when there is none. */
enum att_status toolchain_identity(att_session *session, struct text *identity, struct failure *failure);

/* Before compiling: opens the compiler. Is it another one than `identity` says? Then that is forgotten, and the next
   toolchain_identity knows better. */
bool toolchain_changed(att_session *session, const struct text *identity);

#endif
