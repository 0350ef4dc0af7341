"""attile.append_kv on NumPy arrays, compared with rotations and roundings in double precision."""

import attile
import numpy as np
import pytest
from attile import errors
from test_sequences import PAGE, PAGES, csr_of, int32, sums, table_of

HEADS, KV_HEADS, DIM, DIM_V, ROOM = 4, 2, 16, 12, 24
NEW, LENGTHS = [5, 0, 3, 1], [20, 7, 3, 24]  # the lengths include the new tokens
POSITIONS = np.concatenate([length - n + np.arange(n) for n, length in zip(NEW, LENGTHS)])
RNG = np.random.default_rng(5)


def rows(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def rotated(x, positions, kind, dim=None, base=10000.0):
    """Rotates the first `dim` elements of the rows of x, (tokens, heads, width)."""
    x, dim = x.astype(np.float64), dim or x.shape[-1]
    angle = positions[:, None, None] * base ** (-np.arange(0, dim, 2) / dim)
    one, other = (np.s_[..., :dim:2], np.s_[..., 1:dim:2]) if kind == "interleaved" else (np.s_[..., : dim // 2], np.s_[..., dim // 2 : dim])
    out = x.copy()
    out[one] = x[one] * np.cos(angle) - x[other] * np.sin(angle)
    out[other] = x[one] * np.sin(angle) + x[other] * np.cos(angle)
    return out


def close(found, expected):
    """Allows for two products and a sum, each rounded to fp32."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


class Tokens:
    """Packed new tokens of four sequences, and an empty paged cache."""

    def __init__(self, dtype=np.float32):
        self.q, self.k, self.v = (rows(len(POSITIONS), h, d, dtype=dtype) for h, d in ((HEADS, DIM), (KV_HEADS, DIM), (KV_HEADS, DIM_V)))
        self.table = table_of(LENGTHS, ROOM)
        self.k_cache, self.v_cache = np.zeros((PAGES, PAGE, KV_HEADS, DIM), dtype), np.zeros((PAGES, PAGE, KV_HEADS, DIM_V), dtype)
        self.sequences = attile.Sequences(lengths_kv=int32(LENGTHS), cu_seqlens_q=sums(NEW), page_table=self.table)
        where = np.repeat(np.arange(4), NEW)
        self.at = self.table[where, POSITIONS // PAGE], POSITIONS % PAGE  # (page, row) of each token

    def append(self, **words):
        words = {"sequences": self.sequences, **words}
        return attile.append_kv(self.k, self.v, self.k_cache, self.v_cache, **words)

    def check(self, kind=None, **how):
        """Every token is in its place, and the rest of the cache is still empty."""
        close(self.k_cache[self.at], rotated(self.k, POSITIONS, kind, **how) if kind else self.k)
        np.testing.assert_array_equal(self.v_cache[self.at], self.v)
        others = np.ones((PAGES, PAGE), bool)
        others[self.at] = False
        assert not self.k_cache[others].any() and not self.v_cache[others].any()


@pytest.mark.parametrize("kind", [None, "interleaved", "halves"])
def test_pages_and_rotations(kind):
    tokens = Tokens()
    q = tokens.append(rope=kind, q=tokens.q if kind else None)
    tokens.check(kind)
    assert (q is None) == (kind is None)
    if kind:
        close(q, rotated(tokens.q, POSITIONS, kind))


def test_part_of_a_row_another_base_and_page_numbers_in_one_list():
    tokens = Tokens()
    tokens.sequences = tokens.sequences._replace(page_table=None, **csr_of(tokens.table, LENGTHS))
    tokens.append(rope="halves", rope_dim=8, rope_base=500.0)
    tokens.check("halves", dim=8, base=500.0)


def test_tables():
    tokens = Tokens()
    angle = np.arange(ROOM)[:, None] * 10000.0 ** (-np.arange(0, DIM, 2) / DIM)
    tokens.append(rope="interleaved", rope_cos=np.cos(angle).astype(np.float32), rope_sin=np.sin(angle).astype(np.float32))
    tokens.check("interleaved")


def test_slots():
    tokens = Tokens()
    slots = (tokens.at[0].astype(np.int64) * PAGE + tokens.at[1]).astype(np.int64)
    tokens.append(sequences=None, slots=slots, positions=int32(POSITIONS), rope="halves")
    tokens.check("halves")
    before = tokens.k_cache.copy()
    tokens.append(sequences=None, slots=np.full_like(slots, -1))
    np.testing.assert_array_equal(tokens.k_cache, before)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_contiguous_caches(layout):
    k, v = rows(3, 2, KV_HEADS, DIM), rows(3, 2, KV_HEADS, DIM_V)
    k_cache, v_cache = np.zeros((3, 10, KV_HEADS, DIM), np.float32), np.zeros((3, 10, KV_HEADS, DIM_V), np.float32)
    order = (0, 1, 2, 3) if layout == "bshd" else (0, 2, 1, 3)
    given = [x.transpose(order) for x in (k, v, k_cache, v_cache)]
    attile.append_kv(*given, sequences=attile.Sequences(lengths_kv=int32([2, 10, 5])), layout=layout)
    for b, end in enumerate((2, 10, 5)):
        np.testing.assert_array_equal(k_cache[b, end - 2 : end], k[b])
        np.testing.assert_array_equal(v_cache[b, end - 2 : end], v[b])
    assert not k_cache[0, 2:].any() and not k_cache[2, :3].any()
    attile.append_kv(*given, layout=layout)
    np.testing.assert_array_equal(k_cache[:, 8:], k)


def e4m3(bits):
    """Decodes float8_e4m3fn: no infinities, NaN = 0x7f."""
    bits = bits.astype(np.int64)
    exponent, fraction = bits >> 3 & 15, bits & 7
    size = np.where(exponent, (8 + fraction) * 2.0 ** (exponent - 10), fraction * 2.0**-9)
    return np.where(bits & 128, -size, size)


@pytest.mark.parametrize("kind", ["none", "tensor", "head", "token"])
@pytest.mark.parametrize("dtype_kv", ["e4m3", "int8"])
def test_eight_bits(dtype_kv, kind):
    tokens = Tokens(np.float16)
    tokens.k_cache, tokens.v_cache = (x.astype(np.int8 if dtype_kv == "int8" else np.uint8) for x in (tokens.k_cache, tokens.v_cache))
    shape = {"none": None, "tensor": (1,), "head": (KV_HEADS,), "token": (PAGES, KV_HEADS, PAGE)}[kind]
    scales = [np.full(shape, 0.03125 * (1 + n), np.float32) if shape else np.ones(1, np.float32) for n in range(2)]
    words = {"k_scale": scales[0], "v_scale": scales[1]} if shape else {}
    tokens.append(dtype_kv=None if dtype_kv == "int8" else dtype_kv, **words)
    for cache, x, scale in ((tokens.k_cache, tokens.k, scales[0]), (tokens.v_cache, tokens.v, scales[1])):
        found = cache[tokens.at].astype(np.float64) if dtype_kv == "int8" else e4m3(cache[tokens.at])
        size = (scale[tokens.at[0], :, tokens.at[1]] if kind == "token" else np.broadcast_to(scale, KV_HEADS))[..., None].astype(np.float64)
        if kind == "token":
            np.testing.assert_allclose(size[..., 0], abs(x.astype(np.float64)).max(-1) / (127 if dtype_kv == "int8" else 448), rtol=1e-6)
        exact = x.astype(np.float64) / size
        most = 127 if dtype_kv == "int8" else 448
        step = 1 if dtype_kv == "int8" else 2.0 ** np.maximum(np.floor(np.log2(np.maximum(abs(exact), 2.0**-6))) - 3, -9)
        assert (abs(found - np.clip(exact, -most, most)) <= step / 2 * (1 + 1e-5)).all()


def bad(**change):
    tokens = Tokens()
    for name in ("q", "k", "v", "k_cache", "v_cache"):
        if name in change:
            setattr(tokens, name, change.pop(name)(getattr(tokens, name)))
    sequences = {name: change.pop(name) for name in attile.Sequences._fields if name in change}
    tokens.sequences = tokens.sequences._replace(**sequences)
    return tokens, change


SLOTS = np.zeros(len(POSITIONS), np.int64)
BAD = {
    "type": (bad(k_cache=lambda x: x.astype(np.float16)), errors.DtypeError, "v_cache is float32 and k_cache is float16"),
    "types": (bad(k_cache=lambda x: x.astype(np.float16), v_cache=lambda x: x.astype(np.float16)), errors.DtypeError, "k_cache is float16 and k is float32, expected the same or 8 bits"),
    "bytes": (bad(k_cache=lambda x: x.astype(np.uint8), v_cache=lambda x: x.astype(np.uint8)), errors.DtypeError, "uint8 with dtype_kv=e4m3 or e5m2"),
    "another type": (bad(dtype_kv="int8"), errors.DtypeError, "k_cache is float32 and dtype_kv is int8"),
    "width": (bad(k_cache=lambda x: x[..., :8]), errors.ShapeError, "k_cache has shape"),
    "page size": (bad(k_cache=lambda x: x[:, :6], v_cache=lambda x: x[:, :6]), errors.ShapeError, "k_cache has pages of 6 keys"),
    "not packed": (bad(k=lambda x: x[None]), errors.ShapeError, "k has shape \\(1, 9, 2, 16\\), expected three dimensions"),
    "tokens": (bad(v=lambda x: x[1:]), errors.ShapeError, "v has shape"),
    "heads": (bad(q=lambda x: x[:, :3], rope="halves"), errors.ShapeError, "q has 3 heads and k has 2"),
    "q in vain": (bad(q=lambda x: x), errors.InvalidArgument, "q is given without rope"),
    "word": (bad(rope="neox"), errors.InvalidArgument, "rope is 'neox', expected one of interleaved, halves"),
    "odd": (bad(rope="halves", rope_dim=7), errors.ShapeError, "rope_dim is 7, expected an even number"),
    "one table": (bad(rope="halves", rope_cos=np.ones((ROOM, 8), np.float32)), errors.InvalidArgument, "rope_cos is given without rope_sin"),
    "tables": (bad(rope="halves", rope_cos=np.ones((ROOM, 4), np.float32), rope_sin=np.ones((ROOM, 4), np.float32)), errors.ShapeError, "expected \\(positions, 8\\)"),
    "short tables": (bad(rope="halves", rope_cos=np.ones((9, 8), np.float32), rope_sin=np.ones((9, 8), np.float32)), errors.InvalidArgument, "rope_rows is 9"),
    "table type": (bad(rope="halves", rope_cos=np.ones((ROOM, 8)), rope_sin=np.ones((ROOM, 8))), errors.DtypeError, "rope_cos is float64"),
    "slots and sequences": (bad(slots=SLOTS), errors.InvalidArgument, "sequences and slots are both given"),
    "one scale": (bad(k_scale=np.ones(1, np.float32)), errors.InvalidArgument, "k_scale is given without v_scale"),
    "scales": (bad(k_scale=np.ones(3, np.float32), v_scale=np.ones(3, np.float32)), errors.ShapeError, "k_scale has shape \\(3,\\), expected one number"),
    "scales of floats": (bad(k_scale=np.ones(1, np.float32), v_scale=np.ones(1, np.float32)), errors.Unsupported, "kv_scale"),
    "lengths": (bad(lengths_kv=np.array(LENGTHS)), errors.DtypeError, "lengths_kv is int64"),
    "too long": (bad(lengths_kv=int32([20, 7, 3, 25])), errors.InvalidArgument, "lengths_kv\\[3\\] is 25, expected 0 to 24"),
    "arrays": (bad(lengths_kv=None), errors.InvalidArgument, "an append of ragged sequences in pages takes lengths_kv"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_is_refused(case):
    (tokens, words), kind, message = BAD[case]
    q = {"q": tokens.q} if case in ("heads", "q in vain") else {}
    with pytest.raises(kind, match=message):
        tokens.append(**words, **q)
    assert not tokens.k_cache.any()


def test_slots_that_are_refused():
    tokens = Tokens()
    for slots, kind, message in (
        (SLOTS.astype(np.int32), errors.DtypeError, "slots is int32, expected int64"),
        (SLOTS[1:], errors.ShapeError, "slots has shape \\(8,\\), expected 9 numbers"),
        (np.zeros(18, np.int64)[::2], errors.LayoutError, "expected a contiguous array"),
    ):
        with pytest.raises(kind, match=message):
            tokens.append(sequences=None, slots=slots)
    with pytest.raises(errors.InvalidArgument, match="the position of each token is to be given"):
        tokens.append(sequences=None, slots=SLOTS, rope="halves")
    with pytest.raises(errors.InvalidArgument, match="positions are given without slots"):
        tokens.append(positions=int32(POSITIONS), rope="halves")
