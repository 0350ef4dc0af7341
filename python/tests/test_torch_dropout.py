"""Dropout of the operators against the definition, with the mask that the library computes on the host."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import attile.torch  # noqa: E402
from attile import errors  # noqa: E402
from attile._library import library  # noqa: E402

P = 0.25  # exactly a multiple of 2^-16


def inputs(device, dtype=torch.float32):
    """Returns random q, k and v, (batch, heads, length, dim)."""
    random = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(2, heads, length, 16, generator=random).to(device, dtype).requires_grad_()
        for heads, length in ((4, 20), (2, 33), (2, 33))
    )


def kept(device, seed):
    """Returns the mask of the next call that draws from a generator with this seed."""
    random = torch.Generator(device).manual_seed(seed)
    state = torch.randint(-(2**63), 2**63 - 1, (2,), dtype=torch.int64, device=device, generator=random).tolist()
    seed, offset = (number % 2**64 for number in state)
    return torch.tensor(
        [[[[library.att_dropout_keep(P, seed, offset, 4, b, h, q, k) for k in range(33)] for q in range(20)]
          for h in range(4)] for b in range(2)], dtype=torch.float64)  # fmt: skip


def definition(q, k, v, mask, causal=False):
    q, k, v = (one.detach().cpu().double().requires_grad_() for one in (q, k, v))
    scores = q @ k.repeat_interleave(2, 1).transpose(2, 3) / 4
    if causal:
        scores = scores.masked_fill(~torch.ones(20, 33, dtype=torch.bool).tril(13), -torch.inf)
    return (scores.softmax(3) * mask / (1 - P)) @ v.repeat_interleave(2, 1), (q, k, v), scores.logsumexp(3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_the_definition_and_so_are_its_gradients(device, dtype):
    q, k, v = inputs(device, dtype)
    o, lse = attile.torch.attention(
        q, k, v, mask="causal", dropout_p=P, generator=torch.Generator(device).manual_seed(5), layout="bhsd",
        return_lse=True,
    )  # fmt: skip
    right, leaves, right_lse = definition(q, k, v, kept(device, 5), causal=True)
    by_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(2)).to(device, dtype)
    by_lse = torch.randn(lse.shape, generator=torch.Generator().manual_seed(3)).to(device)
    torch.autograd.backward((o, lse), (by_o, by_lse))
    torch.autograd.backward((right, right_lse), (by_o.cpu().double(), by_lse.cpu().double()))
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 5e-2}
    torch.testing.assert_close(o.detach().cpu().double(), right.detach(), **close)
    for one, other in zip((q, k, v), leaves):
        torch.testing.assert_close(one.grad.cpu().double(), other.grad, **close)


def test_random_numbers_are_pytorchs(device):
    q, k, v = (one.detach() for one in inputs(device))

    def call():
        return attile.torch.scaled_dot_product_attention(q, k, v, dropout_p=P, enable_gqa=True)

    torch.manual_seed(3)
    first, second = call(), call()
    torch.manual_seed(3)
    assert torch.equal(call(), first) and not torch.equal(first, second)


def test_it_stays_in_a_graph(device):
    q, k, v = inputs(device)

    def call(q, k, v):
        return attile.torch.attention(q, k, v, dropout_p=P, layout="bhsd")

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.manual_seed(4)
    o = compiled(q, k, v)
    o.sum().backward()
    assert not torch.equal(o, compiled(q, k, v)) and q.grad.isfinite().all()


def test_probabilities_that_cannot_be(device):
    q, k, v = (one.detach() for one in inputs(device))
    for p in (1.0, -0.5, float("nan")):
        with pytest.raises(errors.InvalidArgument, match="dropout_p is"):
            attile.torch.attention(q, k, v, dropout_p=p, layout="bhsd")
    o = attile.torch.attention(q, k, v, dropout_p=0.0, layout="bhsd")
    assert torch.equal(o, attile.torch.attention(q, k, v, layout="bhsd"))


@pytest.mark.usefixtures("cuda_only")
def test_a_graph_draws_new_numbers_at_every_replay():
    q, k, v = (one.detach() for one in inputs("cuda", torch.bfloat16))
    attile.torch.attention(q, k, v, dropout_p=P, layout="bhsd")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attile.torch.attention(q, k, v, dropout_p=P, layout="bhsd")
    graph.replay()
    first = o.clone()
    graph.replay()
    assert not torch.equal(first, o)
