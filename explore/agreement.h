/* agreement: how well a model that has never seen a kernel predicts the order of the measured times. */
#ifndef ATTILE_AGREEMENT_H
#define ATTILE_AGREEMENT_H

/* One kernel of one cell (a problem at a shape); kernels of a cell compete. */
struct agreement_point {
    int cell;
    double predicted, measured; /* seconds, above 0 */
};

enum { AGREEMENT_FIRST = 8 };

struct agreement_cell {
    int kernels;
    double loss; /* measured time of the model's first choice divided by the measured best */
    double rank; /* place of the measured best in the model's order, from 1; a tie counts as its middle */
};

struct agreement {
    int points, cells;   /* cells with at least two kernels */
    int pairs, in_order; /* pairs in a cell whose measurements differ by 1 % or more; those predicted in that order */
    int first_few;       /* cells whose measured best is among the model's first AGREEMENT_FIRST */
    double loss;         /* geometric mean over the cells */
    double error;        /* root mean square of log(predicted / measured) */
};

/* Points of a cell need not be adjacent. `each` (may be null) is called for every cell that counts. */
void agreement_find(const struct agreement_point *point, int points, struct agreement *agreement,
                    void (*each)(void *context, int cell, const struct agreement_cell *), void *context);

#endif
