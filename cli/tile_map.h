/* tile_map: a mask at given sizes -> which tiles are empty, partial and full, as a kernel finds it by the same bounds, and
   as text and SVG. */
#ifndef ATTILE_TILE_MAP_H
#define ATTILE_TILE_MAP_H

#include "params.h"

struct tile_map {
    int rows, columns;    /* Q tiles, K/V tiles */
    int block_m, block_n; /* queries and keys in one */
    unsigned char *class; /* (rows, columns) of enum formula_class, of the first batch and head; owned */
    int64_t planes;       /* batch * heads */
    int64_t count[3];     /* by class, over all planes */
    int64_t pairs, seen;  /* of queries and keys, over all planes; seen = -1 where there are too many to look at */
    int64_t needless;     /* tiles that are computed although none of their pairs is seen; -1 likewise */
};

/* Params are those of the same problem and sizes; their env is used on the way. False when memory ran out. Free the map
   in any case. */
bool tile_map_make(struct tile_map *map, const struct knobs *problem, struct params *params, int block_m, int block_n);
void tile_map_free(struct tile_map *map);

/* A picture at most `width` characters wide: '.' empty, '+' partial, '#' full. Where tiles are more than that, one
   character stands for a square of them. */
void tile_map_draw(const struct tile_map *map, int width, struct text *text);

/* The same as an SVG document; `title` is escaped. */
void tile_map_svg(const struct tile_map *map, const char *title, struct text *text);

#endif
