"""Sequences, appends and flash-attn's functions on PyTorch's tensors. `--device cuda` runs the same on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import attile.torch  # noqa: E402
import numpy as np  # noqa: E402
from attile import errors  # noqa: E402
from attile.torch import _flash_attn as flash_attn  # noqa: E402
from attile.torch import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache  # noqa: E402
from test_append import Tokens, rotated  # noqa: E402
from test_eight_bits import Cache  # noqa: E402
from test_sequences import HEADS, KV_HEADS, LAYOUTS, LENGTHS_KV, LENGTHS_Q, PAGE, PAGES, Batch, seen, table_of  # noqa: E402


def on(device, one):
    return torch.from_numpy(one).to(device) if isinstance(one, np.ndarray) else one


def moved(device, sequences):
    return attile.Sequences(*(on(device, one) for one in sequences))


def given(device, batch):
    return [on(device, one) for one in batch.tensors()], moved(device, batch.sequences)


@pytest.mark.parametrize("ragged, pages", LAYOUTS)
def test_is_the_definition(device, ragged, pages):
    batch = Batch(ragged, pages)
    tensors, sequences = given(device, batch)
    words = {"mask": "k <= q and q - k < window", "params": {"window": 6}}
    o, lse = attile.attention(*tensors, sequences=sequences, return_lse=True, **words)
    batch.check(o.cpu().numpy(), lse.cpu().numpy(), mask=seen)
    alone = attile.attention(*tensors, sequences=sequences, **words)
    rows = sum(LENGTHS_Q) if ragged else len(o)  # the other rows belong to no sequence
    assert torch.equal(alone[:rows], o[:rows])


def samples(device):
    """Yields arguments of attention_sequences."""
    for ragged, pages in LAYOUTS[::2]:
        (q, k, v), sequences = given(device, Batch(ragged, pages))
        q = q[: sum(LENGTHS_Q)] if ragged else q
        yield q, k, v, [], [], "mask=causal", None, "bshd", "", *sequences, None, None, None, True, False
    (q, k, v), sequences = given(device, Batch(False, None))
    yield q, k, v, [torch.rand(4, HEADS, device=device)], [2.0], "params='a: float[batch, heads], w: float' score='s * w + a[b, h]'", None, "bshd", "", *sequences, None, None, None, False, True


@pytest.mark.parametrize("n", range(4))
def test_opcheck(device, n):
    torch.library.opcheck(torch.ops.attile.attention_sequences.default, list(samples(device))[n])


def appended(device, **words):
    tokens = Tokens()
    q, k, v, k_cache, v_cache = (on(device, getattr(tokens, name)) for name in ("q", "k", "v", "k_cache", "v_cache"))
    return attile.append_kv(k, v, k_cache, v_cache, q=q, sequences=moved(device, tokens.sequences), rope="halves", **words), tokens, (k_cache, v_cache)


def test_append(device):
    """The same as with NumPy arrays, with which the tensors share memory on a CPU."""
    q, tokens, caches = appended(device)
    tokens.k_cache, tokens.v_cache = (one.cpu().numpy() for one in caches)
    tokens.check("halves")
    right = rotated(tokens.q, np.concatenate([n + np.arange(m) for n, m in ((15, 5), (0, 3), (23, 1))]), "halves")
    assert np.allclose(q.cpu().numpy(), right, atol=1e-6)


def test_append_of_float8(device):
    tokens = Tokens(np.float16)
    k, v = on(device, tokens.k), on(device, tokens.v)
    caches = [torch.zeros(one.shape, dtype=torch.float8_e4m3fn, device=device) for one in (tokens.k_cache, tokens.v_cache)]
    assert attile.append_kv(k, v, *caches, sequences=moved(device, tokens.sequences)) is None
    pages, rows = (torch.from_numpy(np.asarray(one)).to(device) for one in tokens.at)
    for cache, one in zip(caches, (k, v)):
        assert torch.equal(cache.view(torch.uint8)[pages, rows], one.to(torch.float8_e4m3fn).view(torch.uint8))


FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "int8": torch.int8}


def eight_bits(device, dtype_kv, kind, pages="table"):
    """Returns a cache, its tensors, with k and v of PyTorch's types, and its keyword arguments for attention."""
    cache = Cache(dtype_kv, kind, False, pages)
    (q, k, v), sequences = given(device, cache)
    k, v = (one.view(torch.uint8).view(FLOAT8[dtype_kv]) for one in (k, v))
    words = {name: on(device, one) for name, one in cache.words.items() if name != "dtype_kv"}
    return cache, (q, k, v), {"sequences": sequences, **words}


@pytest.mark.parametrize("dtype_kv, kind", [("e4m3", "token"), ("e5m2", "none"), ("int8", "head")])
def test_caches_of_eight_bits(device, dtype_kv, kind):
    cache, tensors, words = eight_bits(device, dtype_kv, kind)
    o, lse = attile.attention(*tensors, return_lse=True, **words)
    cache.check(o.cpu().numpy(), lse.cpu().numpy())
    with pytest.raises(errors.Unsupported, match="K and V of 8 bits drop no weights"):
        attile.torch.attention(*tensors, dropout_p=0.5, **words)
    tensors[0].requires_grad_()
    with pytest.raises(errors.NoBackward, match="beside K and V of 8 bits"):
        attile.attention(*tensors, **words)


def test_dense_of_eight_bits(device):
    """Without sequences, and compiled."""
    _, (q, k, v), words = eight_bits(device, "int8", "head", None)
    scales = {name: words[name] for name in ("k_scale", "v_scale")}

    def call(q, k, v, k_scale, v_scale):
        return attile.attention(q * 2, k, v, k_scale=k_scale, v_scale=v_scale, layout="bshd", mask="causal")

    right = attile.attention(q * 2, *(one.half() * scale.half()[:, None] for one, scale in zip((k, v), scales.values())), mask="causal")
    found = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v, **scales)
    seen = q.isfinite().all(-1, keepdim=True)
    assert seen.all() and torch.allclose(found.float(), right.float(), atol=0.03, rtol=0.03)
    assert torch.equal(found, call(q, k, v, **scales))


def test_opcheck_of_eight_bits(device):
    _, (q, k, v), words = eight_bits(device, "int8", "token")  # opcheck itself does not know float8
    scales = words["k_scale"], words["v_scale"]
    torch.library.opcheck(
        torch.ops.attile.attention_sequences.default,
        (q, k, v, [], [], "", None, "bshd", "", *words["sequences"], None, *scales, True, False),
    )


def test_opcheck_of_append(device):
    tokens = Tokens()
    tensors = [on(device, getattr(tokens, name)) for name in ("k", "v", "k_cache", "v_cache", "q")]
    *arrays, most_q, most_kv = moved(device, tokens.sequences)
    nothing = [None] * 6
    torch.library.opcheck(
        torch.ops.attile.append_kv.default, (*tensors, *arrays, *nothing, "halves", None, None, None, "bshd", most_q, most_kv)
    )


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(device, backend):
    """A decode step: append, then attention to what was appended."""
    batch = Batch(False, "table")
    (q, k_cache, v_cache), sequences = given(device, batch)
    lengths, table = sequences.lengths_kv.clamp(min=3), sequences.page_table.clamp(min=0)
    k, v = (torch.randn(4, 3, KV_HEADS, one.shape[-1], device=device) for one in (k_cache, v_cache))

    def step(q, k, v, k_cache, v_cache, lengths, table):
        step = attile.Sequences(lengths_kv=lengths, page_table=table)
        q = attile.append_kv(k, v, k_cache, v_cache, q=q * 2, sequences=step, rope="halves")
        return attile.attention(q, k_cache, v_cache, mask="causal", sequences=step) + 1

    caches = [[one.clone() for one in (k_cache, v_cache)] for _ in range(2)]
    found = torch.compile(step, fullgraph=True, backend=backend)(q, k, v, *caches[0], lengths, table)
    assert torch.equal(found, step(q, k, v, *caches[1], lengths, table))
    for one, other in zip(*caches):
        assert torch.equal(one.nan_to_num(9), other.nan_to_num(9))


def test_autocast(device):
    (q, k, v), sequences = given(device, Batch(True, None))
    with torch.autocast(device, dtype=torch.bfloat16):
        o = attile.attention(q, k, v, sequences=sequences, mask="causal")
    right = attile.attention(*(x.bfloat16() for x in (q, k, v)), sequences=sequences, mask="causal")
    assert o.dtype == torch.bfloat16 and torch.equal(o[: sum(LENGTHS_Q)], right[: sum(LENGTHS_Q)])


@pytest.mark.parametrize("ragged, pages", [layout for layout in LAYOUTS if layout[1]])
def test_gradients_by_pages_are_refused(device, ragged, pages):
    (q, k, v), sequences = given(device, Batch(ragged, pages))
    q.requires_grad_()
    with pytest.raises(errors.NoBackward, match="K and V in pages, which are for caches that serve"):
        attile.attention(q, k, v, sequences=sequences)
    with pytest.raises(errors.NoBackward, match="append_kv"):
        attile.append_kv(k.requires_grad_(), v, k[None], v[None])
    with torch.no_grad():
        attile.attention(q, k, v, sequences=sequences)


# --- flash-attn's functions ------------------------------------------------------------------------------------------


def eager(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, softmax_scale=None):
    """(o, lse) of one sequence by flash-attn's definition, in fp64: q (len_q, heads, dim), slopes (heads,)."""
    q, k, v = (x.double().cpu().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // k.shape[0], 0) for x in (k, v))
    scores = q @ k.transpose(1, 2) * (softmax_scale or q.shape[2] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    apart = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1] - torch.arange(k.shape[1])[None]  # i - j
    if alibi_slopes is not None:
        scores = scores - alibi_slopes.double().cpu()[:, None, None] * apart.abs()
    left, right = window_size
    hidden = torch.zeros_like(apart, dtype=torch.bool)
    if causal or right >= 0:
        hidden |= -apart > (0 if causal else right)
    if left >= 0:
        hidden |= apart > left
    scores = scores.masked_fill(hidden, -torch.inf)
    return (scores.softmax(-1).nan_to_num(0) @ v).transpose(0, 1), scores.logsumexp(-1)


def near(found, right, error=2e-5):
    torch.testing.assert_close(found.double().cpu(), right.double().cpu(), rtol=error, atol=error)


RULES = [
    {},
    {"causal": True},
    {"window_size": (4, 2)},
    {"window_size": (4, -1)},
    {"window_size": (-1, 3)},
    {"window_size": (-1, 0)},
    {"causal": True, "window_size": (5, 0), "softcap": 2.0},
    {"causal": True, "alibi_slopes": True},
    {"softmax_scale": 0.5, "softcap": 5.0, "alibi_slopes": True},
]


def rule_on(device, rule, batch=None):
    shape = (HEADS,) if batch is None else (batch, HEADS)
    slopes = torch.rand(shape, generator=torch.Generator().manual_seed(1)).to(device)
    return {**rule, "alibi_slopes": slopes} if "alibi_slopes" in rule else rule


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_flash_attn_func(device, rule):
    q, k, v = (torch.randn(2, length, heads, 16, device=device) for length, heads in ((7, HEADS), (12, KV_HEADS), (12, KV_HEADS)))
    rule = rule_on(device, rule, batch=2)
    o, lse, probs = flash_attn_func(q, k, v, return_attn_probs=True, **rule)
    assert probs is None and torch.equal(flash_attn_func(q, k, v, **rule), o)
    for b in range(2):
        own = {**rule, "alibi_slopes": rule["alibi_slopes"][b]} if "alibi_slopes" in rule else rule
        right, right_lse = eager(q[b], k[b], v[b], **own)
        near(o[b], right), near(lse[b], right_lse)


@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize("rule", RULES[::3], ids=str)
def test_flash_attn_varlen_func(device, rule, pages):
    batch = Batch(True, "table" if pages else None)
    (q, k, v), sequences = given(device, batch)
    rule = rule_on(device, rule)
    cu_k = torch.tensor([0, *np.cumsum(LENGTHS_KV)], dtype=torch.int32, device=device)
    o, lse, _ = flash_attn_varlen_func(
        q, k, v, sequences.cu_seqlens_q, cu_k, max(LENGTHS_Q), max(LENGTHS_KV), return_attn_probs=True,
        block_table=sequences.page_table, **rule,
    )  # fmt: skip
    row = 0
    for one in zip(*batch.parts):
        right, right_lse = eager(*(torch.from_numpy(x).transpose(0, 1) for x in one), **rule)
        near(o[row : row + len(right)], right), near(lse[:, row : row + len(right)], right_lse)
        row += len(right)


def turned(x, cos, sin, first, interleaved):
    """Rotates x, (len, heads, dim), to positions from `first` on."""
    x, dim = x.double().cpu(), 2 * cos.shape[1]
    c, s = (t.double().cpu()[first : first + len(x), None] for t in (cos, sin))
    one, other = (x[..., 0:dim:2], x[..., 1:dim:2]) if interleaved else (x[..., : dim // 2], x[..., dim // 2 : dim])
    halves = one * c - other * s, one * s + other * c
    return torch.cat([torch.stack(halves, -1).flatten(-2) if interleaved else torch.cat(halves, -1), x[..., dim:]], -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize("new, rotary", [(0, None), (1, None), (3, None), (1, False), (3, True)])
def test_flash_attn_with_kvcache(device, new, rotary, pages, dtype):
    before, room, dim = [0, 5, 13], 16, 32
    whole = torch.randn(2, 3, room, KV_HEADS, dim).to(dtype)  # K and V of every sequence
    lengths = torch.tensor(before, dtype=torch.int32, device=device)
    table = torch.from_numpy(table_of([room] * 3, room)).to(device) if pages else None
    k_cache, v_cache = (paged(one, table) if pages else one.to(device) for one in whole)
    q = torch.randn(3, new or 2, HEADS, dim, device=device, dtype=dtype)
    k, v = (torch.randn(3, new, KV_HEADS, dim, device=device, dtype=dtype) if new else None for _ in range(2))
    cos, sin = (f(torch.rand(room, dim // 4, device=device)) for f in (torch.cos, torch.sin)) if rotary is not None else (None, None)
    words = {"causal": True, "window_size": (9, -1), "softmax_scale": 0.3}
    o, lse = flash_attn_with_kvcache(
        q, k_cache, v_cache, k, v, cos, sin, lengths, block_table=table, rotary_interleaved=bool(rotary),
        return_softmax_lse=True, **words,
    )  # fmt: skip
    for b, first in enumerate(before):
        mine_q, mine_k, mine_v = q[b], whole[0, b, : first + new].double(), whole[1, b, : first + new].double()
        if new:
            mine_k[first:], mine_v[first:] = k[b].cpu(), v[b].cpu()
        if rotary is not None:
            mine_q, mine_k[first:] = turned(q[b], cos, sin, first, rotary), turned(k[b], cos, sin, first, rotary)
        right, right_lse = eager(mine_q, mine_k, mine_v, **words)
        error = 2e-5 if dtype == torch.float32 else 2e-2
        near(o[b], right, error), near(lse[b], right_lse, error)
        if not pages:
            near(k_cache[b, : first + new], mine_k, error)


@pytest.mark.parametrize("sequences, one_launch", [(7, True), (8, False)])
def test_many_sequences_with_pages_take_two_launches(device, monkeypatch, sequences, one_launch):
    """As measured in docs/serving.md."""
    q, k, v = (torch.randn(sequences, 1, heads, 16, device=device).bfloat16() for heads in (HEADS, KV_HEADS, KV_HEADS))
    caches = [torch.zeros(sequences, 16, KV_HEADS, 16, device=device).bfloat16() for _ in range(2)]
    table = torch.arange(sequences, dtype=torch.int32, device=device)[:, None]
    appended = []
    monkeypatch.setattr(flash_attn, "append_kv", lambda *given, **words: appended.append(given))
    flash_attn_with_kvcache(q, *caches, k, v, cache_seqlens=3, causal=True, block_table=table)
    assert bool(appended) != one_launch
    flash_attn_with_kvcache(q, *caches, k, v, cache_seqlens=3, causal=True)
    assert len(appended) == (0 if one_launch else 1), "where the cache is contiguous one launch is always faster"


@pytest.mark.parametrize("new", [0, 1])
@pytest.mark.parametrize("length", [24, 15])
def test_cache_batch_idx(device, length, new):
    caches = [torch.randn(5, length, KV_HEADS, 16, device=device) for _ in range(2)]
    picked = torch.tensor([3, 0], dtype=torch.int32, device=device)
    before = torch.tensor([7, 11], dtype=torch.int32, device=device)
    q = torch.randn(2, 1, HEADS, 16, device=device)
    k, v = (torch.randn(2, 1, KV_HEADS, 16, device=device) if new else None for _ in range(2))
    right = [one.clone() for one in caches]
    o = flash_attn_with_kvcache(q, *caches, k, v, cache_seqlens=before, cache_batch_idx=picked)
    for b, (own, first) in enumerate(zip(picked.tolist(), before.tolist())):
        for one, fresh in zip(right, (k, v)):
            if new:
                one[own, first] = fresh[b, 0]
        near(o[b], eager(q[b], *(one[own, : first + new] for one in right))[0])
    assert all(torch.equal(one, other) for one, other in zip(caches, right))
    with pytest.raises(errors.LayoutError, match="expected its sequences one behind another"):
        flash_attn_with_kvcache(q, *(one[:, 1:] for one in caches), cache_seqlens=before, cache_batch_idx=picked)
    if not new:
        whole = flash_attn_with_kvcache(q, *caches, cache_batch_idx=picked)
        near(whole, flash_attn_with_kvcache(q, *(one[picked.long()] for one in caches)))


def paged(one, table):
    """Converts (batch, length, heads, dim) to pages."""
    pages = torch.zeros(PAGES, PAGE, *one.shape[2:], dtype=one.dtype)
    pages[table.cpu().long()] = one.unflatten(1, (-1, PAGE))
    return pages.to(table.device)


def test_the_whole_cache_and_a_number(device):
    q, k, v = (torch.randn(2, n, h, 16, device=device) for n, h in ((1, HEADS), (8, KV_HEADS), (8, KV_HEADS)))
    assert torch.equal(flash_attn_with_kvcache(q, k, v), flash_attn_func(q, k, v))
    near(flash_attn_with_kvcache(q, k, v, cache_seqlens=5)[1], eager(q[1], k[1, :5], v[1, :5])[0])


def test_what_is_refused(device):
    (q, k, v), sequences = given(device, Batch(False, "table"))
    lengths, table = sequences.lengths_kv, sequences.page_table
    new = torch.randn(4, 3, KV_HEADS, 16, device=device), torch.randn(4, 3, KV_HEADS, 24, device=device)
    tables = {"rotary_cos": torch.ones(24, 8, device=device), "rotary_sin": torch.ones(24, 8, device=device)}
    cache = {"cache_seqlens": lengths, "block_table": table}
    for words, kind, message in (
        ({"cache_batch_idx": lengths}, errors.InvalidArgument, "cache_batch_idx and block_table are given"),
        ({"cache_leftpad": lengths}, errors.Unsupported, "cache_leftpad is given"),
        ({"k": new[0]}, errors.InvalidArgument, "k and v belong together"),
        (tables, errors.InvalidArgument, "rotary_cos is given without k"),
        ({"k": new[0], "v": new[1], "rotary_cos": tables["rotary_cos"]}, errors.InvalidArgument, "rotary_cos and rotary_sin"),
        ({"k": new[0], "v": new[1], **tables}, errors.Unsupported, "neither causal nor window_size"),
        ({"k": new[0][:, :1], "v": new[1][:, :1], **tables}, errors.Unsupported, "3 queries and 1 new keys"),
        ({"cache_seqlens": None}, errors.InvalidArgument, "cache_seqlens is missing"),
        ({"cache_seqlens": lengths.long()}, errors.DtypeError, "lengths_kv is int64, expected int32"),
        ({"alibi_slopes": torch.ones(1, 2, 3, device=device)}, errors.ShapeError, "alibi_slopes has shape"),
        ({"num_splits": -1}, errors.InvalidArgument, "num_splits is -1"),
    ):
        with pytest.raises(kind, match=message):
            flash_attn_with_kvcache(q, k, v, **{**cache, **words})
    with pytest.raises(errors.InvalidArgument, match="dropout_p is 1.5"):
        flash_attn_func(q, q, q, dropout_p=1.5)


def test_numbers_are_checked_on_demand(device):
    (q, k, v), sequences = given(device, Batch(False, "table"))
    o = attile.attention(q, k, v, sequences=sequences, mask="causal")
    assert torch.equal(attile.attention(q, k, v, sequences=sequences, mask="causal", check=True), o)
    with pytest.raises(errors.InvalidArgument, match="page 0 of sequence 0 is -1, expected 0 to 8"):
        attile.attention(q, k, v, sequences=sequences._replace(page_table=torch.full_like(sequences.page_table, -1)), check=True)


def test_arrays_on_another_device(device, cuda_only):
    (q, k, v), sequences = given(device, Batch(False, "table"))
    with pytest.raises(errors.DeviceError, match="lengths_kv is on host:0 and q on cuda:0"):
        attile.attention(q, k, v, sequences=sequences._replace(lengths_kv=sequences.lengths_kv.cpu()))
    with pytest.raises(errors.DeviceError, match="slots is on host:0"):
        attile.append_kv(k[:, :1], v[:, :1], k, v, slots=torch.zeros(PAGES, dtype=torch.int64))


def test_graph(device, cuda_only):
    """A graph is replayed with different lengths from those at capture."""
    batch = Batch(False, "table")
    (q, k, v), sequences = given(device, batch)
    k, v = k.nan_to_num(0), v.nan_to_num(0)
    table = sequences.page_table.clamp(min=0)
    lengths = torch.ones_like(sequences.lengths_kv)
    step = attile.Sequences(lengths_kv=lengths, page_table=table)
    attile.attention(q, k, v, sequences=step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attile.attention(q, k, v, sequences=step)
    lengths.copy_(sequences.lengths_kv)
    graph.replay()
    assert torch.equal(o, attile.attention(q, k, v, sequences=step))
