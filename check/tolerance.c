/* tolerance: rounding errors of fp32 arithmetic, followed through softmax and weighted sum to first order.
   Everything here is in units of one rounding of fp32, UNIT, until the last step. Names as in docs/numerics.md. */
#include "tolerance.h"
#include "score_error.h"

#include <math.h>
#include <stdlib.h>

static const double UNIT = 0x1p-24; /* relative error of one fp32 rounding */

static const struct {
    double unit, smallest, largest; /* one rounding; half the least subnormal, as an error; largest finite value */
} type_table[] = {
    [TOLERANCE_FP32] = {0x1p-24, 0x1p-126, 0x1.fffffep127}, /* subnormals may be flushed to 0 */
    [TOLERANCE_FP16] = {0x1p-11, 0x1p-25, 65504},
    [TOLERANCE_BF16] = {0x1p-8, 0x1p-126, 0x1.fep127},
};

/* Roundings that a sum of n terms suffers, in units: n at worst, and with independent errors of mean 0 less than
   6 sqrt(n) but once in 10^7. */
static double growth(double n) { return fmin(n, 6 * sqrt(n)); }

/* What rounding does to a weight exp(score - max): the score's own error, the subtraction and the change of base
   (each a rounding of score - max), exp itself (2 ulp = 4 units), and a few products. */
static double weight_error(double score_error, double distance) { return score_error + 2 * distance + 8; }

/* What summing n weighted terms online does besides: each step may rescale (exp, product) and adds. */
static double sum_error(int64_t n) { return 6 * growth((double)n); }

static double round_to(enum tolerance_type output, double value, double error) {
    return error * UNIT + type_table[output].unit * (fabs(value) + error * UNIT) + type_table[output].smallest;
}

/* One output row: the sum of weights times value rows; key[j] is the row of weight j (null: row j), and -1 one of zeros,
   as a sink has. `weight` sums to 1, `error` holds each weight's relative error
   in units. To first order o moves by the sum of weight * error * (value - o). Weights rounded to `weights`
   for the product alone move it by the sum of weight * rounding * value; independent roundings again. */
static void bound_row(int64_t n, const int64_t *key, const double *weight, const double *error, const float *values,
                      int64_t stride, int64_t width, enum tolerance_type weights, enum tolerance_type output,
                      const double *o, double *bound) {
    bool narrow = weights != TOLERANCE_FP32;
    for (int64_t d = 0; d < width; d++) {
        double moved = 0, size = fabs(o[d]), rounded = 0, rounded_squared = 0;
        bool vanishes = false; /* the weight of an infinity, when it is rounded */
        for (int64_t j = 0; j < n; j++) {
            if (weight[j] == 0)
                continue;
            int64_t row = key ? key[j] : j;
            double value = row < 0 ? 0 : (double)values[row * stride + d];
            moved += weight[j] * error[j] * fabs(value - o[d]);
            size += weight[j] * fabs(value);
            double rounding = narrow ? weight[j] * type_table[weights].unit + type_table[weights].smallest : 0;
            double share = rounding * fabs(value);
            vanishes |= narrow && isinf(value) && weight[j] < type_table[weights].smallest;
            rounded += share;
            rounded_squared += share * share;
        }
        double narrowing = fmin(rounded, 6 * sqrt(rounded_squared));
        bound[d] = vanishes ? INFINITY : round_to(output, o[d], moved + size * sum_error(n) + narrowing / UNIT);
    }
}

/* lse = max + log(sum): the mean error of the weights, that of their sum, log (2 ulp), the
   change of base and the last addition. */
static double bound_lse(int64_t n, const double *weight, const double *error, double max, double lse) {
    double moved = sum_error(n) + 4 * fabs(lse - max) + 3 * fabs(lse) + 2;
    for (int64_t j = 0; j < n; j++)
        if (weight[j] != 0)
            moved += weight[j] * error[j];
    return isfinite(lse) ? moved * UNIT : 0;
}

/* Turn n scores and their errors (in units) into weights and theirs. Returns the maximum. */
static double weigh(int64_t n, double *score, double *error, double lse) {
    double max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        max = fmax(max, score[j]);
    for (int64_t j = 0; j < n; j++) {
        error[j] = weight_error(error[j], max - score[j]);
        score[j] = lse == -INFINITY ? 0 : exp(score[j] - lse);
    }
    return max;
}

/* The scores of one row and their errors (in units), the keys they are of, and the sink as key -1. Returns how many. */
static int64_t score_row(const struct oracle_attention *p, int64_t row, bool folded, int64_t *key, double *score,
                         double *error) {
    int64_t query = row % p->len_q, head = row / p->len_q % p->heads, batch = row / p->len_q / p->heads, seen = 0;
    const float *k = p->k + (batch * p->kv_heads + head / (p->heads / p->kv_heads)) * p->len_kv * p->head_dim;
    for (int64_t j = 0; j < p->len_kv; j++) {
        if (!oracle_sees(p, batch, head, query, j))
            continue;
        double dot = 0, size_of_terms = 0;
        for (int64_t d = 0; d < p->head_dim; d++) {
            double term = (double)p->q[row * p->head_dim + d] * (double)k[j * p->head_dim + d];
            dot += term;
            size_of_terms += fabs(term);
        }
        double s = p->scale * dot;
        /* head_dim fused terms, and the product with scale */
        double error_of_s = growth((double)p->head_dim) * fabs(p->scale) * size_of_terms + fabs(s);
        score[seen] = oracle_score(p, batch, head, query, j, s);
        if (p->score)
            error_of_s = score_error(p, batch, head, query, j, s, error_of_s * UNIT, folded) / UNIT;
        error[seen] = error_of_s + 2 * fabs(score[seen]); /* and the product with the base of exp */
        key[seen++] = j;
    }
    if (p->sinks) {
        score[seen] = p->sinks[head];
        error[seen] = 2 * fabs(score[seen]);
        key[seen++] = -1;
    }
    return seen;
}

bool tolerance_attention(const struct oracle_attention *p, enum tolerance_type weights, enum tolerance_type output,
                         const double *o, const double *lse, double *o_tolerance, double *lse_tolerance) {
    size_t room = (size_t)(p->len_kv > 0 ? p->len_kv : 0) + 1;
    double *score = malloc(sizeof *score * room), *error = malloc(sizeof *error * room);
    int64_t *key = malloc(sizeof *key * room), rows = p->batch * p->heads * p->len_q;
    for (int64_t row = 0; score && error && key && row < rows; row++) {
        int64_t head = row / p->len_q % p->heads, batch = row / p->len_q / p->heads;
        int64_t kv = (batch * p->kv_heads + head / (p->heads / p->kv_heads)) * p->len_kv;
        int64_t seen = score_row(p, row, weights != TOLERANCE_FP32, key, score, error);
        double max = weigh(seen, score, error, lse[row]);
        bound_row(seen, key, score, error, p->v + kv * p->head_dim_v, p->head_dim_v, p->head_dim_v, weights, output,
                  o + row * p->head_dim_v, o_tolerance + row * p->head_dim_v);
        lse_tolerance[row] = bound_lse(seen, score, error, max, lse[row]);
    }
    bool done = score && error && key;
    free(score);
    free(error);
    free(key);
    return done;
}

bool tolerance_softmax(const float *x, int64_t rows, int64_t cols, enum tolerance_type output, const double *y,
                       double *y_tolerance) {
    for (int64_t row = 0; row < rows; row++) {
        const float *scores = x + row * cols;
        const double *weight = y + row * cols;
        double max = -INFINITY, mean = 0;
        for (int64_t c = 0; c < cols; c++)
            max = fmax(max, (double)scores[c]);
        for (int64_t c = 0; c < cols; c++) /* the denominator's error is the mean error of the weights */
            if (weight[c] != 0)
                mean += weight[c] * weight_error(0, max - (double)scores[c]);
        mean += sum_error(cols);
        for (int64_t c = 0; c < cols; c++) {
            double own = weight[c] == 0 ? 0 : weight_error(0, max - (double)scores[c]);
            y_tolerance[row * cols + c] = round_to(output, weight[c], weight[c] * (own + mean));
        }
    }
    return true;
}

bool tolerance_merge(const float *o_parts, const float *lse_parts, int64_t parts, int64_t rows, int64_t head_dim_v,
                     enum tolerance_type output, const double *o, const double *lse, double *o_tolerance,
                     double *lse_tolerance) {
    size_t size = sizeof(double) * (size_t)(parts > 0 ? parts : 1);
    double *score = malloc(size), *error = malloc(size);
    for (int64_t row = 0; score && error && row < rows; row++) {
        for (int64_t i = 0; i < parts; i++) {
            score[i] = (double)lse_parts[i * rows + row];
            error[i] = 0;
        }
        double max = weigh(parts, score, error, lse[row]);
        bound_row(parts, NULL, score, error, o_parts + row * head_dim_v, rows * head_dim_v, head_dim_v, TOLERANCE_FP32,
                  output, o + row * head_dim_v, o_tolerance + row * head_dim_v);
        lse_tolerance[row] = bound_lse(parts, score, error, max, lse[row]);
    }
    bool done = score && error;
    free(score);
    free(error);
    return done;
}

bool tolerance_accepts(enum tolerance_type output, double expected, double found, double tolerance) {
    if (isnan(expected) || isnan(found))
        return isnan(found) && (isnan(expected) || (isinf(expected) && isinf(tolerance)));
    if (isinf(found) && isfinite(expected)) /* too large for the type */
        return (found > 0) == (expected > 0) && fabs(expected) + tolerance > type_table[output].largest;
    return expected == found || (isfinite(expected) && fabs(expected - found) <= tolerance);
}
