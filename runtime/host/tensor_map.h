/* tensor_map: what the host device keeps in the 128 bytes of a tensor map. Kernels see them as opaque. */
#ifndef ATTILE_HOST_TENSOR_MAP_H
#define ATTILE_HOST_TENSOR_MAP_H

#include "backend.h"

struct host_map {
    uint64_t magic;
    unsigned char *data;
    int64_t dim[4];    /* elements: columns first */
    int64_t stride[3]; /* bytes, of the others */
    int element;       /* bytes */
    int box[3];        /* of the first three; 1 of the last */
};

/* The rules of the hardware; ATT_LAUNCH_FAILED says which one is broken. */
enum att_status tensor_map_encode(const struct map_request *request, void *map, struct failure *failure);

/* Is this a map, whole and unchanged? */
bool tensor_map_is_sound(const struct host_map *map);

#endif
