#include "helper_spills.h"

#include <string.h>

static const struct {
    const char *problem, *schedule; /* parts of the variant's name */
    int bytes;
} measured[] = {
    {"_d64_mask_", "_m128_n128_t128_s1_off_lazy_", 204}, /* windows; at most 28 on sm_90 */
    {"", "_m128_n64_t128_s1_off_lazy_", 64},             /* windows, linear scores and biases at d 128 */
};

int spills_allowed(const char *variant) {
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (strstr(variant, measured[i].problem) && strstr(variant, measured[i].schedule))
            return measured[i].bytes;
    return 0;
}
