/* Tests that run kernels use the host device, or a GPU with ATTILE_TEST_DEVICE=cuda in the environment. */
#pragma once
#include "session.h"

bool test_device_is_gpu(void);

/* Opens a session without a disk cache. The caller closes it. */
att_session *open_test_device(enum att_host_mode mode);
