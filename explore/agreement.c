#include "agreement.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

static const double TIE = 0.01; /* as a logarithm: two measurements closer than this have no order */

static void count_pairs(const struct agreement_point *point, int points, struct agreement *a) {
    for (int i = 0; i < points; i++)
        for (int k = 0; k < i; k++) {
            if (point[i].cell != point[k].cell)
                continue;
            double measured = log(point[i].measured / point[k].measured);
            double predicted = log(point[i].predicted / point[k].predicted);
            if (fabs(measured) < TIE)
                continue;
            a->pairs++;
            a->in_order += measured * predicted > 0;
        }
}

static struct agreement_cell judge(const struct agreement_point *point, int points, int cell) {
    struct agreement_cell judged = {.rank = 1};
    const struct agreement_point *best = NULL, *chosen = NULL;
    for (int i = 0; i < points; i++) {
        if (point[i].cell != cell)
            continue;
        judged.kernels++;
        if (!best || point[i].measured < best->measured)
            best = &point[i];
        if (!chosen || point[i].predicted < chosen->predicted)
            chosen = &point[i];
    }
    for (int i = 0; best && i < points; i++)
        if (point[i].cell == cell && &point[i] != best)
            judged.rank += point[i].predicted < best->predicted ? 1 : point[i].predicted == best->predicted ? 0.5 : 0;
    judged.loss = best ? chosen->measured / best->measured : 1;
    return judged;
}

void agreement_find(const struct agreement_point *point, int points, struct agreement *a,
                    void (*each)(void *context, int cell, const struct agreement_cell *), void *context) {
    double squares = 0, losses = 0;
    *a = (struct agreement){.points = points, .loss = 1};
    count_pairs(point, points, a);
    for (int i = 0; i < points; i++) {
        double error = log(point[i].predicted / point[i].measured);
        bool seen = false;
        squares += error * error;
        for (int k = 0; k < i && !seen; k++)
            seen = point[k].cell == point[i].cell;
        if (seen)
            continue;
        struct agreement_cell cell = judge(point, points, point[i].cell);
        if (cell.kernels < 2)
            continue;
        a->cells++;
        a->first_few += cell.rank <= AGREEMENT_FIRST;
        losses += log(cell.loss);
        if (each)
            each(context, point[i].cell, &cell);
    }
    a->error = points ? sqrt(squares / points) : 0;
    a->loss = a->cells ? exp(losses / a->cells) : 1;
}
