/* oracle: reference answers in double precision, from the definition, in three plain passes. Shares no code with the
   kernels; slow on purpose. Inputs are the values that the kernel saw (already rounded to the element type), as
   float. */
#ifndef ATTILE_ORACLE_H
#define ATTILE_ORACLE_H

#include "formula.h"
#include "oracle_dropout.h"

#include <stdbool.h>
#include <stdint.h>

struct oracle_attention {
    const float *q; /* (batch, heads, len_q, head_dim), contiguous */
    const float *k; /* (batch, kv_heads, len_kv, head_dim) */
    const float *v; /* (batch, kv_heads, len_kv, head_dim_v) */
    int64_t batch, heads, kv_heads, len_q, len_kv, head_dim, head_dim_v;
    double scale; /* S = scale * Q K^T; no default here */
    bool causal;  /* key k is seen by query q when k <= q + len_kv - len_q */
    /* Expressions, or null: the mask is what `causal` says, and scores stay unchanged. */
    const struct formula *mask, *score;
    const struct formula_env *env;        /* sizes and parameters of both; null when there are none */
    const struct oracle_dropout *dropout; /* null = none */
    const double *sinks;                  /* (heads): one extra logit for each row, without a row of V; null = none */
    /* Position of row 0 of head 0 when this is a part of a larger problem: added to the indices that mask and score
       see. */
    struct {
        int64_t batch, head, kv_head, query;
    } from;
    /* (batch): how many of the len_q queries and len_kv keys each sequence has; null = all of them. Mask and score see
       these lengths. */
    const int64_t *own_len_q, *own_len_kv;
    const float *k_scale, *v_scale;  /* (batch, kv_heads, len_kv): factors of the rows of K and V; null = 1 */
    const double *q_error, *k_error; /* for the tolerance: absolute errors of the elements of Q and K; null = 0 */
    bool
        queries_in_fp16; /* for the tolerance: the kernel divides rows of Q by a power of two and rounds them to fp16 */
};

/* Return the numbers of queries and keys of a sequence. */
int64_t oracle_len_q(const struct oracle_attention *problem, int64_t b);
int64_t oracle_len_kv(const struct oracle_attention *problem, int64_t b);

/* Returns the factor of row j of K or V for a head. `scale`: k_scale or v_scale. */
double oracle_scale(const struct oracle_attention *problem, const float *scale, int64_t b, int64_t h, int64_t j);

/* oracle_sees: true if the query sees the key. oracle_score: the score of the pair, given its scaled product s. */
bool oracle_sees(const struct oracle_attention *problem, int64_t b, int64_t h, int64_t query, int64_t key);
double oracle_score(const struct oracle_attention *problem, int64_t b, int64_t h, int64_t query, int64_t key, double s);

/* Returns the factor that dropout applies to the weight of the pair; 1 without dropout. */
double oracle_keep(const struct oracle_attention *problem, int64_t b, int64_t h, int64_t query, int64_t key);

/* Returns what mask and score see for the pair; env is not null. */
struct formula_env oracle_env(const struct oracle_attention *problem, int64_t b, int64_t h, int64_t query, int64_t key);

/* o: (batch, heads, len_q, head_dim_v); lse: (batch, heads, len_q), natural logarithm; both contiguous and not null. A
   row that sees no key gives o = 0 and lse = -inf, or lse = its sink. A row beyond the queries of its sequence gives
   o = 0 and lse = -inf, with or without a sink. False when memory runs out (one row of scores is needed). */
bool oracle_attention(const struct oracle_attention *problem, double *o, double *lse);

/* y[r][c] = exp(x[r][c]) / sum over c of exp(x[r][c]); x and y: (rows, cols), contiguous. */
void oracle_softmax(const float *x, int64_t rows, int64_t cols, double *y);

/* Rotary position embedding of the first `dim` elements of a row, in pairs. */
struct oracle_rope {
    bool halves; /* pairs are (i, i + dim / 2); else (2 i, 2 i + 1) */
    int64_t dim;
    double base;                /* pair i turns by position * base^(-2 i / dim) radians */
    const float *cosine, *sine; /* (positions, dim / 2): tables that replace `base`; null = none */
};
/* Computes the cosine and the sine for pair i. */
void oracle_rope_angle(const struct oracle_rope *rope, int64_t position, int64_t i, double *cosine, double *sine);
/* Sets *first and *second to the elements of the row that form pair i. */
void oracle_rope_pair(const struct oracle_rope *rope, int64_t i, int64_t *first, int64_t *second);
/* x, y: (head_dim). */
void oracle_rope_row(const struct oracle_rope *rope, int64_t position, const float *x, int64_t head_dim, double *y);

/* Merges `parts` partial results with weights exp(lse_part - lse): o_parts (parts, rows, head_dim_v),
   lse_parts (parts, rows) -> o (rows, head_dim_v), lse (rows). No parts, or all -inf: o = 0, lse = -inf. */
void oracle_merge(const float *o_parts, const float *lse_parts, int64_t parts, int64_t rows, int64_t head_dim_v,
                  double *o, double *lse);

#endif
