"""Bad input raises an exception of its own class, saying what was found and what was expected, before anything runs."""

import attile
import numpy as np
import pytest
from attile import errors

Q = np.zeros((1, 8, 4, 16), np.float32)
K = np.zeros((1, 9, 2, 16), np.float32)


class Alien:
    """Memory on a device that attile does not know."""

    shape = (1, 1, 1, 16)

    def __dlpack__(self):
        raise AssertionError("must not be asked")

    def __dlpack_device__(self):
        return 10, 0  # ROCm


CASES = {
    "no tensor": ((Q.tolist(), K, K), {}, errors.TensorError, "found list"),
    "dtype": ((Q.astype(np.float64),) * 3, {}, errors.DtypeError, "q is float64, expected one of float32"),
    "mixed dtypes": ((Q, K.astype(np.float16), K), {}, errors.DtypeError, "k is float16 and q is float32"),
    "device": ((Alien(), K, K), {}, errors.DeviceError, "DLPack device 10"),
    "dimensions": ((Q[0], K, K), {}, errors.ShapeError, "four dimensions"),
    "head dim": ((Q, K[..., :8], K), {}, errors.ShapeError, "k has shape \\(1, 9, 2, 8\\), expected \\(1, 9, 2, 16\\)"),
    "v length": ((Q, K, K[:, :4]), {}, errors.ShapeError, "v has shape"),
    "heads": ((Q, K.repeat(3, 2)[:, :, :3], K.repeat(3, 2)[:, :, :3]), {}, errors.ShapeError, "4 heads and k has 3"),
    "layout": ((Q, K, K), {"layout": "sbhd"}, errors.LayoutError, "one of bshd, bhsd"),
    "last dimension": ((Q[..., ::2], K[..., ::2], K), {}, errors.LayoutError, "stride 2, expected 1"),
    "backwards": ((Q[:, ::-1], K, K), {}, errors.LayoutError, "backwards"),
    "scale": ((Q, K, K), {"scale": float("nan")}, errors.InvalidArgument, "finite"),
    "parameter": ((Q, K, K), {"mask": "k < n", "params": {"n": "3"}}, errors.ParameterError, "n is a str"),
    "parameter type": (
        (Q, K, K),
        {"mask": "k < n[b]", "params": {"n": np.zeros(1)}},
        errors.DtypeError,
        "parameter n is float64",
    ),
    "unknown name": ((Q, K, K), {"mask": "k <= qq"}, errors.InvalidText, "unknown name 'qq'"),
    "head dim limit": ((np.zeros((1, 2, 1, 600), np.float32),) * 3, {}, errors.InvalidText, "576"),
    "schedule": ((Q, K, K), {"schedule": "algorithm=flash_async"}, errors.Unsupported, "flash_async"),
    "index": (
        (Q, K, K),
        {"mask": "seen[k]", "params": {"seen: bool[4]": np.ones(4, bool)}},
        errors.InvalidArgument,
        "may run",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_is_refused(case):
    tensors, words, kind, message = CASES[case]
    with pytest.raises(kind, match=message) as caught:
        attile.attention(*tensors, **words)
    assert isinstance(caught.value, attile.Error)


@pytest.fixture(scope="module")
def kernel():
    return attile.compile("head_dim=16", device="host")


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"q": Q.astype(np.float16), "k": K.astype(np.float16), "v": K.astype(np.float16)}, errors.DtypeError, "compiled for float32"),
        ({"q": Q[..., :8], "k": K[..., :8]}, errors.ShapeError, "compiled for 16 and 16"),
        ({"out": np.zeros((1, 8, 4, 16))}, errors.DtypeError, "out is float64"),
        ({"out": np.zeros((1, 8, 4, 8), np.float32)}, errors.ShapeError, "out has shape"),
        ({"lse": np.zeros((1, 8, 4), np.float32)}, errors.ShapeError, "lse has shape"),
        ({"params": {"n": 1}}, errors.ParameterError, "parameters none, found \\['n'\\]"),
        ({"out": Q}, errors.InvalidArgument, "overlap"),
    ],
)  # fmt: skip
def test_kernel_refuses(kernel, change, kind, message):
    with pytest.raises(kind, match=message):
        kernel(**{"q": Q, "k": K, "v": K, "layout": "bshd", **change})


def test_a_kernel_that_is_no_attention_is_not_called():
    kernel = attile.compile("family=softmax", device="host")
    with pytest.raises(errors.InvalidArgument, match="family softmax"):
        kernel(Q, K, K)


def test_words_of_a_session():
    with pytest.raises(errors.InvalidArgument, match="device is 'gpu', expected one of auto, cuda, host"):
        attile.Session("gpu")


def test_no_gpu(device):
    if device == "cuda":
        pytest.skip("there is one")
    with pytest.raises(errors.NoDevice):
        attile.compile("head_dim=16", device="cuda")


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with attile.Session("host", cache_dir=str(tmp_path)) as session, pytest.raises(errors.NoCompiler, match="/nowhere"):
        attile.compile("head_dim=16", session=session)


def test_every_status_has_its_class():
    from attile._library import library

    names = [library.att_status_name(n).decode() for n in range(len(errors.BY_STATUS) + 1)]
    assert len(set(names[1:-1])) == len(errors.BY_STATUS) - 1 and "?" not in "".join(names[:-1])
    assert names[-1] not in names[:-1]
    ours = {one.__name__.lower() for one in errors.BY_STATUS[1:]}
    theirs = {name.replace(" ", ""): name for name in names[1:-1]}
    assert set(theirs) - ours == {"input/outputerror", "internalerror"}
    assert ours - set(theirs) == {"filefailed", "internal"}
    assert [one.__name__.lower() for one in errors.BY_STATUS[1:9]] == [name.replace(" ", "") for name in names[1:9]]
