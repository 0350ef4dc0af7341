/* tile_map: which tiles of a mask are empty, partial and full at given sizes, found by the same bounds as in a kernel,
   and the result as text and SVG. */
#ifndef ATTILE_TILE_MAP_H
#define ATTILE_TILE_MAP_H

#include "params.h"

struct tile_map {
    int rows, columns;    /* Q tiles, K/V tiles */
    int block_m, block_n; /* queries and keys per tile */
    unsigned char *class; /* (rows, columns) of enum formula_class, of the first batch and head; owned */
    int64_t planes;       /* batch * heads */
    int64_t count[3];     /* by class, over all planes */
    int64_t pairs, seen;  /* of queries and keys, over all planes; seen = -1 if there are too many to check */
    int64_t needless;     /* tiles that are computed although no pair in them is seen; -1 likewise */
};

/* `params` must be of the same problem and sizes; its env is modified. False when memory runs out. Free the map in any
   case. */
bool tile_map_make(struct tile_map *map, const struct knobs *problem, struct params *params, int block_m, int block_n);
void tile_map_free(struct tile_map *map);

/* Draws a picture at most `width` characters wide: '.' empty, '+' partial, '#' full. If there are more tiles, one
   character stands for a square of them. */
void tile_map_draw(const struct tile_map *map, int width, struct text *text);

/* The same as an SVG document; `title` gets escaped. */
void tile_map_svg(const struct tile_map *map, const char *title, struct text *text);

#endif
