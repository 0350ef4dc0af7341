#include "tensor_map.h"
#include "knobs.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(struct host_map) <= MAP_BYTES, "it fits");

enum { ALIGNMENT = 16, ROW_BYTES = 128, BOX_MOST = 256 };
static const uint64_t host_magic = 0x70616d656c697461; /* "atilemap" */

bool tensor_map_is_sound(const struct host_map *map) {
    return (uintptr_t)map % MAP_ALIGNMENT == 0 && map->magic == host_magic;
}

static enum att_status refuse(struct failure *failure, const char *what, int64_t value, const char *expected) {
    return failure_set(failure, ATT_LAUNCH_FAILED, "tensor map: %s is %" PRId64 ", expected %s", what, value, expected);
}

static enum att_status check(const struct map_request *request, int element, struct failure *failure) {
    if ((uintptr_t)request->data % ALIGNMENT)
        return refuse(failure, "address modulo 16", (int64_t)((uintptr_t)request->data % ALIGNMENT), "0");
    for (int i = 0; i < 4; i++)
        if (request->dim[i] < 1 || request->dim[i] > (int64_t)1 << 32)
            return refuse(failure, "a dimension", request->dim[i], "1 to 2^32");
    for (int i = 0; i < 3; i++)
        if (request->stride[i] < 0 || request->stride[i] >= ((int64_t)1 << 40) / element ||
            request->stride[i] * element % ALIGNMENT)
            return refuse(failure, "a stride", request->stride[i] * element, "a multiple of 16 bytes below 2^40");
    if (request->box[0] < 1 || request->box[0] * element > ROW_BYTES || request->box[0] * element % ALIGNMENT)
        return refuse(failure, "the columns of a box", request->box[0], "at most 128 bytes, in steps of 16");
    for (int i = 1; i < 3; i++)
        if (request->box[i] < 1 || request->box[i] > BOX_MOST)
            return refuse(failure, "a side of a box", request->box[i], "1 to 256");
    return ATT_OK;
}

enum att_status tensor_map_encode(const struct map_request *request, void *map, struct failure *failure) {
    int element = request->dtype == dtype_fp32 ? 4 : 2;
    if ((uintptr_t)map % MAP_ALIGNMENT)
        return refuse(failure, "its own address modulo 64", (int64_t)((uintptr_t)map % MAP_ALIGNMENT), "0");
    if (check(request, element, failure) != ATT_OK)
        return failure->status;
    struct host_map made = {.magic = host_magic, .data = (unsigned char *)(uintptr_t)request->data, .element = element};
    for (int i = 0; i < 4; i++)
        made.dim[i] = request->dim[i];
    for (int i = 0; i < 3; i++) {
        made.stride[i] = request->stride[i] * element;
        made.box[i] = request->box[i];
    }
    memset(map, 0, MAP_BYTES);
    memcpy(map, &made, sizeof made);
    return ATT_OK;
}
