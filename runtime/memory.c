/* Device memory for programs without an allocator of their own: calls go straight to the device. */
#include "session.h"

static enum att_status refuse(att_session *session, const char *what) {
    struct failure failure = {0};
    failure_set(&failure, ATT_INVALID_ARGUMENT, "%s is null, expected a pointer", what);
    return session_fail(session, &failure);
}

static enum att_status finish(att_session *session, enum att_status status, struct failure *failure) {
    return status == ATT_OK ? ATT_OK : session_fail(session, failure);
}

enum att_status att_alloc(att_session *session, size_t bytes, void **device) {
    struct failure failure = {0};
    enum att_status status = session_enter(session);
    if (status != ATT_OK)
        return status;
    if (!device)
        return refuse(session, "device");
    return finish(session, session->type->alloc(session->backend, bytes, device, &failure), &failure);
}

enum att_status att_free(att_session *session, void *device) {
    struct failure failure = {0};
    enum att_status status = session_enter(session);
    if (status != ATT_OK || !device)
        return status;
    return finish(session, session->type->free(session->backend, device, &failure), &failure);
}

enum att_status att_copy_in(att_session *session, void *device, const void *host, size_t bytes) {
    struct failure failure = {0};
    enum att_status status = session_enter(session);
    if (status != ATT_OK || bytes == 0)
        return status;
    if (!device || !host)
        return refuse(session, device ? "host" : "device");
    return finish(session, session->type->copy_in(session->backend, device, host, bytes, &failure), &failure);
}

enum att_status att_copy_out(att_session *session, void *host, const void *device, size_t bytes) {
    struct failure failure = {0};
    enum att_status status = session_enter(session);
    if (status != ATT_OK || bytes == 0)
        return status;
    if (!device || !host)
        return refuse(session, device ? "host" : "device");
    return finish(session, session->type->copy_out(session->backend, host, device, bytes, &failure), &failure);
}

enum att_status att_synchronize(att_session *session) {
    struct failure failure = {0};
    enum att_status status = session_enter(session);
    if (status != ATT_OK)
        return status;
    return finish(session, session->type->synchronize(session->backend, &failure), &failure);
}
