"""attile.compile and the kernel that it returns."""

import threading

import attile
import numpy as np
import pytest
import reference
from attile import errors
from test_attention import check, tensors

PROBLEM = {"dtype": "fp32", "head_dim": 16, "head_dim_v": 24, "mask": "k <= q and q - k < window", "params": "window: int"}


@pytest.fixture(scope="module")
def kernel():
    return attile.compile(PROBLEM, device="host")


def seen(b, h, q, k):
    return (k <= q) & (q - k < 7)


def test_source_name_and_info(kernel):
    assert "constexpr int HEAD_DIM = 16;" in kernel.source
    assert kernel.name in repr(kernel) and kernel.name.isidentifier()
    assert kernel.info.threads >= 32 and kernel.info.binary_size > 0 and kernel.info.registers == -1
    assert kernel.info.origin in ("compiler", "disk")


def test_text_and_mapping_are_one_kernel(kernel):
    text = "dtype=fp32 head_dim: 16, head_dim_v=24 mask='k <= q and q - k < window' params='window: int'"
    assert attile.compile(text, device="host").name == kernel.name


def test_call_fills_what_it_is_given(kernel):
    q, k, v = tensors()
    out, lse = np.full((2, 4, 20, 24), np.nan, np.float32), np.full((2, 4, 20), np.nan, np.float32)
    assert kernel(q, k, v, out, lse, params={"window": 7}) is out
    check((out, lse), q, k, v, mask=seen)


def test_calls_differ_by_numbers_scale_and_layout(kernel):
    """The keys of plans distinguish such calls."""
    q, k, v = tensors()
    for window, scale in ((7, None), (3, None), (3, 0.5), (7, None)):
        out = kernel(q, k, v, params={"window": window}, scale=scale)
        o, _, bound, _ = reference.attention(
            q, k, v, mask=lambda b, h, q, k, w=window: (k <= q) & (q - k < w), scale=scale
        )
        reference.check(out, o, bound)
    turned = kernel(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), params={"window": 7}, layout="bshd")
    np.testing.assert_array_equal(turned.transpose(0, 2, 1, 3), kernel(q, k, v, params={"window": 7}))


def test_workspace():
    """A mask that reads tensors keeps tables of them in a workspace, which the caller may provide."""
    kernel = attile.compile(
        {"dtype": "fp32", "head_dim": 16, "head_dim_v": 24, "mask": "document(doc)", "params": "doc: int[batch, len_kv]"},
        device="host",
    )
    q, k, v = tensors()
    doc = np.sort(np.random.default_rng(2).integers(0, 3, (2, 33)), axis=1).astype(np.int32)
    size = kernel.workspace_size(q, k, v, params={"doc": doc})
    assert size > 0
    own = kernel(q, k, v, params={"doc": doc})
    room = np.empty(size + 256, np.uint8)
    room = room[-room.ctypes.data % 256 :]
    np.testing.assert_array_equal(kernel(q, k, v, params={"doc": doc}, workspace=room), own)
    with pytest.raises(errors.InvalidArgument, match=f"the workspace has {size - 1} bytes, expected {size}"):
        kernel(q, k, v, params={"doc": doc}, workspace=room[: size - 1])


def test_threads_share_a_kernel(kernel):
    inputs = [tensors(seed) for seed in range(8)]
    expected = [kernel(*one, params={"window": 7}) for one in inputs]
    wrong = []

    def work(n):
        for _ in range(20):
            if not np.array_equal(kernel(*inputs[n], params={"window": 7}), expected[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_explain_names_the_constraint():
    assert "head_dim    = 96" in attile.explain("family=attention_forward head_dim=96", device="host")
    with pytest.raises(errors.Unsupported, match="head_dim"):
        attile.explain("family=attention_forward dtype=bf16 head_dim=65", "algorithm=flash_async", device="host")


def test_a_bound_launch_reads_its_tensors_anew(kernel):
    q, k, v = tensors()
    out, lse = np.zeros((2, 4, 20, 24), np.float32), np.zeros((2, 4, 20), np.float32)
    launch = kernel.bind(q, k, v, out, lse, params={"window": 7})
    for _ in range(2):
        launch()
        check((out, lse), q, k, v, mask=seen)
        q *= -1
