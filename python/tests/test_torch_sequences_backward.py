"""Gradients of sequences of different lengths, against autograd of each sequence in double precision.
`--device cuda` runs the same on a GPU.
"""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import attile.torch  # noqa: E402
from attile import errors  # noqa: E402
from attile._library import library  # noqa: E402
from attile.torch import flash_attn_varlen_func  # noqa: E402

LENGTHS_Q, LENGTHS_KV = [5, 0, 9, 1, 3, 1], [20, 7, 9, 0, 1, 1]
BATCH, HEADS, KV_HEADS, DIM, DIM_V = len(LENGTHS_Q), 4, 2, 16, 24
LEN_Q = 3  # queries of each padded sequence
SPARE_Q, SPARE_KV = 2, 3  # rows of packed tensors that belong to no sequence
WINDOW = 4
P = 0.25  # probability of dropout, exactly a multiple of 2^-16


def sums(lengths):
    return [0, *itertools.accumulate(lengths)]


class Batch:
    """q, k, v and gradients of o and lse, with NaN in the rows of no sequence; and where each sequence has its rows."""

    def __init__(self, device, ragged, order="bshd", dtype=torch.float32, spare=True):
        self.ragged, self.order, self.device = ragged, order, device
        random = torch.Generator().manual_seed(5)
        spare_q, spare_kv = (SPARE_Q, SPARE_KV) if spare else (0, 0)
        lengths_q = LENGTHS_Q if ragged else [LEN_Q] * BATCH
        self.starts_q, self.starts_kv = sums(lengths_q), sums(LENGTHS_KV)

        def made(rows, length, heads, width, of_q):
            shape = (rows, heads, width) if ragged else (BATCH, length, heads, width)
            whole = torch.randn(shape, generator=random)
            owned = torch.zeros(shape[:-2], dtype=torch.bool)
            for b, n in enumerate(lengths_q if of_q else LENGTHS_KV):
                first = (self.starts_q if of_q else self.starts_kv)[b]
                (owned[first : first + n] if ragged else owned[b, :n]).fill_(True)
            whole[~owned] = torch.nan
            whole = whole if ragged or order == "bshd" else whole.transpose(1, 2)
            return whole.contiguous().to(device, dtype)

        rows_q, rows_kv, most = sum(lengths_q) + spare_q, sum(LENGTHS_KV) + spare_kv, max(LENGTHS_KV)
        self.q = made(rows_q, LEN_Q, HEADS, DIM, True)
        self.k, self.v = (made(rows_kv, most, KV_HEADS, width, False) for width in (DIM, DIM_V))
        self.d_o = made(rows_q, LEN_Q, HEADS, DIM_V, True)
        self.d_lse = made(rows_q, LEN_Q, HEADS, 1, True)[..., 0].float()
        if ragged or order == "bshd":
            self.d_lse = self.d_lse.transpose(-1, -2)
        arrays = {"lengths_kv": LENGTHS_KV}
        if ragged:
            arrays = {"cu_seqlens_q": self.starts_q, "cu_seqlens_kv": self.starts_kv}
        self.sequences = attile.Sequences(
            **{name: torch.tensor(one, dtype=torch.int32, device=device) for name, one in arrays.items()}
        )

    def leaves(self):
        return [one.clone().requires_grad_() for one in (self.q, self.k, self.v)]

    def of(self, b, q, k, v):
        """Returns queries (or a tensor of their shape), keys and values of sequence b: (heads, length, dim)."""
        if self.ragged:
            own_q, own_kv = (slice(starts[b], starts[b + 1]) for starts in (self.starts_q, self.starts_kv))
            return q[own_q].transpose(0, 1), k[own_kv].transpose(0, 1), v[own_kv].transpose(0, 1)
        q, k, v = (one[b] if self.order == "bhsd" else one[b].transpose(0, 1) for one in (q, k, v))
        return q, k[:, : LENGTHS_KV[b]], v[:, : LENGTHS_KV[b]]

    def exact(self, leaves, seen, score=None, with_sinks=False, with_lse=True, kept=None):
        """Gradients in double precision with respect to `leaves`: q, k, v, then the score's parameters, the sinks last.

        kept: (b, len_q, len_kv) -> the factors by which dropout multiplies the weights of sequence b.
        """
        doubles = [one.detach().cpu().double().requires_grad_() for one in leaves]
        params = doubles[3:]
        sinks = params.pop() if with_sinks else None
        whole, d_o, d_lse = 0, self.d_o.cpu().double(), self.d_lse.cpu().double()
        for b in range(BATCH):
            q, k, v = self.of(b, *doubles[:3])
            o, lse = definition(q, k, v, seen, score, b, params, sinks, kept)
            whole = whole + (o * self.of(b, d_o, d_o, d_o)[0]).sum()
            if with_lse:
                own = d_lse[:, self.starts_q[b] : self.starts_q[b + 1]] if self.ragged else d_lse[b]
                whole = whole + (lse * own).sum()
        return torch.autograd.grad(whole, doubles)

    def check(self, found, right, error=1e-5):
        """The first of `found` are dq, dk and dv."""
        check(found, right, error)
        for one, tensor in zip(found, (self.q, self.k, self.v)):
            assert not one[tensor.isnan()].any(), "a row of nobody has a gradient"


def definition(q, k, v, seen, score, b, params, sinks, kept=None):
    """(o, lse) of one sequence; q (heads, len_q, dim). lse of a query that sees no key is 0, and has no gradient."""
    k, v = (one.repeat_interleave(HEADS // KV_HEADS, 0) for one in (k, v))
    j = torch.arange(k.shape[1])[None]
    i = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    s = q @ k.transpose(1, 2) * DIM**-0.5
    if score:
        s = score(s, b, i, j, *params)
    s = s.masked_fill(~seen(i, j).expand(s.shape[1:]), -torch.inf)
    last = torch.full((HEADS,), -torch.inf, dtype=q.dtype) if sinks is None else sinks
    s = torch.cat([s, last[:, None, None].expand(HEADS, q.shape[1], 1)], -1)
    base = s.detach().amax(-1, keepdim=True)
    weights = (s - torch.where(base.isfinite(), base, 0)).exp()
    total = weights.sum(-1, keepdim=True)
    total = torch.where(total > 0, total, 1)
    lse = torch.where(base.isfinite(), base + total.log(), 0)
    weights = (weights / total)[..., :-1]
    if kept:
        weights = weights * kept(b, q.shape[1], k.shape[1])
    return weights @ v, lse[..., 0]


def check(found, right, error=1e-5):
    """Requires the accuracy of the gradients of dense tensors in test_torch.py; NaN always fails."""
    for one, other in zip(found, right):
        assert one.shape == other.shape
        assert (one.detach().cpu().double() - other).norm() <= error * other.norm()


def everything(i, j):
    return torch.ones_like(i - j, dtype=torch.bool)


def causal(i, j):
    return j <= i


def window(i, j):
    return (j <= i) & (i - j < WINDOW)


def by_slopes(s, b, i, j, slopes):
    return s + slopes[:, None, None] * (j - i)


def by_own_slopes(s, b, i, j, slopes):
    return s + slopes[b][:, None, None] * (j - i)


def by_distance(s, b, i, j, table):
    return s + table[:, (j - i).clamp(-3, 3) + 3]


# {name: (keyword arguments of the call, seen(i, j), score, shapes of parameters that have gradients)}
RULES = {
    "no mask": ({}, everything, None, {}),
    "causal": ({"mask": "causal"}, causal, None, {}),
    "window": ({"mask": "k <= q and q - k < window", "params": {"window": WINDOW}}, window, None, {}),
    "slopes": ({"mask": "causal", "score": "s + slopes[h] * (k - q)"}, causal, by_slopes, {"slopes: float[heads]": (HEADS,)}),
    "own slopes": ({"score": "s + slopes[b, h] * (k - q)"}, everything, by_own_slopes,
                   {"slopes: float[batch, heads]": (BATCH, HEADS)}),
    "distance": ({"mask": "causal", "score": "s + table[h, clamp(k - q, -3, 3) + 3]"}, causal, by_distance,
                 {"table: float[heads, 7]": (HEADS, 7)}),
}  # fmt: skip


@pytest.mark.parametrize("with_sinks", [False, True], ids=["", "sinks"])
@pytest.mark.parametrize("layout", ["ragged", "padded", "padded bhsd"])
@pytest.mark.parametrize("name", RULES)
def test_gradients_are_those_of_each_sequence(device, name, layout, with_sinks):
    words, seen, score, shapes = RULES[name]
    order = "bhsd" if layout.endswith("bhsd") else "bshd"
    batch = Batch(device, layout == "ragged", order)
    leaves = batch.leaves()
    params = {key: torch.rand(shape, device=device, requires_grad=True) for key, shape in shapes.items()}
    sinks = torch.randn(HEADS, device=device, requires_grad=True) if with_sinks else None
    leaves += [*params.values(), *([sinks] if with_sinks else [])]
    words = {**words, "params": {**words.get("params", {}), **params}}
    o, lse = attile.attention(*leaves[:3], sequences=batch.sequences, sinks=sinks, layout=order, return_lse=True, **words)
    found = torch.autograd.grad([o, lse], leaves, [batch.d_o, batch.d_lse])
    batch.check(found, batch.exact(leaves, seen, score, with_sinks))


@pytest.mark.parametrize("dtype, error", [(torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
@pytest.mark.parametrize("ragged", [True, False], ids=["ragged", "padded"])
def test_sixteen_bits(device, ragged, dtype, error):
    batch = Batch(device, ragged, dtype=dtype)
    leaves = batch.leaves()
    o = attile.attention(*leaves, sequences=batch.sequences, mask="causal")
    found = torch.autograd.grad(o, leaves, batch.d_o)
    assert all(one.dtype == dtype for one in found)
    batch.check(found, batch.exact(leaves, causal, with_lse=False), error)


def mask_of(device, seed):
    """Returns `kept` of the next call that draws from a generator with this seed."""
    random = torch.Generator(device).manual_seed(seed)
    state = torch.randint(-(2**63), 2**63 - 1, (2,), dtype=torch.int64, device=device, generator=random).tolist()
    numbers = tuple(number % 2**64 for number in state)

    def kept(b, len_q, len_kv):
        places = itertools.product(range(HEADS), range(len_q), range(len_kv))
        each = [library.att_dropout_keep(P, *numbers, HEADS, b, *place) for place in places]
        return torch.tensor(each, dtype=torch.float64).reshape(HEADS, len_q, len_kv) / (1 - P)

    return kept


@pytest.mark.parametrize("dtype, error", [(torch.float32, 1e-5), (torch.bfloat16, 4e-2)])
@pytest.mark.parametrize("ragged", [True, False], ids=["ragged", "padded"])
def test_dropout(device, ragged, dtype, error):
    batch = Batch(device, ragged, dtype=dtype)
    leaves = batch.leaves()
    o = attile.torch.attention(
        *leaves, sequences=batch.sequences, mask="causal", dropout_p=P, generator=torch.Generator(device).manual_seed(5)
    )
    found = torch.autograd.grad(o, leaves, batch.d_o)
    batch.check(found, batch.exact(leaves, causal, with_lse=False, kept=mask_of(device, 5)), error)


def test_dropout_of_flash_attn(device):
    batch = Batch(device, True)
    leaves = batch.leaves()
    cu, most = (batch.sequences.cu_seqlens_q, batch.sequences.cu_seqlens_kv), (max(LENGTHS_Q), max(LENGTHS_KV))
    torch.manual_seed(7)
    o, lse, _ = flash_attn_varlen_func(*leaves, *cu, *most, dropout_p=P, causal=True, return_attn_probs=True)
    found = torch.autograd.grad([o, lse], leaves, [batch.d_o, batch.d_lse])
    batch.check(found, batch.exact(leaves, causal, kept=mask_of(device, 7)))


@pytest.mark.parametrize("algorithm", ["flash_async", "flash_mma"])
@pytest.mark.parametrize("ragged", [True, False], ids=["ragged", "padded"])
def test_tensor_cores(device, ragged, algorithm):
    if algorithm == "flash_async" and (device == "cpu" or torch.cuda.get_device_capability() != (9, 0)):
        pytest.skip("for compute capability 9.0; the host device copies in boxes only what it allocated")
    batch = Batch(device, ragged, dtype=torch.bfloat16)
    lengths, cu_q, cu_kv, *_, most_q, most_kv = batch.sequences
    own, rest = (lengths, cu_q, cu_kv, most_q, most_kv), ("mask=causal", None, "bshd")
    given = batch.q, batch.k, batch.v
    o, lse = torch.ops.attile.attention_sequences_lse(*given, [], [], *rest, "", *own, True)
    found = torch.ops.attile.attention_backward(
        batch.d_o, None, *given, o, lse, [], [], rest[0], "", *rest[1:], f"algorithm={algorithm}", *own
    )
    batch.check(found[:3], batch.exact(batch.leaves(), causal, with_lse=False), 4e-2)


def test_gradcheck(device):
    cu = torch.tensor([0, 2, 2, 3], dtype=torch.int32, device=device), torch.tensor([0, 3, 4, 6], dtype=torch.int32, device=device)
    sequences = attile.Sequences(cu_seqlens_q=cu[0], cu_seqlens_kv=cu[1])
    random = torch.Generator().manual_seed(0)
    tensors = (torch.randn(n, heads, 4, generator=random).to(device).requires_grad_() for n, heads in ((3, 2), (6, 1), (6, 1)))
    with pytest.warns(UserWarning, match="double precision"):  # central differences in fp32 have three correct digits
        assert torch.autograd.gradcheck(
            lambda q, k, v: attile.attention(q, k, v, mask="causal", sequences=sequences), tuple(tensors), eps=1e-2, atol=2e-3, rtol=1e-2
        )


def test_some_gradients(device):
    """A tensor that requires no gradient gets none, without and with the gradient of a parameter."""
    batch = Batch(device, True)
    slopes = torch.rand(HEADS, device=device, requires_grad=True)
    words = {"score": "s + slopes[h] * (k - q)", "mask": "causal", "sequences": batch.sequences}
    leaves = batch.leaves()
    right = batch.exact([*leaves, slopes], causal, by_slopes, with_lse=False)
    o = attile.attention(batch.q, leaves[1], batch.v, params={"slopes": slopes}, **words)
    check(torch.autograd.grad(o, [leaves[1], slopes], batch.d_o), (right[1], right[3]))
    o = attile.attention(batch.q, batch.k, leaves[2], params={"slopes": slopes.detach()}, **words)
    check(torch.autograd.grad(o, [leaves[2]], batch.d_o), right[2:3])
    _, lse = attile.attention(*leaves, params={"slopes": slopes}, return_lse=True, **words)
    assert torch.autograd.grad(lse, leaves, batch.d_lse)[2].count_nonzero() == 0
    with torch.no_grad():
        assert not attile.attention(*leaves, params={"slopes": slopes}, **words).requires_grad


@pytest.mark.parametrize("want_lse", [False, True])
def test_the_operator_itself(device, want_lse):
    """attention_sequences is recorded like attention_sequences_lse."""
    batch = Batch(device, True)
    leaves = batch.leaves()
    arguments = (*leaves, [], [], "", None, "bshd", "", *batch.sequences, None, None, None, want_lse, True)
    o, lse = torch.ops.attile.attention_sequences(*arguments)
    assert lse.shape == ((HEADS, len(batch.q)) if want_lse else (0,))
    batch.check(torch.autograd.grad(o, leaves, batch.d_o), batch.exact(leaves, everything, with_lse=False))


def test_the_longest_changes_no_bit(device):
    batch = Batch(device, True)
    leaves = batch.leaves()
    most = batch.sequences._replace(max_len_q=max(LENGTHS_Q), max_len_kv=max(LENGTHS_KV))
    found = [
        torch.autograd.grad(attile.attention(*leaves, sequences=one, mask="causal"), leaves, batch.d_o)
        for one in (batch.sequences, most, most)
    ]
    for one in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], one))


@pytest.mark.parametrize("ragged", [True, False], ids=["ragged", "padded"])
def test_compile(device, ragged):
    batch = Batch(device, ragged)
    slopes = torch.rand(HEADS, device=device, requires_grad=True)

    def step(q, k, v, slopes, lengths_kv, cu_q, cu_kv):
        most = {"max_len_q": max(LENGTHS_Q), "max_len_kv": max(LENGTHS_KV)} if ragged else {}
        sequences = attile.Sequences(lengths_kv=lengths_kv, cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv, **most)
        rule = {"mask": "causal", "score": "s + slopes[h] * (k - q)", "params": {"slopes: float[heads]": slopes}}
        return attile.attention(q * 2, k, v, sequences=sequences, **rule) * 3

    leaves, arrays = [*batch.leaves(), slopes], batch.sequences[:3]
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    found, right = (torch.autograd.grad(one(*leaves, *arrays), leaves, batch.d_o) for one in (compiled, step))
    assert all(torch.equal(*pair) for pair in zip(found, right))


def test_compile_once_for_all_lengths(device):
    def step(q, k, v, cu):
        sequences = attile.Sequences(cu_seqlens_q=cu, cu_seqlens_kv=cu)
        return attile.attention(q, k, v, mask="causal", sequences=sequences)

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    for lengths in ([3, 5], [4, 9], [2, 5]):
        cu = torch.tensor(sums(lengths), dtype=torch.int32, device=device)
        leaves = [torch.randn(sum(lengths), HEADS, DIM, device=device, requires_grad=True) for _ in range(3)]
        with torch._dynamo.config.patch(error_on_recompile=True):
            found, right = (torch.autograd.grad(one(*leaves, cu).sum(), leaves) for one in (compiled, step))
        assert all(torch.equal(*pair) for pair in zip(found, right))


@pytest.mark.parametrize("ragged", [True, False], ids=["ragged", "padded"])
def test_opcheck(device, ragged):
    """Without rows of no sequence in o, which are never written."""
    batch = Batch(device, ragged, spare=False)
    leaves = [one.nan_to_num(0).detach().requires_grad_() for one in batch.leaves()]
    lengths, cu_q, cu_kv, *_, most_q, most_kv = batch.sequences
    slopes = torch.rand(HEADS, device=device)
    rule = "mask=causal score='s + slopes[h] * (k - q)' params='slopes: float[heads]' sinks=1"
    parameters = [slopes.requires_grad_(), torch.randn(HEADS, device=device, requires_grad=True)]
    arguments = (*leaves, parameters, [], rule, None, "bshd", "")
    torch.library.opcheck(
        torch.ops.attile.attention_sequences_lse.default, (*arguments, lengths, cu_q, cu_kv, most_q, most_kv, True)
    )
    with torch.no_grad():
        o, lse = torch.ops.attile.attention_sequences_lse(*arguments, lengths, cu_q, cu_kv, most_q, most_kv, True)
    given = [one.detach() for one in (*leaves, o, lse)]
    for wants in ("", "dk, d_slopes"):
        torch.library.opcheck(
            torch.ops.attile.attention_backward.default,
            (batch.d_o, batch.d_lse, *given, [one.detach() for one in parameters], [], rule, wants, None, "bshd", "",
             lengths, cu_q, cu_kv, most_q, most_kv),
        )  # fmt: skip


def test_autocast(device):
    batch = Batch(device, True)
    leaves = batch.leaves()
    with torch.autocast(device, dtype=torch.bfloat16):
        o = attile.attention(*leaves, sequences=batch.sequences, mask="causal")
    found = torch.autograd.grad(o, leaves, batch.d_o.bfloat16())
    assert all(one.dtype == torch.float32 for one in found)
    batch.check(found, batch.exact(leaves, causal, with_lse=False), 4e-2)


@pytest.mark.parametrize(
    "words, seen, score",
    [
        ({}, everything, None),
        ({"causal": True}, causal, None),
        ({"causal": True, "window_size": (WINDOW - 1, 0)}, window, None),
        ({"causal": True, "alibi_slopes": True}, causal, lambda s, b, i, j, slopes: s - slopes[:, None, None] * (i - j).abs()),
    ],
    ids=["no mask", "causal", "window", "alibi"],
)
def test_flash_attn_varlen_func(device, words, seen, score):
    batch = Batch(device, True)
    leaves = batch.leaves()
    if score:
        leaves.append(torch.rand(HEADS, device=device, requires_grad=True))
        words = {**words, "alibi_slopes": leaves[3]}
    cu = batch.sequences.cu_seqlens_q, batch.sequences.cu_seqlens_kv
    o, lse, _ = flash_attn_varlen_func(
        *leaves[:3], *cu, max(LENGTHS_Q), max(LENGTHS_KV), return_attn_probs=True, **words
    )  # fmt: skip
    found = torch.autograd.grad([o, lse], leaves, [batch.d_o, batch.d_lse])
    batch.check(found, batch.exact(leaves, seen, score))


def test_what_is_refused(device):
    batch = Batch(device, True)
    q, k, v = batch.leaves()
    cu = batch.sequences.cu_seqlens_q, batch.sequences.cu_seqlens_kv
    lengths = max(LENGTHS_Q), max(LENGTHS_KV)
    with pytest.raises(errors.Unsupported, match="deterministic is True"):
        flash_attn_varlen_func(q, k, v, *cu, *lengths, deterministic=True)
    with pytest.raises(errors.InvalidArgument, match="dropout_p is 1.5"):
        flash_attn_varlen_func(q, k, v, *cu, *lengths, dropout_p=1.5)
    pages = torch.zeros(4, 8, KV_HEADS, DIM, device=device), torch.zeros(4, 8, KV_HEADS, DIM_V, device=device)
    table = torch.zeros(BATCH, 3, dtype=torch.int32, device=device)
    with pytest.raises(errors.NoBackward, match="in pages"):
        flash_attn_varlen_func(q, *pages, *cu, *lengths, block_table=table)
    rest = [], [], "", None, "bshd", "", *batch.sequences, None, None, None, True, False
    with pytest.raises(Exception, match="a graph differentiates torch.ops.attile.attention_sequences_lse"):
        torch.compile(torch.ops.attile.attention_sequences, fullgraph=True, backend="aot_eager")(q, k, v, *rest)
    gates = torch.rand(HEADS, device=device, requires_grad=True)
    o = attile.attention(q, k, v, mask="gates[h] < 2.0", params={"gates: float[heads]": gates}, sequences=batch.sequences)
    with pytest.raises(errors.NoBackward, match="d_gates cannot be had"):
        o.backward(batch.d_o)
    o = attile.attention(q, k, v, sequences=batch.sequences)
    with pytest.raises(errors.NoBackward, match="gradient of a gradient"):
        torch.autograd.grad((o[: sum(LENGTHS_Q)] ** 2).sum(), [q], create_graph=True)


def test_arrays_that_changed(device):
    """The backward pass uses the arrays of the forward pass: PyTorch detects an in-place change."""
    batch = Batch(device, False)
    leaves = batch.leaves()
    o = attile.attention(*leaves, sequences=batch.sequences)
    batch.sequences.lengths_kv.sub_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        o.backward(batch.d_o)
    sequences = batch.sequences._replace(lengths_kv=torch.full_like(batch.sequences.lengths_kv, max(LENGTHS_KV) + 1))
    o, lse = torch.ones_like(batch.d_o), torch.ones(BATCH, HEADS, LEN_Q, device=device)
    if device == "cpu":
        with pytest.raises(errors.InvalidArgument, match="lengths_kv\\[0\\] is 21, expected 0 to 20"):
            torch.ops.attile.attention_backward(
                batch.d_o, None, batch.q, batch.k, batch.v, o, lse, [], [], "", "", None, "bshd", "", sequences.lengths_kv
            )
