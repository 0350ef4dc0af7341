/* session_log: messages for the program's own log. */
#include "session.h"

#include <stdarg.h>

void session_log(const att_session *session, enum att_log_level level, const char *format, ...) {
    if (!session->log)
        return;
    struct text text = {0};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&text, format, arguments);
    va_end(arguments);
    session->log(session->log_context, level, text_string(&text));
    text_free(&text);
}
