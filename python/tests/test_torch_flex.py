"""flex_attention against the definition, evaluated with the same functions; and against PyTorch's own, uncompiled."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import attile.torch  # noqa: E402
import reference  # noqa: E402
from attile import errors  # noqa: E402
from gallery import BATCH, GALLERY, HEADS, LENGTH  # noqa: E402
from torch.nn.attention import flex_attention as flex  # noqa: E402

DIM = 16


def tensors(device, lengths=None, kv_heads=HEADS, dtype=torch.float32):
    random = torch.Generator().manual_seed(0)
    len_q, len_kv = lengths or (LENGTH, LENGTH)
    return tuple(
        torch.randn(BATCH, heads, length, DIM, generator=random).to(device, dtype)
        for heads, length in ((HEADS, len_q), (kv_heads, len_kv), (kv_heads, len_kv))
    )


def numpy(x):
    return x.detach().cpu().double().numpy()


def on_positions(function, shift):
    """Returns a function of FlexAttention on arrays of the expressions' positions, in double precision. The original is
    for one query and one key, so it is mapped over all of them."""
    if function is None:
        return None

    def call(*values):
        *score, b, h, q, k = (torch.as_tensor(one) for one in values)
        each = function
        for dim in (3, 2, 1, 0):
            each = torch.vmap(each, in_dims=(*(0 for _ in score), *(0 if dim == i else None for i in range(4))))
        return each(*score, b.flatten(), h.flatten(), q.flatten() - shift, k.flatten()).numpy()

    return call


def expected(q, k, v, mask, score, dtype="float32"):
    shift = k.shape[2] - q.shape[2]
    return reference.attention(*map(numpy, (q, k, v)), on_positions(mask, shift), on_positions(score, shift), dtype=dtype)


@pytest.mark.parametrize("name", GALLERY)
def test_gallery(name, device):
    one = GALLERY[name]
    q, k, v = tensors(device, one.lengths)
    mask, score = one.make(device)
    o, lse = attile.flex_attention(q, k, v, score_mod=score, mask_mod=mask, return_lse=True)
    right, right_lse, bound, lse_bound = expected(q, k, v, *one.make("cpu"))
    reference.check(numpy(o), right, bound)
    reference.check(numpy(lse), right_lse, lse_bound)


@pytest.mark.parametrize("name", GALLERY)
def test_agrees_with_flex_attention(name, device):
    """Both are within their rounding errors of the definition; PyTorch's, uncompiled, is allowed as much again."""
    one = GALLERY[name]
    q, k, v = tensors(device, one.lengths)
    mask, score = one.make(device)
    block_mask = mask and flex.create_block_mask(mask, BATCH, HEADS, q.shape[2], k.shape[2], device=device)
    theirs = flex.flex_attention(q, k, v, score_mod=score, block_mask=block_mask)
    ours = attile.flex_attention(q, k, v, score_mod=score, block_mask=block_mask)
    reference.check(numpy(ours), numpy(theirs), 2 * expected(q, k, v, *one.make("cpu"))[2])


def test_there_are_enough_of_them():
    assert len(GALLERY) >= 30


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_grouped_heads_in_sixteen_bits(device, dtype):
    q, k, v = tensors(device, kv_heads=2, dtype=dtype)
    mask, score = GALLERY["softcap_of_a_window"].make(device)
    o = attile.flex_attention(q, k, v, score_mod=score, mask_mod=mask, enable_gqa=True)
    right, _, bound, _ = expected(q, k, v, mask, score, str(dtype).removeprefix("torch."))
    reference.check(numpy(o), right, bound)


def test_and_masks(device):
    q, k, v = tensors(device)
    masks = [GALLERY[name].make(device)[0] for name in ("causal", "documents", "window_of_each_head")]
    both = flex.or_masks(flex.and_masks(*masks[:2]), masks[2])
    o = attile.flex_attention(q, k, v, mask_mod=both)
    host = [GALLERY[name].make("cpu")[0] for name in ("causal", "documents", "window_of_each_head")]
    right, _, bound, _ = expected(q, k, v, flex.or_masks(flex.and_masks(*host[:2]), host[2]), None)
    reference.check(numpy(o), right, bound)


def test_a_mask_within_a_score_becomes_a_mask(device):
    """As a mask, it keeps hidden tiles from being loaded."""
    q, k, _ = tensors(device)
    rule = attile.torch.trace_rule(q, k, score_mod=GALLERY["mask_within_a_score"].make(device)[1])
    assert (rule.mask, rule.score) == ("(q >= k)", None)
    rule = attile.torch.trace_rule(
        q, k, score_mod=lambda s, b, h, q, kv: torch.where(q < kv, float("-inf"), s * 2), mask_mod=lambda b, h, q, kv: kv > 1
    )
    assert (rule.mask, rule.score) == ("((k > 1) and (not (q < k)))", "(s * 2)")


def test_one_kernel_for_all_lengths(device):
    """Dimensions are given by name, so a rule that was traced once serves other lengths."""
    rules = set()
    for length in (17, 32):
        ids = torch.zeros(BATCH, length, dtype=torch.int64, device=device)
        q, k, _ = tensors(device, (length, length))
        found = attile.torch.trace_rule(q, k, mask_mod=lambda b, h, q, kv, ids=ids: ids[b, q] == ids[b, kv])
        rules.add((found.mask, *found.params))
    assert rules == {("(t0[b, q] == t0[b, k])", "t0: int[batch, len_kv]")}


def test_rule_is_traced_once(device):
    mask, score = GALLERY["softcap_of_a_window"].make(device)
    q, k, v = tensors(device)
    rule = attile.torch.trace_rule(q, k, score_mod=score, mask_mod=mask)
    again = attile.flex_attention(q, k, v, rule=rule)
    assert torch.equal(again, attile.flex_attention(q, k, v, score_mod=score, mask_mod=mask))
    with pytest.raises(errors.ShapeError, match="trace it again"):
        attile.flex_attention(q[:, :, :5], k, v, rule=rule)


def test_a_number_on_another_device_is_not_read():
    """Reading it would wait for a GPU: it becomes a parameter of one element, whichever side of an operator it is on."""
    offset, factor = torch.tensor(43, device="meta"), torch.tensor(0.75, device="meta")  # have no values to read
    q = k = torch.zeros(1, 2, 8, 16)
    rule = attile.torch.trace_rule(q, k, mask_mod=lambda b, h, q, kv: (q + offset >= kv) & (offset < kv))
    assert rule.mask == "(((t0[0] + q) >= k) and (t0[0] < k))"
    assert list(rule.params) == ["t0: int[1]"] and next(iter(rule.params.values())).data_ptr() == offset.data_ptr()
    rule = attile.torch.trace_rule(q, k, score_mod=lambda s, b, h, q, kv: factor - s / factor)
    assert rule.score == "(t0[0] - (s / t0[0]))" and list(rule.params) == ["t0: float[1]"]


def test_a_rule_under_compile(device):
    mask, score = GALLERY["documents"].make(device)
    q, k, v = tensors(device)
    rule = attile.torch.trace_rule(q, k, score_mod=score, mask_mod=mask)
    compiled = torch.compile(lambda q, k, v: attile.torch.flex_attention(q * 2, k, v, rule=rule), fullgraph=True,
                             backend="aot_eager")  # fmt: skip
    assert torch.equal(compiled(q, k, v), attile.flex_attention(q * 2, k, v, rule=rule))


def test_functions_under_compile(device):
    """They are traced between two graphs, and again when a captured value changes."""

    def run(q, k, v, ids, window):
        return attile.torch.flex_attention(
            q * 2, k, v, mask_mod=lambda b, h, q, kv: (q - kv < window) & (ids[q] == ids[kv]),
            score_mod=lambda s, b, h, q, kv: torch.tanh(s) * 2,
        )  # fmt: skip

    q, k, v = tensors(device)
    compiled = torch.compile(run, backend="aot_eager")
    for window, length in ((3, 5), (3, 4), (9, 4)):
        ids = torch.arange(LENGTH, device=device) // length
        assert torch.equal(compiled(q, k, v, ids, window), run(q, k, v, ids, window))


def test_aux(device):
    if not hasattr(flex, "AuxRequest"):
        pytest.skip("this PyTorch has no AuxRequest")
    q, k, v = tensors(device)
    o, aux = attile.flex_attention(q, k, v, return_aux=flex.AuxRequest(lse=True))
    both = attile.flex_attention(q, k, v, return_lse=True)
    assert torch.equal(o, both[0]) and torch.equal(aux.lse, both[1])


def test_gradients_of_captured_tensors(device):
    q, k, v = tensors(device)
    slopes = torch.rand(HEADS, device=device, requires_grad=True)
    cap = torch.tensor(2.0, device=device, requires_grad=True)
    o = attile.flex_attention(q, k, v, score_mod=lambda s, b, h, q, kv: cap * torch.tanh(s / cap) + slopes[h] * (q - kv))
    o.square().sum().backward()
    exact = [x.detach().double().requires_grad_() for x in (slopes, cap)]
    s = torch.einsum("bhqd,bhkd->bhqk", q.double(), k.double()) / q.shape[3] ** 0.5
    distance = torch.arange(q.shape[2], device=device)[:, None] - torch.arange(k.shape[2], device=device)
    s = exact[1] * torch.tanh(s / exact[1]) + exact[0][:, None, None] * distance
    torch.einsum("bhqk,bhkd->bhqd", s.softmax(-1), v.double()).square().sum().backward()
    for found, expected in zip((slopes, cap), exact):
        torch.testing.assert_close(found.grad.double(), expected.grad, rtol=1e-3, atol=1e-3)


REFUSED = {
    "sine": (lambda s, b, h, q, kv: torch.sin(s), "`sin`"),
    "decision": (lambda s, b, h, q, kv: s if q >= kv else -s, "a Python decision"),
    "mathematics": (lambda s, b, h, q, kv: __import__("math").tanh(s), "a Python decision or number"),
    "power": (lambda s, b, h, q, kv: s**h, "the power h"),
    "slice": (lambda s, b, h, q, kv: s + torch.zeros(4, 4)[h, :2], "a slice"),
    "row": (lambda s, b, h, q, kv: s + torch.zeros(4, 4)[h], "row of a tensor"),
    "tensor": (lambda s, b, h, q, kv: s + torch.zeros(4), "a whole tensor of shape \\(4,\\)"),
    "real index": (lambda s, b, h, q, kv: s + torch.zeros(4)[h / 2], "a real as an index"),
    "text": (lambda s, b, h, q, kv: s + "1", "a str"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_named_with_its_line(name, device):
    function, message = REFUSED[name]
    q, k, v = tensors(device)
    with pytest.raises(errors.TraceError, match=message) as caught:
        attile.flex_attention(q, k, v, score_mod=function)
    line = function.__code__.co_firstlineno
    assert f"test_torch_flex.py:{line}: " in str(caught.value) and f'"{name}"' in str(caught.value)


def test_other_refusals(device):
    q, k, v = tensors(device, kv_heads=2)
    with pytest.raises(errors.ShapeError, match="enable_gqa"):
        attile.flex_attention(q, k, v)
    with pytest.raises(errors.TraceError, match="gives a integer|gives an? integer"):
        attile.flex_attention(q, k, v, mask_mod=lambda b, h, q, kv: q - kv, enable_gqa=True)
    table = torch.zeros(HEADS, dtype=torch.float64, device=device)
    with pytest.raises(errors.DtypeError, match="float64"):
        attile.flex_attention(q, k, v, score_mod=lambda s, b, h, q, kv: s + table[h], enable_gqa=True)
    q, k, v = tensors(device)
    block_mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 128, 128, device=device)
    with pytest.raises(errors.ShapeError, match="block_mask was made for lengths \\(128, 128\\)"):
        attile.flex_attention(q, k, v, block_mask=block_mask)
