"""Kinds of input data, as edits of normal data, that are hard for a softmax computed in pieces.

An edit is (tensor, what, values...); side_cuda.py and side_host.py apply it. The values of `what`:

    times X         multiplies every element by X
    every N X       multiplies every N-th element by X
    abs             makes all elements positive
    grow X          multiplies the rows by factors that grow from 0 to X along the sequence
    repeat          every row is the first one
    column F        element 0 of every row is F(position, case)
    one H X         element 3 of the row 5 after the middle of head H of the first batch is X: inside a tile
    row H X         all of that row is X, as for a token whose layer has overflowed
    channel X       element 5 of every row is X
    all X           every element is X
"""
import math

HOT = 113  # how far a hot score is above the others: e^-113 is 0 in fp32
RISE = 64.0  # over the whole sequence
SPECIAL = [(name, what) for what in (math.nan, math.inf) for name in "qkv"]


def _scores(value):
    """Edits that add value(position, length) to the score of the key at that position, for all queries."""
    return ("q", "column", lambda _, case: 1 / case.factor), \
           ("k", "column", lambda place, case: value(place, case.len_kv))


def _hot(where):
    return _scores(lambda place, length: HOT if place == where(length) else 0)


KINDS = {
    "normal": (),
    "outliers": tuple((name, "every", 997, 50.0) for name in "qkv"),
    "growing": (("q", "abs"), ("k", "abs"), ("k", "grow", 4.0)),
    "equal": (("k", "repeat"),),
    "special": tuple((name, "one", head, what) for head, (name, what) in enumerate(SPECIAL)),
    # standard deviation of the scores, as exponents of e
    **{f"deviation_{x}": (("q", "times", float(x)),) for x in (1, 2, 4, 8, 16, 32, 64)},
    "rising": _scores(lambda place, length: RISE * place / length),
    "falling": _scores(lambda place, length: RISE * (length - place) / length),
    "hot_first": _hot(lambda length: 0),
    "hot_middle": _hot(lambda length: length // 2),
    "hot_last": _hot(lambda length: length - 1),
    "outliers_v": (("v", "every", 997, 1e4),),
    "nan_k": (("k", "one", 0, math.nan),),
    "nan_v": (("v", "one", 0, math.nan),),
    "nan_row_v": (("v", "row", 0, math.nan),),
    "nan_spread_v": (("v", "every", 997, math.nan),),
    "nan_channel_v": (("v", "channel", math.nan),),
    "inf_k": (("k", "one", 0, math.inf),),
    "inf_v": (("v", "one", 0, math.inf),),
    "all_nan": tuple((name, "all", math.nan) for name in "qkv"),
}


def finite(kind):
    return all(math.isfinite(x) for edit in KINDS[kind] for x in edit[2:] if isinstance(x, float))
