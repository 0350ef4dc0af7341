#include "helper_device.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

bool test_device_is_gpu(void) {
    const char *wanted = getenv("ATTILE_TEST_DEVICE");
    return wanted && !strcmp(wanted, "cuda");
}

att_session *open_test_device(enum att_host_mode mode) {
    const struct att_options options = {.size = sizeof options,
                                        .device = test_device_is_gpu() ? ATT_DEVICE_CUDA : ATT_DEVICE_HOST,
                                        .host_mode = mode,
                                        .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    return session;
}
