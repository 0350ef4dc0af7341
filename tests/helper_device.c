#include "helper_device.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

att_session *open_test_device(enum att_host_mode mode) {
    const char *wanted = getenv("ATTILE_TEST_DEVICE");
    bool on_gpu = wanted && !strcmp(wanted, "cuda");
    const struct att_options options = {.size = sizeof options,
                                        .device = on_gpu ? ATT_DEVICE_CUDA : ATT_DEVICE_HOST,
                                        .host_mode = mode,
                                        .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    return session;
}
