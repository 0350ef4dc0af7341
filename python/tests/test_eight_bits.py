"""K and V of 8 bits on NumPy arrays; each sequence is compared with the definition on the numbers they stand for."""

import attile
import numpy as np
import pytest
from attile import errors
from test_append import e4m3
from test_sequences import DIM, DIM_V, KV_HEADS, LENGTHS_KV, PAGE, PAGES, Batch, pack, pad, page, table_of

KINDS = ["none", "tensor", "head", "token"]
RNG = np.random.default_rng(11)


def e5m2(bits):
    """Decodes e5m2: the upper halves of fp16."""
    return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float64)


NUMBERS = {"e4m3": e4m3, "e5m2": e5m2, "int8": lambda bits: bits.view(np.int8).astype(np.float64)}
SCALE = {"e4m3": 0.01, "e5m2": 1e-4, "int8": 0.02}  # gives numbers of about 1: weights differ, and nothing overflows


def bits_of(dtype_kv, shape):
    """Returns the bits of finite numbers of any sign and size."""
    bits = RNG.integers(0, {"e4m3": 0x7F, "e5m2": 0x7C, "int8": 0x80}[dtype_kv], shape).astype(np.uint8)
    return bits | (RNG.integers(0, 2, shape) << 7).astype(np.uint8)


class Cache(Batch):
    """A batch whose k and v are bytes; its parts are the numbers that they stand for."""

    def __init__(self, dtype_kv, kind, ragged, pages, order="bshd", dtype="float16"):
        super().__init__(ragged, pages, order, dtype)
        small = kind == "none"  # without scales the numbers themselves are small
        bits = [[bits_of(dtype_kv, one.shape) & (0xBF if small else 0xFF) for one in parts] for parts in self.parts[1:]]
        rows = [[0.5 + RNG.random((KV_HEADS, length, 1)).astype(np.float32) for length in LENGTHS_KV] for _ in range(2)]
        self.scales, numbers = [], []
        for part, row in zip(bits, rows):
            scale, each = self.scale(kind, np.float32(SCALE[dtype_kv]), row)
            self.scales.append(scale)
            numbers.append([NUMBERS[dtype_kv](one) * size for one, size in zip(part, each)])
        self.parts = self.parts[0], *numbers
        self.k, self.v = (self.bytes_of(part, dtype_kv) for part in bits)
        self.words = {} if small else dict(zip(("k_scale", "v_scale"), self.scales))
        if dtype_kv != "int8":
            self.words["dtype_kv"] = dtype_kv

    def lay(self, parts):
        """Returns (blocks, rows, heads, columns), or packed (rows, heads, columns)."""
        if self.sequences.page_table is not None or self.sequences.page_indptr is not None:
            return page(parts, table_of(LENGTHS_KV, 24))
        return pack(parts) if self.ragged else pad(parts, 20)

    def bytes_of(self, parts, dtype_kv):
        whole = self.lay([part.astype(np.float32) for part in parts])
        whole = np.where(np.isnan(whole), 0x7F, whole).astype(np.uint8)  # NaN, or 127, after the end of a sequence
        if self.order == "bhsd" and whole.ndim == 4:
            whole = whole.transpose(0, 2, 1, 3).copy()
        return whole.view(np.int8) if dtype_kv == "int8" else whole

    def scale(self, kind, unit, rows):
        """Returns (the tensor of scales, the factor of each sequence's elements)."""
        if kind == "none":
            return None, [1.0] * len(rows)
        if kind == "tensor":
            return np.full(1, unit), [float(unit)] * len(rows)
        if kind == "head":
            heads = (unit * (1 + np.arange(KV_HEADS))).astype(np.float32)
            return heads, [heads[:, None, None].astype(np.float64)] * len(rows)
        rows = [unit * row for row in rows]
        whole = np.nan_to_num(self.lay(rows), nan=1.0)[..., 0]
        whole = whole.transpose(1, 0)[None] if whole.ndim == 2 else whole.transpose(0, 2, 1)
        return np.ascontiguousarray(whole), [row.astype(np.float64) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype_kv", NUMBERS)
@pytest.mark.parametrize("ragged, pages", [(False, None), (True, None), (False, "table"), (True, "csr")])
def test_is_the_definition(ragged, pages, dtype_kv, kind):
    cache = Cache(dtype_kv, kind, ragged, pages, order="bhsd" if kind == "head" else "bshd")
    o, lse = attile.attention(*cache.tensors(), sequences=cache.sequences, layout=cache.order, mask="causal", return_lse=True, **cache.words)
    assert o.dtype == np.float16
    cache.check(o, lse, mask=lambda b, h, q, k: k <= q)


def test_dense_and_scales_with_gaps():
    cache = Cache("int8", "token", False, None, dtype="float32")
    length = min(n for n in LENGTHS_KV if n)
    scales = [np.repeat(one, 2, axis=2)[..., ::2][..., :length] for one in cache.scales]
    assert scales[0].strides[2] == 8
    k, v = (one[:, :length] for one in (cache.k, cache.v))
    o = attile.attention(cache.q, k, v, k_scale=scales[0], v_scale=scales[1])
    whole = attile.attention(cache.q, *(np.ascontiguousarray(one) for one in (k, v)), **{name: np.ascontiguousarray(one) for name, one in zip(("k_scale", "v_scale"), scales)})
    np.testing.assert_array_equal(o, whole)
    cache.parts = tuple([part[:, :length] if i else part for part in parts] for i, parts in enumerate(cache.parts))
    for b in (0, 1, 2):
        one = Cache.__new__(Cache)
        one.__dict__ = {**cache.__dict__, "parts": tuple([part[b]] for part in cache.parts)}
        one.check(o[b:], attile.attention(cache.q, k, v, k_scale=scales[0], v_scale=scales[1], return_lse=True)[1][b:])


def test_what_is_appended_is_attended_to():
    """append_kv writes the scales that attention reads."""
    dense = Batch(False, "table", dtype="float16")
    k_cache, v_cache = np.zeros((PAGES, PAGE, KV_HEADS, DIM), np.int8), np.zeros((PAGES, PAGE, KV_HEADS, DIM_V), np.int8)
    k_scale, v_scale = np.ones((2, PAGES, KV_HEADS, PAGE), np.float32)
    k, v = (np.concatenate([part.transpose(1, 0, 2) for part in parts]) for parts in dense.parts[1:])
    lengths = np.array(LENGTHS_KV, np.int32)
    new = attile.Sequences(lengths_kv=lengths, cu_seqlens_q=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), page_table=dense.sequences.page_table)
    attile.append_kv(k, v, k_cache, v_cache, sequences=new, k_scale=k_scale, v_scale=v_scale)
    words = {"sequences": dense.sequences, "mask": "causal"}
    o = attile.attention(dense.q, k_cache, v_cache, k_scale=k_scale, v_scale=v_scale, **words)
    right = attile.attention(*dense.tensors(), **words)
    some = [0, 1, 2]  # the last sequence has no keys
    assert abs(o[some].astype(float) - right[some]).max() < 0.1 and abs(right[some]).max() > 1
    assert not o[3].any()


def test_kernel():
    """The problem determines the type of bytes; a launch reads the scales when it runs."""
    cache = Cache("e4m3", "token", False, "table")
    problem = {"dtype": "fp16", "dtype_kv": "e4m3", "kv_scale": "token", "head_dim": DIM, "head_dim_v": DIM_V, "layout": "padded",
               "page_size": PAGE}  # fmt: skip
    kernel = attile.compile(problem, device="host")
    words = {"sequences": cache.sequences, "layout": "bshd", "k_scale": cache.scales[0], "v_scale": cache.scales[1]}
    lse = np.empty((4, 4, 3), np.float32)
    for _ in range(2):
        cache.check(kernel(*cache.tensors(), lse=lse, **words), lse)
    out = np.empty((4, 3, 4, DIM_V), np.float16)
    launch = kernel.bind(*cache.tensors(), out, lse, **words)
    cache.scales[1] *= 2
    cache.parts = *cache.parts[:2], [2 * part for part in cache.parts[2]]
    launch()
    cache.check(out, lse)
    assert kernel.workspace_size(*cache.tensors(), **words) >= 0
    with pytest.raises(errors.DtypeError, match="dtype_kv=e4m3 kv_scale=none, and the kernel is compiled for dtype_kv=e4m3 kv_scale=token"):
        kernel(*cache.tensors(), sequences=cache.sequences, layout="bshd")
    with pytest.raises(errors.DtypeError, match="those of dtype_kv=int8"):
        kernel(cache.q, cache.k.view(np.int8), cache.v.view(np.int8), **words)
    with pytest.raises(errors.DtypeError, match="a problem without dtype_kv, and the kernel"):
        kernel(cache.q, cache.k.astype(np.float16), cache.v.astype(np.float16), sequences=cache.sequences, layout="bshd")


def changed(**change):
    cache = Cache("e4m3", "head", False, "table")
    for name in ("q", "k", "v"):
        setattr(cache, name, change.pop(name, lambda x: x)(getattr(cache, name)))
    return cache, {name: value for name, value in {**cache.words, **change}.items() if value is not None}


BAD = {
    "bytes of no type": (changed(dtype_kv=None), errors.DtypeError, "k is uint8, expected one of .*, or uint8 with dtype_kv=e4m3 or e5m2"),
    "another type": (changed(dtype_kv="int8"), errors.DtypeError, "k is uint8 and dtype_kv is int8"),
    "two types": (changed(v=lambda x: x.view(np.int8)), errors.DtypeError, "v is int8 and k is uint8, expected one type"),
    "v alone": (changed(k=lambda x: x.astype(np.float16), dtype_kv=None), errors.DtypeError, "v is uint8 and q is float16"),
    "q of bytes": (changed(q=lambda x: x.astype(np.uint8)), errors.DtypeError, "q is uint8, expected one of float32, float16, bfloat16"),
    "one scale": (changed(v_scale=None), errors.InvalidArgument, "k_scale is given without v_scale"),
    "the other scale": (changed(k_scale=None), errors.InvalidArgument, "v_scale is given without k_scale"),
    "scales of no shape": (changed(k_scale=np.ones(3, np.float32)), errors.ShapeError, "k_scale has shape \\(3,\\), expected one number"),
    "two kinds": (changed(v_scale=np.ones(1, np.float32)), errors.ShapeError, "v_scale has shape \\(1,\\).* alike"),
    "scales of doubles": (changed(v_scale=np.ones(KV_HEADS)), errors.DtypeError, "v_scale is float64, expected float32"),
    "scales in vain": (changed(k=lambda x: x.astype(np.float16), v=lambda x: x.astype(np.float16), dtype_kv=None), errors.InvalidArgument, "k is float16; 8 bits take scales"),
    "scales backwards": (changed(k_scale=np.ones(KV_HEADS, np.float32)[::-1]), errors.LayoutError, "k_scale: the last dimension has stride -1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_is_refused(case):
    (cache, words), kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        attile.attention(*cache.tensors(), sequences=cache.sequences, **words)


class Prefix:
    """The bytes that every sequence begins with, of the type of a cache; `before` adds them to the definition."""

    LENGTH, ORDER = 13, [5, 2]  # keys; page numbers

    def __init__(self, dtype_kv, kind):
        shapes = [(KV_HEADS, self.LENGTH, width) for width in (DIM, DIM_V)]
        bits = [bits_of(dtype_kv, shape) & (0xBF if kind == "none" else 0xFF) for shape in shapes]
        rows = [0.5 + RNG.random((KV_HEADS, self.LENGTH)).astype(np.float32) for _ in shapes]
        unit = np.float32(SCALE[dtype_kv])
        if kind == "none":
            self.scales, sizes = None, [np.ones(1)] * 2
        elif kind == "token":
            self.scales = [(unit * row)[None] for row in rows]
            sizes = [one[0][..., None].astype(np.float64) for one in self.scales]
        else:
            heads = unit * (1 + np.arange(KV_HEADS if kind == "head" else 1)).astype(np.float32)
            self.scales, sizes = [heads, heads], [heads[:, None, None].astype(np.float64)] * 2
        self.numbers = [NUMBERS[dtype_kv](one) * size for one, size in zip(bits, sizes)]
        self.k, self.v = (
            one.transpose(1, 0, 2)[None].copy().view(np.int8 if dtype_kv == "int8" else np.uint8) for one in bits
        )

    def words(self):
        return {} if self.scales is None else dict(zip(("k_prefix_scale", "v_prefix_scale"), self.scales))

    def pages(self):
        """Returns (k, v, words) in pages."""

        def lay(one):  # (1, LENGTH, ...)
            whole = np.zeros((PAGES, PAGE, *one.shape[2:]), one.dtype)
            for i, page in enumerate(self.ORDER):
                rows = one[0, i * PAGE : (i + 1) * PAGE]
                whole[page, : len(rows)] = rows
            return whole

        where = attile.Sequences(
            lengths_kv=np.array([self.LENGTH], np.int32), page_table=np.array([self.ORDER], np.int32)
        )
        words = {
            name: one if one.ndim == 1 else lay(one.transpose(0, 2, 1)).transpose(0, 2, 1).copy()
            for name, one in self.words().items()
        }
        return lay(self.k), lay(self.v), {"prefix": where, **words}

    def before(self, cache):
        q, *kv = cache.parts
        cache.parts = q, *([np.concatenate([first, one], 1) for one in parts] for first, parts in zip(self.numbers, kv))
        return cache


@pytest.mark.parametrize("own, first", [(kind, kind) for kind in KINDS] + [("token", "head"), ("none", "token")])
@pytest.mark.parametrize("dtype_kv", NUMBERS)
@pytest.mark.parametrize("paged", [False, True])
def test_shared_prefix(paged, dtype_kv, own, first):
    cache, prefix = Cache(dtype_kv, own, True, "table"), Prefix(dtype_kv, first)
    k, v, words = prefix.pages() if paged else (prefix.k, prefix.v, prefix.words())
    if own == first and own in ("tensor", "head"):
        words = {name: one for name, one in words.items() if name == "prefix"}  # the cache has the same
    o, lse = attile.attention_shared_prefix(
        *cache.tensors(), k, v, sequences=cache.sequences, mask="causal", return_lse=True, **cache.words, **words
    )
    prefix.before(cache).check(o, lse, mask=lambda b, h, q, k: (k <= q) | (k < Prefix.LENGTH))


def test_shared_prefix_in_sixteen_bits_before_eight():
    cache, prefix = Cache("e4m3", "head", True, "table"), Prefix("e4m3", "none")
    prefix.numbers = [one.astype(np.float16).astype(np.float64) for one in prefix.numbers]
    k, v = (one.astype(np.float16).transpose(1, 0, 2)[None].copy() for one in prefix.numbers)
    given, words = (*cache.tensors(), k, v), {"sequences": cache.sequences, "mask": "causal", **cache.words}
    o, lse = attile.attention_shared_prefix(*given, return_lse=True, **words)
    with pytest.raises(errors.InvalidArgument, match="k is float16; 8 bits take scales"):
        attile.attention_shared_prefix(*given, k_prefix_scale=cache.scales[0], v_prefix_scale=cache.scales[1], **words)
    prefix.before(cache).check(o, lse, mask=lambda b, h, q, k: (k <= q) | (k < Prefix.LENGTH))


def test_shared_prefix_refuses_what_does_not_fit():
    k = np.zeros((2, 8, KV_HEADS, DIM), np.int8)
    q, scales = np.zeros((2, 1, 4, DIM), np.float16), np.ones((2, KV_HEADS, 8), np.float32)
    for words, kind, message in (
        ({"dtype_kv": "e4m3"}, errors.DtypeError, "k is int8 and dtype_kv is e4m3"),
        ({"k_prefix_scale": scales[:1]}, errors.InvalidArgument, "k_scale is given without v_scale"),
        ({"k_prefix_scale": scales[:1, :, :3], "v_prefix_scale": scales[:1]}, errors.ShapeError, "k_scale has shape"),
    ):
        with pytest.raises(kind, match=message):
            attile.attention_shared_prefix(q, k, k, k[:1], k[:1], **words)
