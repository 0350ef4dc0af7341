/* session_probe: shows how the environment affects a session. A test runs it normally and set-user-ID. Bits of the exit
   status: 1 = no session, 2 = no kernel on the host device, 4 = no NVRTC, 8 = NVRTC found through the environment. */
#include "attile.h"
#include "nvrtc.h"

#include <stdio.h>
#include <string.h>

int main(void) {
    const struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST};
    att_session *session;
    att_kernel *kernel;
    int result = 0;
    if (att_open(&options, &session))
        result |= 1;
    if (att_find(session, "family=softmax", NULL, &kernel))
        result |= 2;
    if (result)
        fprintf(stderr, "session_probe: %s\n", att_message(session));
    att_close(session);
    struct nvrtc *nvrtc;
    struct nvrtc_info info;
    struct failure failure = {0};
    if (nvrtc_open(&nvrtc, &failure) == ATT_OK) {
        nvrtc_describe(nvrtc, &info);
        if (strcmp(info.rule, "ATTILE_NVRTC") == 0 || strncmp(info.rule, "CUDA_", 5) == 0)
            result |= 8;
        nvrtc_close(nvrtc);
    } else {
        result |= 4;
    }
    failure_clear(&failure);
    return result;
}
