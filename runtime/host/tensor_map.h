/* tensor_map: what the host device stores in the 128 bytes of a tensor map, which are opaque to kernels. */
#ifndef ATTILE_HOST_TENSOR_MAP_H
#define ATTILE_HOST_TENSOR_MAP_H

#include "backend.h"

struct host_map {
    uint64_t magic;
    unsigned char *data;
    int64_t dim[4];    /* elements: columns first */
    int64_t stride[3]; /* bytes; of the other dimensions */
    int element;       /* bytes */
    int box[3];        /* size in the first three dimensions; 1 in the last */
};

/* Applies the rules of the hardware; ATT_LAUNCH_FAILED says which one is violated. */
enum att_status tensor_map_encode(const struct map_request *request, void *map, struct failure *failure);

/* True if this is a complete and unchanged map. */
bool tensor_map_is_sound(const struct host_map *map);

#endif
