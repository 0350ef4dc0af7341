#include "oracle.h"

#include <math.h>
#include <stdlib.h>

/* Turn n scores into weights that sum to one, in place; returns log(sum(exp(score))). */
static double softmax_row(double *score, int64_t n) {
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) /* pass 1: maximum (a NaN stays one) */
        if (score[i] > max || isnan(score[i]))
            max = score[i];
    if (max == -INFINITY) {
        for (int64_t i = 0; i < n; i++)
            score[i] = 0;
        return -INFINITY;
    }
    for (int64_t i = 0; i < n; i++) /* pass 2: denominator */
        sum += score[i] = exp(score[i] - max);
    for (int64_t i = 0; i < n; i++) /* pass 3: weights */
        score[i] /= sum;
    return max + log(sum);
}

bool oracle_attention(const struct oracle_attention *p, double *o, double *lse) {
    double *score = malloc(sizeof *score * (size_t)(p->len_kv > 0 ? p->len_kv : 1));
    if (!score)
        return false;
    int64_t group = p->kv_heads > 0 ? p->heads / p->kv_heads : 1;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->len_q; i++) {
                int64_t row = (b * p->heads + h) * p->len_q + i;
                int64_t kv = (b * p->kv_heads + h / group) * p->len_kv;
                int64_t seen = p->len_kv;
                if (p->causal && i + p->len_kv - p->len_q + 1 < seen)
                    seen = i + p->len_kv - p->len_q + 1;
                if (seen < 0)
                    seen = 0;
                for (int64_t j = 0; j < seen; j++) {
                    double dot = 0;
                    for (int64_t d = 0; d < p->head_dim; d++)
                        dot += (double)p->q[row * p->head_dim + d] * (double)p->k[(kv + j) * p->head_dim + d];
                    score[j] = p->scale * dot;
                }
                lse[row] = softmax_row(score, seen);
                for (int64_t d = 0; d < p->head_dim_v; d++) {
                    double sum = 0;
                    for (int64_t j = 0; j < seen; j++)
                        sum += score[j] * (double)p->v[(kv + j) * p->head_dim_v + d];
                    o[row * p->head_dim_v + d] = sum;
                }
            }
    free(score);
    return true;
}

void oracle_softmax(const float *x, int64_t rows, int64_t cols, double *y) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            y[r * cols + c] = x[r * cols + c];
        softmax_row(y + r * cols, cols);
    }
}

void oracle_merge(const float *o_parts, const float *lse_parts, int64_t parts, int64_t rows, int64_t head_dim_v,
                  double *o, double *lse) {
    for (int64_t r = 0; r < rows; r++) {
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < parts; i++) {
            double part = lse_parts[i * rows + r];
            if (part > max || isnan(part))
                max = part;
        }
        for (int64_t d = 0; d < head_dim_v; d++)
            o[r * head_dim_v + d] = 0;
        lse[r] = -INFINITY;
        if (max == -INFINITY)
            continue;
        for (int64_t i = 0; i < parts; i++)
            sum += exp(lse_parts[i * rows + r] - max);
        lse[r] = max + log(sum);
        for (int64_t i = 0; i < parts; i++) {
            double weight = exp(lse_parts[i * rows + r] - max) / sum;
            for (int64_t d = 0; weight != 0 && d < head_dim_v; d++) /* an empty part adds nothing, whatever it holds */
                o[r * head_dim_v + d] += weight * (double)o_parts[(i * rows + r) * head_dim_v + d];
        }
    }
}
