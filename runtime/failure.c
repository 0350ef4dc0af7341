#include "failure.h"

#include <string.h>

enum att_status failure_set(struct failure *failure, enum att_status status, const char *format, ...) {
    if (!failure)
        return status;
    failure_clear(failure);
    failure->status = status;
    if (failure->wordless)
        return status;
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&failure->text, format, arguments);
    va_end(arguments);
    return status;
}

enum att_status failure_add(struct failure *failure, const char *format, ...) {
    if (failure->wordless)
        return failure->status;
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&failure->text, format, arguments);
    va_end(arguments);
    return failure->status;
}

enum att_status failure_take(struct failure *failure, enum att_status status, struct diag *diag) {
    bool memory = diag->text.failed || strstr(text_string(&diag->text), "error: out of memory\n");
    failure_clear(failure);
    failure->status = memory ? ATT_OUT_OF_MEMORY : status;
    failure->text = diag->text;
    *diag = (struct diag){0};
    return failure->status;
}

void failure_clear(struct failure *failure) {
    text_free(&failure->text);
    failure->status = ATT_OK;
}
