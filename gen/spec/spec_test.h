/* spec_test: the `test:` part of a spec: the shapes its variants are tried on, and files with real inputs. */
#ifndef ATTILE_SPEC_TEST_H
#define ATTILE_SPEC_TEST_H

#include "gen.h"
#include "yaml_reader.h"

/* Reads the map under `test:` into spec->shape and spec->input_file; spec->family is already known, or -1. */
void spec_test_read(const struct node *map, struct spec *spec, struct diag *diag);

/* Reads a map of run-time sizes, for example {len_q: 200, len_kv: 333}; other sizes get their fallback from
   shapes.def. */
bool spec_shape_read(const struct node *map, int family, struct shape *shape, struct diag *diag);

/* Returns the tensors that `inputs:` of a family may name, null-terminated. */
const char *const *spec_test_tensors(int family);

#endif
