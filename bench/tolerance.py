"""How far LSE may differ from the exact one: "Tolerance" in docs/numerics.md. Scores are numbers or tensors of them."""
UNIT = 2.0**-24  # one rounding to fp32


def roundings(terms):
    """The total error of `terms` roundings, in units."""
    return min(terms, 6 * terms**0.5)


def weight(score, size, highest, head_dim):
    """The relative error of exp(score - highest), in units. size: the sum of the score's products, made positive."""
    return roundings(head_dim) * size + 3 * abs(score) + 2 * (highest - score) + 8


def lse(weights, keys, exact, highest):
    """The largest error of LSE. weights: the mean of `weight` over the keys that are seen, weighted by their shares."""
    return UNIT * (weights + 6 * roundings(keys) + 4 * abs(exact - highest) + 3 * abs(exact) + 2)


def share(found, exact, bound):
    """The error relative to the bound; infinite if special values differ."""
    if found == exact or found != found and exact != exact:
        return 0.0
    error = abs(found - exact) / bound
    return error if error < float("inf") else float("inf")  # also for NaN
