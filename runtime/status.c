#include "attile.h"

#define TEXT_OF(number)  #number
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *att_version(void) { return VERSION(ATT_VERSION_MAJOR, ATT_VERSION_MINOR, ATT_VERSION_PATCH); }

const char *att_status_name(enum att_status status) {
    static const char *const names[ATT_STATUS_COUNT] = {
        [ATT_OK] = "ok",
        [ATT_INVALID_ARGUMENT] = "invalid argument",
        [ATT_INVALID_TEXT] = "invalid text",
        [ATT_UNSUPPORTED] = "unsupported",
        [ATT_NO_DEVICE] = "no device",
        [ATT_NO_COMPILER] = "no compiler",
        [ATT_COMPILE_FAILED] = "compile failed",
        [ATT_NOT_PREPARED] = "not prepared",
        [ATT_LAUNCH_FAILED] = "launch failed",
        [ATT_OUT_OF_MEMORY] = "out of memory",
        [ATT_IO] = "input/output error",
        [ATT_FORKED] = "forked",
        [ATT_INTERNAL] = "internal error",
    };
    return (unsigned)status < ATT_STATUS_COUNT ? names[status] : "unknown status";
}
