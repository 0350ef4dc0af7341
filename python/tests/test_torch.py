"""The operator and scaled_dot_product_attention. `--device cuda` runs the same on a GPU, plus the GPU-only tests."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import attile.torch  # noqa: E402
import reference  # noqa: E402
from attile import errors  # noqa: E402
from attile.torch import _operator, _version, route_sdpa  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as theirs  # noqa: E402

WINDOW = {"mask": "k <= q and q - k < window", "params": {"window": 5}}
SLOPES = {"mask": "causal", "score": "alibi(slopes)"}


def tensors(device, len_q=20, len_kv=33, kv_heads=2, dim=16, dim_v=24, dtype=torch.float32):
    """Returns random q, k and v, (batch, length, heads, dim)."""
    random = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(2, length, heads, width, generator=random).to(device, dtype)
        for length, heads, width in ((len_q, 4, dim), (len_kv, kv_heads, dim), (len_kv, kv_heads, dim_v))
    )


def numpy(x):
    return x.detach().cpu().double().numpy()


def check(o, lse, q, k, v, dtype="float32", **how):
    right, right_lse, bound, lse_bound = reference.attention(
        *(numpy(x).transpose(0, 2, 1, 3) for x in (q, k, v)), dtype=dtype, **how
    )
    reference.check(numpy(o).transpose(0, 2, 1, 3), right, bound)
    if lse is not None:
        reference.check(numpy(lse), right_lse, lse_bound)


def seen(b, h, q, k):
    return (k <= q) & (q - k < 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_is_the_definition(device, dtype):
    q, k, v = tensors(device, dtype=dtype)
    o, lse = attile.attention(q, k, v, return_lse=True, **WINDOW)
    assert o.dtype == dtype and o.device == q.device and o.is_contiguous()
    check(o, lse, q, k, v, str(dtype).removeprefix("torch."), mask=seen)


def test_tensors_as_parameters_and_sinks(device):
    q, k, v = tensors(device)
    slopes, sinks = torch.tensor([0.5, 0.25, 0.125, 1], device=device), torch.tensor([0.0, 1, -1, 2], device=device)
    o, lse = attile.attention(q, k, v, params={"slopes": slopes}, sinks=sinks, return_lse=True, **SLOPES)
    table = numpy(slopes)
    check(o, lse, q, k, v, mask=lambda b, h, q, k: k <= q, sinks=numpy(sinks),
          score=lambda s, b, h, q, k: s + table[h] * (k - q))  # fmt: skip


def test_output_lies_as_the_query_does(device):
    q, k, v = (x.transpose(1, 2) for x in tensors(device))
    o = attile.attention(q, k, v, layout="bhsd")
    assert o.shape == (2, 4, 20, 24) and o.transpose(1, 2).is_contiguous()
    o = attile.attention(q.contiguous(), k, v, layout="bhsd")
    assert o.is_contiguous()


def samples(device):
    q, k, v = tensors(device)
    slopes = torch.rand(4, device=device)
    yield q, k, v, [], [], "mask=causal", None, "bshd", ""
    yield (
        q,
        k,
        v,
        [slopes],
        [5.0],
        "mask='q - k < n' score='alibi(t)' params='t: float[heads], n: int'",
        0.5,
        "bshd",
        "",
    )
    yield (*(x.transpose(1, 2) for x in (q, k, v)), [], [], "", None, "bhsd", "algorithm=flash_tiled")


@pytest.mark.parametrize("n", range(3))
@pytest.mark.parametrize("name", ["attention", "attention_lse"])
def test_opcheck(device, name, n):
    torch.library.opcheck(getattr(torch.ops.attile, name).default, list(samples(device))[n])


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(device, backend):
    q, k, v = tensors(device)
    slopes = torch.rand(4, device=device)

    def model(q, k, v):
        o, lse = attile.attention(q * 2, k, v, params={"slopes": slopes}, return_lse=True, **SLOPES)
        return o + 1, lse

    if backend == "inductor" and device == "cpu" and sys.platform != "linux":
        pytest.skip("inductor needs a C++ compiler")
    found = torch.compile(model, fullgraph=True, backend=backend)(q, k, v)
    for one, other in zip(found, model(q, k, v)):
        assert torch.equal(one, other)


def test_the_first_call_may_be_compiled():
    """The first call works under torch.compile, before the process has filled any caches, for example that of `re`."""
    script = """
import attile, torch
x = torch.randn(1, 4, 2, 16)
torch.compile(lambda x: attile.attention(x, x, x, mask="causal"), fullgraph=True, backend="eager")(x)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_dynamic_lengths_compile_once(device):
    count = pytest.importorskip("torch._dynamo.testing").CompileCounter()  # torch does not import it by itself
    compiled = torch.compile(
        lambda q, k, v: attile.attention(q, k, v, **WINDOW), fullgraph=True, dynamic=True, backend=count
    )
    for length in (9, 20, 31):
        q, k, v = tensors(device, length, length)
        assert torch.equal(compiled(q, k, v), attile.attention(q, k, v, **WINDOW))
    assert count.frame_count == 1


def test_export(device):
    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return attile.attention(q, k, v, mask="causal")

    inputs = tensors(device)
    exported = torch.export.export(Model(), inputs)
    assert "attile.attention" in exported.graph_module.code
    assert torch.equal(exported.module()(*inputs), Model()(*inputs))


def test_autocast(device):
    q, k, v = tensors(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        o = attile.attention(q, k, v, **WINDOW)
        slopes = attile.attention(q, k, v, params={"slopes": torch.rand(4, device=device)}, **SLOPES)
    assert o.dtype == slopes.dtype == torch.bfloat16
    assert torch.equal(o, attile.attention(*(x.bfloat16() for x in (q, k, v)), **WINDOW))


def in_double(q, k, v, slopes, sinks):
    """Returns (o, lse) with a causal mask and a softcap of 3 then ALiBi, by PyTorch's own operations."""
    group, len_q, len_kv = q.shape[2] // k.shape[2], q.shape[1], k.shape[1]
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    distance = torch.arange(len_kv)[None] - (torch.arange(len_q)[:, None] + len_kv - len_q)
    score = 3 * torch.tanh(q @ k.transpose(-1, -2) / q.shape[3] ** 0.5 / 3) + slopes[:, None, None] * distance
    score = score.masked_fill(distance > 0, float("-inf"))
    score = torch.cat([score, sinks.double()[None, :, None, None].expand(*score.shape[:3], 1)], -1)
    return (torch.softmax(score, -1)[..., :-1] @ v).transpose(1, 2), torch.logsumexp(score, -1)


RULE = {"mask": "causal", "score": "softcap(3) then alibi(slopes)"}


@pytest.mark.parametrize("dtype, error", [(torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_gradients_are_those_of_the_definition(device, dtype, error):
    q, k, v = (x.requires_grad_() for x in tensors(device, dtype=dtype))
    slopes, sinks = torch.rand(4, device=device), torch.randn(4, device=device, requires_grad=True)
    o, lse = attile.attention(q, k, v, params={"slopes": slopes}, sinks=sinks, return_lse=True, **RULE)
    d_o, d_lse = torch.randn_like(o), torch.randn_like(lse)
    found = torch.autograd.grad([o, lse], [q, k, v, sinks], [d_o, d_lse])
    given = [x.detach().cpu().requires_grad_() for x in (q, k, v, sinks)]
    right = torch.autograd.grad(
        in_double(*given[:3], slopes.cpu(), given[3]), given, [d_o.cpu().double(), d_lse.cpu().double()]
    )
    for one, other in zip(found, right):
        assert one.dtype == other.dtype and (one.cpu() - other).norm() <= error * other.norm()


def test_gradcheck(device):
    q, k, v = (x[:1].clone().requires_grad_() for x in tensors(device, len_q=2, len_kv=3, dim=4, dim_v=3))

    def run(q, k, v):
        return attile.attention(q, k, v, **WINDOW)

    with pytest.warns(UserWarning, match="double precision"):  # central differences in fp32 have three correct digits
        assert torch.autograd.gradcheck(run, (q, k, v), eps=1e-2, atol=2e-3, rtol=1e-2)


def test_gradients_by_every_way(device):
    q, k, v = (x.requires_grad_() for x in tensors(device))
    expected = torch.autograd.grad(attile.attention(q, k, v, return_lse=True)[0].sum(), [q, k, v])
    compiled = torch.compile(attile.attention, fullgraph=True, backend="aot_eager")
    for call in (
        lambda: attile.attention(q, k, v),
        lambda: compiled(q, k, v),
        lambda: torch.ops.attile.attention(q, k, v, [], [], "", None, "bshd", ""),
        lambda: attile.torch.flex_attention(*(x.transpose(1, 2) for x in (q, k, v)), enable_gqa=True).transpose(1, 2),
    ):
        for one, other in zip(torch.autograd.grad(call().sum(), [q, k, v]), expected):  # dO of a sum has strides of 0
            assert torch.equal(one, other)
        with torch.no_grad():
            assert not call().requires_grad
    with torch.inference_mode():
        attile.attention(q, k, v)


def test_the_choice_of_gradients_knows_how_many_tiles_there_are(device, monkeypatch):
    """288 keys fill three tiles of 96, and 320 four. Lengths beyond 2048 are rounded as in the forward pass."""
    from attile.session import Session

    asked = []
    find = Session.find
    monkeypatch.setattr(Session, "find", lambda self, problem, *how: asked.append(problem) or find(self, problem, *how))
    for len_q, len_kv in ((20, 257), (2049, 16)):
        q, k, v = (x.requires_grad_() for x in tensors(device, len_q=len_q, len_kv=len_kv))
        attile.attention(q, k, v).sum().backward()
    said = [problem.split("len_q=")[1] for problem in asked]
    assert said == ["20 len_kv=320", "20 len_kv=288", "2560 len_kv=16", "2560 len_kv=16"]


def test_gradients_that_there_are_no_kernels_for(device):
    q, k, v = (x.requires_grad_() for x in tensors(device))
    gates = torch.rand(4, device=device, requires_grad=True)
    o = attile.attention(q, k, v, mask="gates[h] < 2.0", params={"gates": gates})
    with pytest.raises(errors.NoBackward, match="d_gates cannot be had"):
        o.sum().backward()
    (first,) = torch.autograd.grad(attile.attention(q, k, v).square().sum(), [v], create_graph=False)
    assert first.shape == v.shape
    with pytest.raises(errors.NoBackward, match="gradient of a gradient"):
        torch.autograd.grad(attile.attention(q, k, v).square().sum(), [q], create_graph=True)


def test_opcheck_of_the_backward(device):
    q, k, v = tensors(device)
    o, lse = attile.attention(q, k, v, mask="causal", return_lse=True)
    torch.library.opcheck(
        torch.ops.attile.attention_backward.default,
        (torch.randn_like(o), None, q, k, v, o, lse, [], [], "mask=causal", "", None, "bshd", "algorithm=materialized"),
    )
    bias = torch.randn(4, device=device)
    rule = "score='s * exp(bias[h])' params='bias: float[heads]'"
    o, lse = attile.attention(q, k, v, score="s * exp(bias[h])", params={"bias: float[heads]": bias}, return_lse=True)
    torch.library.opcheck(
        torch.ops.attile.attention_backward.default,
        (torch.randn_like(o), None, q, k, v, o, lse, [bias], [], rule, "dk, d_bias", None, "bshd", "algorithm=materialized"),
    )


def eager_attention(q, k, v, score):
    """Attention in the precision of the inputs; score(s, b, h, q, k) takes tensors of indices. Layout bshd."""
    group = q.shape[2] // k.shape[2]
    s = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(group, 2)) / q.shape[3] ** 0.5
    index = [
        torch.arange(size, device=q.device).reshape([-1 if i == d else 1 for i in range(4)])
        for d, size in enumerate(s.shape)
    ]
    index[2] = index[2] + s.shape[3] - s.shape[2]
    return torch.einsum("bhqk,bkhd->bqhd", score(s, *index).softmax(-1), v.repeat_interleave(group, 2))


PARAMETERS = {
    "bias": (
        "s + bias[h, q - (len_kv - len_q), k]", {"bias": (4, 9, 13)}, lambda s, b, h, q, k, bias: s + bias[h, q - 4, k],
    ),
    "bias of one batch": (
        "s + bias[0, h, q - (len_kv - len_q), k]", {"bias": (1, 4, 9, 13)},
        lambda s, b, h, q, k, bias: s + bias[0, h, q - 4, k],
    ),
    "slopes": (
        "s + slopes[h] * (k - q)", {"slopes": (4,)}, lambda s, b, h, q, k, slopes: s + slopes[h] * (k - q),
    ),
    "cap": (
        "cap[0] * tanh(s / cap[0])", {"cap": (1,)}, lambda s, b, h, q, k, cap: cap[0] * torch.tanh(s / cap[0]),
    ),
    "relative": (
        "s + table[h, clamp(k - q, -3, 3) + 3]", {"table": (4, 7)},
        lambda s, b, h, q, k, table: s + table[h, (k - q).clamp(-3, 3) + 3],
    ),
    "two": (
        "s * gate[b] + bias[k]", {"gate": (2,), "bias": (13,)}, lambda s, b, h, q, k, gate, bias: s * gate[b] + bias[k],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_gradients_of_parameters(device, name):
    """Compared with autograd of the same formula in fp64."""
    score, shapes, formula = PARAMETERS[name]
    torch.manual_seed(3)
    given = [torch.randn(2, rows, heads, 16, device=device) for rows, heads in ((9, 4), (13, 2), (13, 2))]
    params = {key: torch.rand(shape, device=device) + 0.5 for key, shape in shapes.items()}
    mine = [x.clone().requires_grad_() for x in [*given, *params.values()]]
    exact = [x.detach().double().requires_grad_() for x in mine]
    d_o = torch.randn(2, 9, 4, 16, device=device)
    attile.attention(*mine[:3], score=score, params=dict(zip(params, mine[3:]))).backward(d_o)
    eager_attention(*exact[:3], lambda *at: formula(*at, *exact[3:])).backward(d_o.double())
    for found, expected in zip(mine, exact):
        assert found.grad.shape == expected.grad.shape and found.grad.dtype == found.dtype
        torch.testing.assert_close(found.grad.double(), expected.grad, rtol=1e-4, atol=1e-4)


def test_gradient_of_a_parameter_alone(device):
    q, k, v = tensors(device)
    slopes = torch.rand(4, device=device, requires_grad=True)
    attile.attention(q, k, v, params={"slopes": slopes}, **SLOPES).square().sum().backward()
    assert slopes.grad.shape == (4,) and slopes.grad.abs().sum() > 0 and q.grad is None


def test_gradient_of_an_expanded_bias(device):
    q, k, v = tensors(device)
    bias = torch.randn(k.shape[1], device=device, requires_grad=True)
    expanded = bias.expand(q.shape[0], -1)
    attile.attention(q, k, v, score="s + bias[b, k]", params={"bias": expanded}).square().sum().backward()
    whole = expanded.detach().clone().requires_grad_()
    attile.attention(q, k, v, score="s + bias[b, k]", params={"bias": whole}).square().sum().backward()
    torch.testing.assert_close(bias.grad, whole.grad.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "change, kind, message",
    [
        (lambda q, k, v: (q, k.half(), v), errors.DtypeError, "k is float16"),
        (lambda q, k, v: (q.double(), k.double(), v.double()), errors.DtypeError, "q is float64"),
        (lambda q, k, v: (q[..., ::2], k[..., ::2], v), errors.LayoutError, "stride 2"),
        (lambda q, k, v: (q[0], k[0], v[0]), errors.ShapeError, "four dimensions"),
        (lambda q, k, v: (q[:, :, :3], k, v), errors.ShapeError, "3 heads and k has 2"),
    ],
)
def test_bad_tensors(device, change, kind, message):
    with pytest.raises(kind, match=message):
        attile.attention(*change(*tensors(device)))


def test_bad_parameters(device):
    q, k, v = tensors(device)
    with pytest.raises(errors.DtypeError, match="float64"):
        attile.attention(q, k, v, params={"t": torch.zeros(4, dtype=torch.float64)}, score="s + t[h]")
    with pytest.raises(errors.ParameterError, match="n is a str"):
        attile.attention(q, k, v, params={"n": "3"}, mask="k < n")
    with pytest.raises(errors.ParameterError, match="declares 1 tensors and 0 numbers, found 0 and 1"):
        torch.ops.attile.attention(q, k, v, [], [1.0], "score='s + t[h]' params='t: float[heads]'", None, "bshd", "")


def test_an_old_torch_is_refused():
    with pytest.raises(errors.VersionError, match="PyTorch 2.1.0\\+cu118 is installed, expected 2.6"):
        _version.check("2.1.0+cu118")


# --- scaled_dot_product_attention ---------------------------------------------------------------------------------


def heads_first(device, **sizes):
    return tuple(x.transpose(1, 2).contiguous() for x in tensors(device, **sizes))


def masks(device):
    random = torch.Generator().manual_seed(1)
    boolean = torch.rand(2, 1, 20, 33, generator=random).to(device) < 0.5
    boolean[:, :, 3] = False  # a query that sees no key
    return {
        "none": {},
        "causal": {"is_causal": True},
        "scale": {"scale": 0.3},
        "bool": {"attn_mask": boolean},
        "bool of one head": {"attn_mask": boolean[0, 0]},
        "added": {"attn_mask": torch.randn(4, 20, 33, generator=random).to(device)},
    }


@pytest.mark.parametrize("name", masks("cpu"))
def test_sdpa_agrees(name, device):
    """Ours is within its rounding errors of PyTorch's result in double precision."""
    q, k, v = heads_first(device, kv_heads=4)
    words = masks(device)[name]
    found = attile.torch.scaled_dot_product_attention(q, k, v, **words)
    double = {key: x.double() if torch.is_tensor(x) and x.is_floating_point() else x for key, x in words.items()}
    right = theirs(q.double(), k.double(), v.double(), **double)
    shift = k.shape[2] - q.shape[2]
    given = words.get("attn_mask")
    mask, score = None, None
    if given is not None:
        table = given.expand(2, 4, 20, 33).cpu().numpy()
        at = lambda b, h, q, k: table[b, h, q - shift, k]  # noqa: E731
        mask, score = (at, None) if given.dtype == torch.bool else (None, lambda s, *where: s + at(*where))
    elif "is_causal" in words:
        mask = lambda b, h, q, k: k <= q - shift  # noqa: E731
    bound = reference.attention(*map(numpy, (q, k, v)), mask, score, words.get("scale"))[2]
    reference.check(numpy(found), numpy(right), bound)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_sdpa_takes_any_number_of_dimensions(shape, device):
    q, k, v = (torch.randn(*shape, length, 16, device=device) for length in (5, 9, 9))
    found = attile.torch.scaled_dot_product_attention(q, k, v)
    assert found.shape == (*shape, 5, 16)
    torch.testing.assert_close(found, theirs(q, k, v))


def test_route(device):
    q, k, v = heads_first(device)
    calls = []
    run, _operator._prepared = _operator._prepared, {}
    try:
        with route_sdpa():
            found = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            with pytest.raises(errors.InvalidArgument, match="dropout_p is 1.0"):
                theirs(q, k, v, dropout_p=1.0, enable_gqa=True)
        assert len(_operator._prepared) == 1
        with route_sdpa(fallback=True):
            calls.append(theirs(q, k, v, dropout_p=1.0, enable_gqa=True))
        theirs(q, k, v, enable_gqa=True)
        assert len(_operator._prepared) == 1
    finally:
        _operator._prepared = run
    assert torch.equal(found, attile.torch.scaled_dot_product_attention(q, k, v, enable_gqa=True))


def test_sdpa_refuses(device):
    q, k, v = heads_first(device)
    with pytest.raises(errors.ShapeError, match="enable_gqa"):
        attile.torch.scaled_dot_product_attention(q, k, v)
    with pytest.raises(errors.InvalidArgument, match="both given"):
        attile.torch.scaled_dot_product_attention(
            q, k, v, torch.ones(20, 33, device=device), is_causal=True, enable_gqa=True
        )


def test_importing_it_loads_no_compiler():
    done = subprocess.run([sys.executable, "-c", "import attile.torch, sys; sys.exit('triton' in sys.modules)"])
    assert done.returncode == 0


# --- only on a GPU ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cuda_only")
class TestCuda:
    DOCUMENTS = {"mask": "causal and document(doc)"}  # a mask that keeps tables in a workspace

    def inputs(self, length=256):
        q, k, v = tensors("cuda", length, length, dim=64, dim_v=64, dtype=torch.bfloat16)
        doc = (torch.arange(length, device="cuda") // 50).to(torch.int32).repeat(2, 1)
        return q, k, v, {"doc": doc}

    def test_graph(self):
        q, k, v, params = self.inputs()
        expected = attile.attention(q, k, v, params=params, **self.DOCUMENTS)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = attile.attention(q, k, v, params=params, **self.DOCUMENTS)
        q.mul_(-1)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(o, attile.attention(q, k, v, params=params, **self.DOCUMENTS))
        assert not torch.equal(o, expected)

    def test_two_streams(self):
        """No kernel reads what another stream produces: each waits for its own inputs only."""
        streams = [torch.cuda.Stream() for _ in range(2)]
        q, k, v, params = self.inputs(2048)
        expected = [attile.attention(q * n, k, v, params=params, **self.DOCUMENTS) for n in (1, 2)]
        torch.cuda.synchronize()
        for _ in range(20):
            found = []
            for n, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(100000)
                    found.append(attile.attention(q * (n + 1), k, v, params=params, **self.DOCUMENTS))
            torch.cuda.synchronize()
            assert all(torch.equal(one, other) for one, other in zip(found, expected))

    def test_a_stream_that_is_given(self):
        q, k, v, params = self.inputs()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        o = attile.attention(q, k, v, params=params, stream=stream.cuda_stream, **self.DOCUMENTS)
        stream.synchronize()
        assert torch.equal(o, attile.attention(q, k, v, params=params, **self.DOCUMENTS))

    def test_nothing_waits(self):
        """The call returns while earlier work on the stream still runs, for about half a second."""
        q, k, v, params = self.inputs()
        attile.attention(q, k, v, params=params, **self.DOCUMENTS)
        torch.cuda.synchronize()
        before = torch.cuda.Event()
        torch.cuda._sleep(1_000_000_000)
        before.record()
        attile.attention(q, k, v, params=params, **self.DOCUMENTS)
        assert not before.query()
        torch.cuda.synchronize()

    def test_nothing_is_copied(self):
        q, k, v, params = self.inputs()
        attile.attention(q, k, v, params=params, **self.DOCUMENTS)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            attile.attention(q, k, v, params=params, **self.DOCUMENTS)
            torch.cuda.synchronize()
        names = [one.key.lower() for one in seen.key_averages()]
        assert any("attention" in one for one in names)
        assert not [one for one in names if "memcpy" in one or "elementwise" in one]

    def test_kernel_on_cuda_tensors(self):
        q, k, v, _ = self.inputs()
        kernel = attile.compile("dtype=bf16 head_dim=64 mask=causal", device="cuda")
        o = kernel(q, k, v, layout="bshd")
        check(o, None, q, k, v, "bfloat16", mask=lambda b, h, q, k: k <= q)
        assert kernel.info.registers > 0

    def test_mixed_devices(self):
        q, k, v, _ = self.inputs()
        with pytest.raises(errors.DeviceError, match="k is on host:0 and q on cuda:0"):
            attile.attention(q, k.cpu(), v)

    def test_second_gpu(self):
        if torch.cuda.device_count() < 2:
            pytest.skip("one GPU only")
        inputs = [x.to("cuda:1") for x in self.inputs()[:3]]
        assert attile.attention(*inputs, mask="causal").device == inputs[0].device
