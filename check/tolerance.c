/* tolerance: rounding errors of fp32 arithmetic, followed through softmax and weighted sum to first order.
   Everything here is in units of one rounding of fp32, UNIT, until the last step. Names as in docs/numerics.md. */
#include "tolerance.h"
#include "score_error.h"

#include <math.h>
#include <stdlib.h>

static const double UNIT = 0x1p-24; /* relative error of one fp32 rounding */

const struct tolerance_rounding tolerance_roundings[] = {
    [TOLERANCE_FP32] = {0x1p-24, 0x1p-126, 0x1.fffffep127}, /* subnormals may be flushed to 0 */
    [TOLERANCE_FP16] = {0x1p-11, 0x1p-25, 65504},
    [TOLERANCE_BF16] = {0x1p-8, 0x1p-126, 0x1.fep127},
    [TOLERANCE_E4M3] = {0x1p-4, 0x1p-10, 448},
    [TOLERANCE_E5M2] = {0x1p-3, 0x1p-17, 57344},
    [TOLERANCE_INT8] = {0, 0.5, 127},
    [TOLERANCE_TF32X3] = {0x1p-24, 0x1p-126, 0x1.fffffep127},
    [TOLERANCE_TF32] = {0x1p-11, 0x1p-126, 0x1.ffep127},
};

/* Errors of products of fp32 numbers on tensor cores (docs/numerics.md). */
static const struct {
    double rounding; /* of both operands, relative to their product; independent */
    double left_out; /* neglected part of a product, in units, always of the same sign */
    double step;     /* error that 8 more terms add to a sum, in units */
} product_table[] = {
    [TOLERANCE_TF32X3] = {0, 24, 33},
    [TOLERANCE_TF32] = {0x1p-10, 0, 11},
};

enum { STEP = 8, TILE = 64 }; /* terms per step; most keys whose products are summed on tensor cores */

static double steps(double n) { return ceil(n / STEP); }

double tolerance_growth(double n) { return fmin(n, 6 * sqrt(n)); }

/* Relative error of a weight exp(score - max): the score's own error, the subtraction and the change of base (each a
   rounding of score - max), exp itself (2 ulp = 4 units), and a few products. */
static double weight_error(double score_error, double distance) { return score_error + 2 * distance + 8; }

/* Additional error of an online sum of n weighted terms: each step may rescale (exp, product) and adds. */
static double sum_error(int64_t n) { return 6 * tolerance_growth((double)n); }

static double round_to(enum tolerance_type output, double value, double error) {
    return error * UNIT + tolerance_roundings[output].unit * (fabs(value) + error * UNIT) +
           tolerance_roundings[output].smallest;
}

/* Scales of the rows of V of one head, and the largest of them. */
struct scales {
    const float *of_row;
    double most;
};

static struct scales scales_of(const float *of_row, int64_t rows) {
    struct scales scales = {of_row, 0x1p-100}; /* the least unit */
    for (int64_t j = 0; of_row && j < rows; j++)
        if (isfinite(of_row[j]))
            scales.most = fmax(scales.most, fabs((double)of_row[j]));
    return scales;
}

/* Bounds the error of one output row: the sum of weights times value rows. key[j] is the row of weight j (null: row j);
   -1 stands for a row of zeros, as a sink has. keep[j] multiplies that row (null: 1), as dropout does. `weight` sums to
   1, `error` holds the relative error of each weight in units. To first order these errors move o by the sum of weight
   * error * (value - o). Weights rounded to `weights` for the product alone move it by the sum of weight * rounding *
   value; these roundings are independent, too. `scale`: factors of the value rows (null: 1). A scale multiplies its
   weight before the weight is rounded, in units of at most the largest scale. */
static void bound_row(int64_t n, const int64_t *key, const double *keep, const double *weight, const double *error,
                      const float *values, const struct scales *scale, int64_t stride, int64_t width,
                      enum tolerance_type weights, enum tolerance_type output, const double *o, double *bound) {
    bool narrow = weights != TOLERANCE_FP32 && weights != TOLERANCE_TF32X3;
    double unit = weights == TOLERANCE_TF32 ? product_table[weights].rounding : tolerance_roundings[weights].unit;
    double smallest = tolerance_roundings[weights].smallest;
    double on_tensor_cores =
        product_table[weights].left_out + product_table[weights].step * steps(fmin((double)n, TILE));
    for (int64_t d = 0; d < width; d++) {
        double moved = 0, size = fabs(o[d]), rounded = 0, rounded_squared = 0;
        bool vanishes = false; /* the weight of an infinity may round to 0 */
        for (int64_t j = 0; j < n; j++) {
            if (weight[j] == 0)
                continue;
            int64_t row = key ? key[j] : j;
            double element = row < 0 ? 0 : (double)values[row * stride + d];
            if (keep)
                element = keep[j] == 0 && isfinite(element) ? 0 : element * keep[j];
            double value = scale && row >= 0 ? element * (double)scale->of_row[row] : element;
            moved += weight[j] * error[j] * fabs(value - o[d]);
            size += weight[j] * fabs(value);
            double least = smallest * (scale ? scale->most * fabs(element) : fabs(value));
            double share = narrow ? weight[j] * unit * fabs(value) + least : 0;
            vanishes |= narrow && isinf(value) && weight[j] < smallest;
            rounded += share;
            rounded_squared += share * share;
        }
        double narrowing = fmin(rounded, 6 * sqrt(rounded_squared));
        moved +=
            size * (sum_error(n) + on_tensor_cores + (scale ? 1 : 0)) + narrowing / UNIT; /* and product with scale */
        if (keep) /* 1 / (1 - p) is rounded, and so is the product with it */
            moved += 2 * fabs(o[d]);
        bound[d] = vanishes ? INFINITY : round_to(output, o[d], moved);
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

/* Turns n scores and their errors (in units) into weights and their errors. Returns the maximum. */
static double softmax_with_errors(int64_t n, double *score, double *error, double lse) {
    double max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        max = fmax(max, score[j]);
    for (int64_t j = 0; j < n; j++) {
        error[j] = weight_error(error[j], max - score[j]);
        score[j] = lse == -INFINITY ? 0 : exp(score[j] - lse);
    }
    return max;
}

/* Error of the product of a row of Q and a row of K, in units. `terms`: sum of the absolute values of its terms;
   `squares`: sum of their squares. */
static double product_error(enum tolerance_type type, int64_t head_dim, double terms, double squares) {
    if (type != TOLERANCE_TF32X3 && type != TOLERANCE_TF32)
        return tolerance_growth((double)head_dim) * terms; /* fused multiply-adds */
    double rounding = product_table[type].rounding;
    return (product_table[type].left_out + product_table[type].step * steps((double)head_dim)) * terms +
           fmin(rounding * terms, 6 * rounding * sqrt(squares)) / UNIT;
}

/* Error of an element of a row of Q where kernels divide the row by a power of two, so that its largest element is
   between 2^14 and 2^15, and round it to fp16: half the smallest subnormal. Normal numbers stay exact: bf16 has fewer
   digits than fp16. */
static double query_error(const struct oracle_attention *p, int64_t row) {
    double most = 0x1p-100;
    for (int64_t d = 0; p->queries_in_fp16 && d < p->head_dim; d++)
        if (isfinite(p->q[row * p->head_dim + d]))
            most = fmax(most, fabs((double)p->q[row * p->head_dim + d]));
    return p->queries_in_fp16 ? tolerance_roundings[TOLERANCE_FP16].smallest * ldexp(1, ilogb(most) - 14) : 0;
}

/* Error of a product of two elements that comes from errors of the elements themselves. */
static double moved_term(const struct oracle_attention *p, int64_t q, int64_t k) {
    double of_q = p->q_error ? p->q_error[q] : 0, of_k = p->k_error ? p->k_error[k] : 0;
    return of_q * fabs((double)p->k[k]) + of_k * fabs((double)p->q[q]) + of_q * of_k;
}

/* Computes the scores of one row, their errors (in units) and their keys; the sink has key -1. Returns their number. */
static int64_t score_row(const struct oracle_attention *p, int64_t row, enum tolerance_type type, int64_t *key,
                         double *score, double *error) {
    int64_t query = row % p->len_q, head = row / p->len_q % p->heads, batch = row / p->len_q / p->heads, seen = 0;
    const float *k = p->k + (batch * p->kv_heads + head / (p->heads / p->kv_heads)) * p->len_kv * p->head_dim;
    const double off = query_error(p, row);
    for (int64_t j = 0; j < oracle_len_kv(p, batch); j++) {
        if (!oracle_sees(p, batch, head, query, j))
            continue;
        double dot = 0, size_of_terms = 0, squares = 0, size_of_k = 0, moved = 0;
        for (int64_t d = 0; d < p->head_dim; d++) {
            double term = (double)p->q[row * p->head_dim + d] * (double)k[j * p->head_dim + d];
            dot += term;
            size_of_terms += fabs(term);
            squares += term * term;
            size_of_k += fabs((double)k[j * p->head_dim + d]);
            moved += moved_term(p, row * p->head_dim + d, (k - p->k) + j * p->head_dim + d);
        }
        double scale = p->scale * oracle_scale(p, p->k_scale, batch, head, j), s = scale * dot;
        /* errors of the terms, of Q in fp16, and of the products with scale and with the scale of K */
        double error_of_s = fabs(scale) * (product_error(type, p->head_dim, size_of_terms, squares) +
                                           (off * size_of_k + moved) / UNIT) +
                            (p->k_scale ? 2 : 1) * fabs(s);
        score[seen] = oracle_score(p, batch, head, query, j, s);
        if (p->score)
            error_of_s = score_error(p, batch, head, query, j, s, error_of_s * UNIT, type != TOLERANCE_FP32) / UNIT;
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
    double *keep = malloc(sizeof *keep * room);
    int64_t *key = malloc(sizeof *key * room), rows = p->batch * p->heads * p->len_q;
    for (int64_t row = 0; score && error && keep && key && row < rows; row++) {
        int64_t head = row / p->len_q % p->heads, batch = row / p->len_q / p->heads;
        int64_t kv = (batch * p->kv_heads + head / (p->heads / p->kv_heads)) * p->len_kv;
        if (row % p->len_q >= oracle_len_q(p, batch))
            continue;
        int64_t seen = score_row(p, row, weights, key, score, error);
        double max = softmax_with_errors(seen, score, error, lse[row]);
        for (int64_t j = 0; p->dropout && j < seen; j++)
            keep[j] = key[j] < 0 ? 0 : oracle_keep(p, batch, head, row % p->len_q, key[j]);
        struct scales scales = scales_of(p->v_scale ? p->v_scale + kv : NULL, p->len_kv);
        bound_row(seen, key, p->dropout ? keep : NULL, score, error, p->v + kv * p->head_dim_v,
                  scales.of_row ? &scales : NULL, p->head_dim_v, p->head_dim_v, weights, output,
                  o + row * p->head_dim_v, o_tolerance + row * p->head_dim_v);
        lse_tolerance[row] = bound_lse(seen, score, error, max, lse[row]);
    }
    bool done = score && error && keep && key;
    free(score);
    free(error);
    free(keep);
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
        double max = softmax_with_errors(parts, score, error, lse[row]);
        bound_row(parts, NULL, NULL, score, error, o_parts + row * head_dim_v, NULL, rows * head_dim_v, head_dim_v,
                  TOLERANCE_FP32, output, o + row * head_dim_v, o_tolerance + row * head_dim_v);
        lse_tolerance[row] = bound_lse(parts, score, error, max, lse[row]);
    }
    bool done = score && error;
    free(score);
    free(error);
    return done;
}

/* An angle in turns is rounded once, to within pi u; cosine and sine are within 2 ulp = 4u. A rotated element is a
   rounded product and a fused multiply-add. */
void tolerance_rope(const struct oracle_rope *rope, int64_t position, const float *x, int64_t head_dim, const double *y,
                    double *y_error) {
    double angle_error = rope->cosine ? 0 : 8;
    for (int64_t d = 0; d < head_dim; d++)
        y_error[d] = 0;
    for (int64_t i = 0; i < rope->dim / 2; i++) {
        double cosine, sine;
        int64_t a, b;
        oracle_rope_angle(rope, position, i, &cosine, &sine);
        oracle_rope_pair(rope, i, &a, &b);
        double xa = fabs((double)x[a]), xb = fabs((double)x[b]), turned = angle_error * (xa + xb);
        y_error[a] = UNIT * (turned + xb * fabs(sine) + fabs(y[a])) * (1 + 8 * UNIT);
        y_error[b] = UNIT * (turned + xa * fabs(sine) + fabs(y[b])) * (1 + 8 * UNIT);
    }
}

double tolerance_round(enum tolerance_type type, double value, double error) {
    return round_to(type, value, error / UNIT);
}

bool tolerance_accepts(enum tolerance_type output, double expected, double found, double tolerance) {
    if (isnan(expected) || isnan(found))
        return isnan(found) && (isnan(expected) || (isinf(expected) && isinf(tolerance)));
    if (isinf(found) && isfinite(expected)) /* too large for the type */
        return (found > 0) == (expected > 0) && fabs(expected) + tolerance > tolerance_roundings[output].largest;
    return expected == found || (isfinite(expected) && fabs(expected - found) <= tolerance);
}
