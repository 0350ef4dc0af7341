/* Tests that run kernels do so on the host device, or with ATTILE_TEST_DEVICE=cuda in the environment on a GPU. */
#pragma once
#include "session.h"

bool test_device_is_gpu(void);

/* Without a disk cache. The caller closes it. */
att_session *open_test_device(enum att_host_mode mode);
