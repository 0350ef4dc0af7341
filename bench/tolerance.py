"""How far LSE may be off the exact one: "Tolerance" of docs/numerics.md. Scores are numbers, or tensors of them."""
UNIT = 2.0**-24  # one rounding to fp32


def roundings(terms):
    """What so many roundings come to, in units."""
    return min(terms, 6 * terms**0.5)


def weight(score, size, highest, head_dim):
    """The error of exp(score - highest), relative, in units. size: the score's products made positive, summed."""
    return roundings(head_dim) * size + 3 * abs(score) + 2 * (highest - score) + 8


def lse(weights, keys, exact, highest):
    """The most that LSE is off. weights: the mean of `weight` over the keys that are seen, by their shares."""
    return UNIT * (weights + 6 * roundings(keys) + 4 * abs(exact - highest) + 3 * abs(exact) + 2)


def share(found, exact, bound):
    """The error in proportion to the bound; infinite where a special value is not the same."""
    if found == exact or found != found and exact != exact:
        return 0.0
    error = abs(found - exact) / bound
    return error if error < float("inf") else float("inf")  # of NaN, too
