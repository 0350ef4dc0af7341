#include "rope.h"

#include <inttypes.h>
#include <math.h>

int rope_pairs(const struct knobs *knobs) {
    return knobs->rope > rope_none ? (knobs->rope_dim > 0 ? knobs->rope_dim : knobs->head_dim) / 2 : 0;
}

static enum att_status check(const struct knobs *knobs, const struct rope_args *args, int64_t positions,
                             struct failure *failure) {
    if (knobs->rope_from == rope_from_base && !(args->base == 0 || (args->base >= 1 && isfinite(args->base))))
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "rope_base is %g, expected a finite number of at least 1; 0 = 10000", (double)args->base);
    if (knobs->rope_from == rope_from_tables && (args->rows < 1 || args->rows > INT32_MAX || args->rows < positions))
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "rope_rows is %" PRId64 ", expected a row for each of the positions, len_kv = %" PRId64,
                           args->rows, positions);
    return ATT_OK;
}

static struct tensor table(const char *name, const float *data, const struct rope_args *args, int pairs) {
    return (struct tensor){
        .name = name,
        .data = data,
        .element = (int)sizeof(float),
        .dims = 2,
        .dim = {{"rope_rows", "rope_row_stride", args->rows, args->row_stride}, {"rope_dim / 2", NULL, pairs, 1}}};
}

enum att_status rope_read(const struct knobs *knobs, struct rope_args *args, int64_t positions, struct arguments *out,
                          struct failure *failure) {
    int pairs = rope_pairs(knobs);
    if (args->row_stride == 0)
        args->row_stride = pairs;
    if (pairs == 0)
        return ATT_OK;
    if (check(knobs, args, positions, failure) != ATT_OK)
        return failure->status;
    if (knobs->rope_from == rope_from_tables) {
        out->tensor[out->tensors++] = table("rope_cos", args->cosine, args, pairs);
        out->tensor[out->tensors++] = table("rope_sin", args->sine, args, pairs);
    }
    return ATT_OK;
}

void rope_turns(double base, int half, unsigned long long *turns) {
    /* products, because a launch has no time for as many calls of powl; with 64 bits of mantissa their error stays
       below 2^-56 */
    long double ratio = powl((long double)base, -1.0L / half), turn = 0x1p64L / (2 * 3.14159265358979323846264338L);
    for (int i = 0; i < half; i++, turn *= ratio)
        turns[i] = (unsigned long long)(turn + 0.5L);
}
