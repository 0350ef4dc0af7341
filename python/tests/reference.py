"""Attention by its definition in double precision, and the allowed error of a kernel: "Tolerance" of docs/numerics.md.

Arrays q, k, v are (batch, heads, length, dim). mask(b, h, q, k) -> seen and score(s, b, h, q, k) -> s take arrays that
broadcast, with positions as in the expressions: the last query and the last key have the same position.
"""

import numpy as np

UNIT = 2.0**-24  # one rounding to fp32
ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SUBNORMAL = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
STEPS = 12  # most roundings of a score that is an expression, each relative to the size of the summed terms


def roundings(terms):
    return min(terms, 6 * terms**0.5)


def attention(q, k, v, mask=None, score=None, scale=None, sinks=None, dtype="float32"):
    """Returns (o, lse, bound of the error of o, bound of the error of lse), all in double precision."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    (batch, heads, len_q, head_dim), (_, kv_heads, len_kv, _) = q.shape, k.shape
    k, v = (np.repeat(x, heads // kv_heads, axis=1) for x in (k, v))
    scale = head_dim**-0.5 if scale is None else scale
    s = scale * np.einsum("bhqd,bhkd->bhqk", q, k)
    off = roundings(head_dim) * abs(scale) * np.einsum("bhqd,bhkd->bhqk", abs(q), abs(k)) + 3 * abs(s)
    b, h = np.arange(batch)[:, None, None, None], np.arange(heads)[None, :, None, None]
    i = np.arange(len_q)[None, None, :, None] + len_kv - len_q
    j = np.arange(len_kv)[None, None, None, :]
    if score:
        plain = s
        s = np.broadcast_to(score(plain, b, h, i, j), plain.shape)
        with np.errstate(invalid="ignore"):
            spread = abs(score(plain + off * UNIT, b, h, i, j) - score(plain - off * UNIT, b, h, i, j)) / UNIT / 2
            size = np.maximum(abs(plain), abs(s)) + abs(s - plain)
        off = np.where(np.isfinite(s), spread + STEPS * size, 0)
    if mask:
        s = np.where(mask(b, h, i, j), s, -np.inf)
    return _softmax(s, off, v, sinks, dtype)


def _softmax(s, off, v, sinks, dtype):
    highest = np.max(s, axis=-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        highest = np.maximum(highest, np.asarray(sinks, np.float64)[None, :, None, None])
    base = np.where(np.isfinite(highest), highest, 0)
    weights = np.exp(s - base)
    total = weights.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(np.asarray(sinks, np.float64)[None, :, None, None] - base)
    with np.errstate(divide="ignore"):
        lse = (base + np.log(total))[..., 0]
    weights = weights / np.where(total == 0, 1, total)
    o = weights @ v
    # Relative error of each weight; 0 for keys that are not seen.
    error = np.where(np.isfinite(s), off + 2 * (base - np.where(np.isfinite(s), s, base)) + 8, 0)
    terms = roundings(max(s.shape[-1], 1))
    bound = 6 * terms * (abs(o) + weights @ abs(v))
    for at in np.ndindex(s.shape[:3]):  # row by row, to keep memory small
        apart = abs(v[at[:2]] - o[at])
        bound[at] += (weights[at] * error[at]) @ apart
    bound = UNIT * bound + ROUNDING[dtype] * abs(o) + SUBNORMAL[dtype]
    if dtype != "float32":  # a tensor-core kernel rounds each weight
        moved = (ROUNDING[dtype] * weights + SUBNORMAL[dtype] / 2)[..., None] * abs(v)[:, :, None] if s.size < 1e7 else None
        bound += np.minimum(moved.sum(-2), 6 * np.sqrt((moved**2).sum(-2)))
    peak = np.where(np.isfinite(lse), abs(lse - base[..., 0]), 0)
    size = np.where(np.isfinite(lse), abs(lse), 0)
    lse_bound = UNIT * ((weights * error).sum(-1) + 6 * terms + 4 * peak + 3 * size + 2)
    return o, lse, bound, lse_bound


def check(found, expected, bound):
    """Fails with the worst element. Infinities must be equal; NaN always fails."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected)
    assert found.shape == expected.shape
    with np.errstate(invalid="ignore"):
        share = np.where(found == expected, 0, abs(found - expected) / bound)
    assert share.size == 0 or np.nanmax(share) <= 1 and not np.isnan(share).any(), (
        f"the worst of {share.size} elements is {np.nanmax(share):.3g} times as far off as allowed, at "
        f"{np.unravel_index(np.nanargmax(share), share.shape)}; NaN: {np.isnan(share).sum()}"
    )
