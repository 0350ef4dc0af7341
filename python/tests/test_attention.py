"""attile.attention on NumPy arrays, compared with the definition."""

import attile
import numpy as np
import pytest
import reference

HEADS = 4
SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
DOCUMENTS = np.array([[0] * 10 + [1] * 23, [0] * 20 + [1] * 5 + [2] * 8], np.int64)

# {name: (keyword arguments of attention, mask, score)}, with positions as in the expressions
RULES = {
    "none": ({}, None, None),
    "causal": ({"mask": "causal"}, lambda b, h, q, k: k <= q, None),
    "window": (
        {"mask": "k <= q and q - k < window", "params": {"window": 5}},
        lambda b, h, q, k: (k <= q) & (q - k < 5),
        None,
    ),
    "documents": (
        {"mask": "document(doc)", "params": {"doc": DOCUMENTS}},
        lambda b, h, q, k: DOCUMENTS[b, q] == DOCUMENTS[b, k],
        None,
    ),
    "declared": (
        {"mask": "document(doc)", "params": {"doc: int[batch, len_kv]": DOCUMENTS}},
        lambda b, h, q, k: DOCUMENTS[b, q] == DOCUMENTS[b, k],
        None,
    ),
    "alibi": (
        {"mask": "causal", "score": "alibi(slopes)", "params": {"slopes": SLOPES}},
        lambda b, h, q, k: k <= q,
        lambda s, b, h, q, k: s + SLOPES.astype(np.float64)[h] * (k - q),
    ),
    "softcap": (
        {"score": "softcap(cap)", "params": {"cap": 3.0}},
        None,
        lambda s, b, h, q, k: 3 * np.tanh(s / 3),
    ),
    "nobody": ({"mask": "k < 0"}, lambda b, h, q, k: (k < 0) & (q > -9), None),
    "switch": (
        {"mask": "k <= q or open", "params": {"open": True}},
        lambda b, h, q, k: (k <= q) | True,
        None,
    ),
}


def tensors(seed=0, len_q=20, len_kv=33, kv_heads=2, head_dim=16, head_dim_v=24, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return tuple(
        rng.standard_normal((2, heads, length, dim)).astype(dtype)
        for heads, length, dim in ((HEADS, len_q, head_dim), (kv_heads, len_kv, head_dim), (kv_heads, len_kv, head_dim_v))
    )


def check(found, q, k, v, dtype="float32", **how):
    o, lse, bound, lse_bound = reference.attention(q, k, v, dtype=dtype, **how)
    reference.check(found[0], o, bound)
    reference.check(found[1], lse, lse_bound)


@pytest.mark.parametrize("rule", RULES)
def test_is_the_definition(rule):
    words, mask, score = RULES[rule]
    q, k, v = tensors()
    found = attile.attention(q, k, v, layout="bhsd", return_lse=True, **words)
    assert type(found[0]) is np.ndarray and found[0].dtype == np.float32
    check(found, q, k, v, mask=mask, score=score)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_types_and_layouts(dtype):
    q, k, v = tensors(dtype=dtype)
    o, lse = attile.attention(*(x.transpose(0, 2, 1, 3).copy() for x in (q, k, v)), mask="causal", return_lse=True)
    assert o.dtype == dtype and lse.dtype == np.float32
    check((o.transpose(0, 2, 1, 3), lse), q, k, v, dtype, mask=lambda b, h, q, k: k <= q)


def test_strides_and_odd_addresses():
    """Slices of larger arrays; one of them begins 4 bytes after a multiple of 16."""
    big = np.random.default_rng(1).standard_normal((2, HEADS, 40, 21)).astype(np.float32)
    q, k, v = big[:, :, 3:20, 1:17], big[:, ::2, 5:33, 2:18], big[:, 1::2, 5:33, 0:16]
    check(attile.attention(q, k, v, layout="bhsd", return_lse=True), q, k, v)


def test_a_key_repeated_for_the_whole_batch():
    q, k, v = tensors()
    k, v = (np.broadcast_to(x[:1], x.shape) for x in (k, v))
    check(attile.attention(q, k, v, layout="bhsd", return_lse=True), q, k, v)


@pytest.mark.parametrize("scale", [None, 0.5, 0, -0.25])
def test_scale(scale):
    q, k, v = tensors()
    found = attile.attention(q, k, v, layout="bhsd", scale=scale, return_lse=True)
    check(found, q, k, v, scale=scale)


def test_sinks():
    q, k, v = tensors()
    sinks = np.array([-1, 0, 1, 2], np.float32)
    check(attile.attention(q, k, v, layout="bhsd", sinks=sinks, return_lse=True), q, k, v, sinks=sinks)


@pytest.mark.parametrize("len_q, len_kv", [(0, 5), (5, 0), (1, 1), (1, 40), (40, 1)])
def test_lengths(len_q, len_kv):
    q, k, v = tensors(len_q=len_q, len_kv=len_kv)
    found = attile.attention(q, k, v, mask="causal", layout="bhsd", return_lse=True)
    check(found, q, k, v, mask=lambda b, h, q, k: k <= q)


def test_a_schedule_that_is_asked_for_is_taken():
    q, k, v = tensors()
    words = {"layout": "bhsd", "return_lse": True}
    check(attile.attention(q, k, v, schedule="algorithm=materialized", **words), q, k, v)
    with pytest.raises(attile.errors.InvalidText, match="did you mean 'flash'"):
        attile.attention(q, k, v, schedule="algorithm=flsh", **words)


def test_growing_lengths_ask_for_few_kernels():
    """Sizes are hints for the choice of a kernel; no kernel is compiled for them."""
    from attile.session import session_for

    asked = []
    session = session_for("host")
    find, session.find = session.find, lambda *words: asked.append(words) or find(*words)
    try:
        for length in range(17, 33):
            q, k, v = tensors(len_q=1, len_kv=length)
            attile.attention(q, k, v, layout="bhsd", mask="causal")
    finally:
        del session.find
    said = [next(word for word in problem.split() if word.startswith("len_kv=")) for problem, _ in asked]
    assert said == [f"len_kv={length}" for length in (20, 24, 28, 32) for _ in range(4)]
