"""Sessions, views of tensors, and the cost of importing."""

import os
import subprocess
import sys

import attile
import numpy as np
import pytest
from attile import _tensor, errors
from attile.session import session_for


def test_info_names_the_device(tmp_path):
    with attile.Session("host", cache_dir=str(tmp_path)) as session:
        info = session.info
        assert (info.device, info.arch, info.cache_dir) == ("host", "host", str(tmp_path))
    with attile.Session("host", cache_dir="") as session:
        assert session.info.cache_dir is None


def test_memory_and_counters_of_check_mode():
    """In memory of the session, every access of a kernel is checked and counted."""
    with attile.Session("host", host_mode="check") as session:
        kernel = attile.compile("head_dim=8", session=session)
        size, length = 4, 6
        q, k, v, o = (np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * (length * 8)).from_address(
            session.alloc(size * length * 8))).reshape(1, 1, length, 8) for _ in range(4))  # fmt: skip
        for one in (q, k, v):
            one[:] = np.random.default_rng(0).standard_normal(one.shape)
        kernel(q, k, v, o)
        moved = session.counters(reset=True)
        assert moved.global_read >= 3 * q.nbytes and moved.global_written == o.nbytes
        assert session.counters().global_read == 0
        with pytest.raises(errors.LaunchFailed, match="out of bounds"):
            kernel(q.copy(), k, v, o)


def test_a_forked_child_has_sessions_of_its_own():
    q = np.ones((1, 4, 1, 8), np.float32)
    expected = attile.attention(q, q, q)
    mine = session_for("host")
    child = os.fork()
    if child == 0:
        same = np.array_equal(attile.attention(q, q, q), expected) and session_for("host") is not mine
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Exporter:
    """An array of another library: it has only DLPack and a way to make new arrays."""

    def __init__(self, array):
        self._array = array
        self.dtype, self.device = array.dtype, "cpu"

    def __dlpack__(self, **words):
        return self._array.__dlpack__(**words)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __array_namespace__(self):
        class Namespace:
            float32 = np.dtype("float32")

            @staticmethod
            def empty(shape, dtype, device):
                assert device == "cpu"
                return Exporter(np.empty(shape, dtype))

        return Namespace


def test_any_tensor_with_dlpack():
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((1, 9, 2, 16)).astype(np.float32) for _ in range(3)]
    o = attile.attention(*map(Exporter, arrays), mask="causal")
    assert isinstance(o, Exporter)
    np.testing.assert_array_equal(o._array, attile.attention(*arrays, mask="causal"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "bool"])
def test_views_by_dlpack_and_by_numpy_agree(dtype):
    array = np.zeros((3, 4, 5), dtype)[:, 1:, ::2]
    by_numpy, by_dlpack = _tensor.view(array), _tensor.view(Exporter(array))
    assert by_dlpack[:6] == by_numpy[:6] == (array.ctypes.data, (3, 3, 3), (20, 5, 2), dtype, "host", 0)


@pytest.mark.parametrize("module", ["torch", "numpy", "transformers"])
def test_importing_attile_imports_nothing_else(module):
    done = subprocess.run([sys.executable, "-c", f"import attile, sys; sys.exit({module!r} in sys.modules)"])
    assert done.returncode == 0
