"""The C library through ctypes: its location, structs and functions. Nothing else in the package knows ctypes' types.

The structs repeat runtime/attile.h, except that `Args` flattens its nested structs, so that a launch sets a pointer
with one attribute. python/tests/test_layout.py compares all of them with the header.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

_PACKAGE = pathlib.Path(__file__).parent
_BUILD = _PACKAGE.parents[1] / "build" / "release"  # when the package is used from a checkout


def _installed_or_built(variable: str, installed: str, built: str) -> pathlib.Path:
    """Returns the file that the environment variable names, else the packaged one, else the one in the build tree."""
    wish = os.environ.get(variable)
    if wish:
        return pathlib.Path(wish)
    for path in (_PACKAGE / installed, _BUILD / built):
        if path.exists():
            return path
    raise ImportError(
        f"attile: neither {_PACKAGE / installed} nor {_BUILD / built} exists; install the package with pip, build the "
        f"checkout with ./quickstart setup, or set {variable} to the file"
    )


def command_path() -> pathlib.Path:
    """The `attile` command line program: $ATTILE_COMMAND, else the packaged one, else the one in the build tree."""
    return _installed_or_built("ATTILE_COMMAND", "bin/attile", "cli/attile")


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("device", c_int), ("ordinal", c_int), ("cache_dir", c_char_p), ("no_disk_cache", c_int),
        ("cache_limit", c_uint64), ("template_dir", c_char_p), ("tuned_table", c_char_p), ("bundles", c_void_p),
        ("host_mode", c_int), ("host_seed", c_uint64), ("log", c_void_p), ("log_context", c_void_p),
        ("quick_first", c_int64),
    ]  # fmt: skip


class Param(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("type", c_int), ("number", c_double), ("data", c_void_p), ("size", c_int64 * 4),
        ("stride", c_int64 * 4),
    ]  # fmt: skip


class ParamGradient(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("size", c_int64 * 4), ("stride", c_int64 * 4)]


TENSORS = ("q", "k", "v", "o")
STRIDES = ("batch_stride", "head_stride", "row_stride")


def _tensors(names: tuple[str, ...]) -> list[tuple[str, Any]]:
    """The members of struct att_tensor, flattened: an address has the name of its tensor."""
    return [
        field for name in names
        for field in ((name, c_void_p), *((f"{name}_{stride}", c_int64) for stride in STRIDES))
    ]  # fmt: skip


_ARGS: list[tuple[str, Any]] = [
    ("size", c_size_t),
    ("family", c_int),
    ("workspace_size", c_size_t),
    ("workspace", c_void_p),
]
_FORWARD: list[tuple[str, Any]] = [
    *_tensors(TENSORS),
    ("lse", c_void_p), ("lse_batch_stride", c_int64), ("lse_head_stride", c_int64), ("batch", c_int64),
    ("heads", c_int64), ("kv_heads", c_int64), ("len_q", c_int64), ("len_kv", c_int64), ("scale", c_float),
    ("param_count", c_int), ("params", POINTER(Param)), ("cu_seqlens_q", c_void_p), ("cu_seqlens_kv", c_void_p),
    ("lengths_kv", c_void_p), ("page_table", c_void_p), ("page_table_row_stride", c_int64),
    ("page_indptr", c_void_p), ("page_indices", c_void_p), ("pages", c_int64), ("total_q", c_int64),
    ("total_kv", c_int64), ("dropout_p", c_float), ("dropout_seed", c_uint64), ("dropout_offset", c_uint64),
    ("dropout_state", c_void_p),
    ("k_scale", c_void_p), ("v_scale", c_void_p),
    *((f"{name}_scale_{stride}", c_int64) for name in "kv" for stride in STRIDES),
    *_tensors(("k_new", "v_new")), ("rope_base", c_float), ("rope_cos", c_void_p), ("rope_sin", c_void_p),
    ("rope_row_stride", c_int64), ("rope_rows", c_int64),
]  # fmt: skip


class Args(ctypes.Structure):
    """struct att_args up to the end of its member `attention`. An address has the name of its tensor: args.q."""

    _fields_ = [*_ARGS, *_FORWARD]


class BackwardArgs(ctypes.Structure):
    """The same with member `attention_backward`; members of the forward pass have the same names as in Args."""

    _fields_ = [
        *_ARGS, *_tensors(("d_o",)), ("d_lse", c_void_p), *_tensors(("dq", "dk", "dv")), ("d_sinks", c_void_p),
        ("d_lse_batch_stride", c_int64), ("d_lse_head_stride", c_int64), *_FORWARD, ("param_gradient_count", c_int),
        ("param_gradients", POINTER(ParamGradient)),
    ]  # fmt: skip


class AppendArgs(ctypes.Structure):
    """struct att_args up to the end of its member `append`."""

    _fields_ = [
        *_ARGS, *_tensors(("q", "q_out", "k", "v", "k_cache", "v_cache")), ("batch", c_int64), ("heads", c_int64),
        ("kv_heads", c_int64), ("len_q", c_int64), ("len_kv", c_int64), ("cu_seqlens_q", c_void_p), ("total_q", c_int64),
        ("lengths_kv", c_void_p), ("page_table", c_void_p), ("page_table_row_stride", c_int64),
        ("page_indptr", c_void_p), ("page_indices", c_void_p), ("pages", c_int64), ("slots", c_void_p),
        ("positions", c_void_p), ("k_scale", c_void_p), ("v_scale", c_void_p),
        *((f"{scale}_{stride}", c_int64) for scale in ("k_scale", "v_scale") for stride in STRIDES),
        ("rope_base", c_float), ("rope_cos", c_void_p), ("rope_sin", c_void_p), ("rope_row_stride", c_int64),
        ("rope_rows", c_int64),
    ]  # fmt: skip


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), *((stride, c_int64) for stride in STRIDES)]


class SharedPrefix(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("prefix", c_void_p), ("merge", c_void_p), ("k", Tensor), ("v", Tensor), ("len", c_int64),
        ("lengths_kv", c_void_p), ("page_table", c_void_p), ("pages", c_int64), ("k_scale", c_void_p), ("v_scale", c_void_p),
        *((f"{scale}_{stride}", c_int64) for scale in ("k_scale", "v_scale") for stride in STRIDES),
    ]  # fmt: skip


class KernelInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("registers", c_int), ("spill_bytes", c_int), ("shared_bytes", c_int), ("threads", c_int),
        ("launches", c_int), ("instructions", c_int), ("binary_size", c_uint64), ("compile_seconds", c_double),
        ("compiler_seconds", c_double), ("origin", c_char_p),
    ]  # fmt: skip


class SessionInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("device", c_int), ("multiprocessors", c_int), ("device_name", c_char_p),
        ("arch", c_char_p), ("compiler", c_char_p), ("cache_dir", c_char_p),
    ]  # fmt: skip


class Counters(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("global_read", c_uint64), ("global_written", c_uint64), ("shared_read", c_uint64),
        ("shared_written", c_uint64), ("shared_conflicts", c_uint64),
    ]  # fmt: skip


# Enumerators of the header, keyed by the words that Python uses.
DEVICES = {"auto": 0, "cuda": 1, "host": 2}
HOST_MODES = {"check": 0, "fast": 1}
PARAM_TYPES = {"bool": 1, "int32": 2, "float32": 3, "float16": 4, "bfloat16": 5}
ATTENTION_FORWARD = 2
ATTENTION_BACKWARD = 4
APPEND_KV = 5
REPEAT = -(2**63)  # ATT_REPEAT
SCALE_ZERO = -0.0  # ATT_SCALE_ZERO

_LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)

_STATUS = c_int
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "att_version": (c_char_p, []),
    "att_status_name": (c_char_p, [c_int]),
    "att_open": (_STATUS, [POINTER(Options), POINTER(c_void_p)]),
    "att_close": (None, [c_void_p]),
    "att_message": (c_char_p, [c_void_p]),
    "att_find": (_STATUS, [c_void_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "att_release": (None, [c_void_p]),
    "att_prepare": (_STATUS, [c_void_p]),
    "att_kernel_name": (c_char_p, [c_void_p]),
    "att_kernel_source": (c_char_p, [c_void_p]),
    "att_kernel_describe": (_STATUS, [c_void_p, POINTER(KernelInfo)]),
    "att_explain": (_STATUS, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "att_workspace_size": (_STATUS, [c_void_p, c_void_p, POINTER(c_size_t)]),
    "att_launch": (_STATUS, [c_void_p, c_void_p, c_void_p]),
    "att_check": (_STATUS, [c_void_p, c_void_p]),
    "att_launch_shared_prefix": (_STATUS, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "att_shared_prefix_workspace_size": (_STATUS, [c_void_p, c_void_p, c_void_p, POINTER(c_size_t)]),
    "att_dropout_keep": (c_int, [c_float, c_uint64, c_uint64, c_int64, c_int64, c_int64, c_int64, c_int64]),
    "att_alloc": (_STATUS, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "att_free": (_STATUS, [c_void_p, c_void_p]),
    "att_copy_in": (_STATUS, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "att_copy_out": (_STATUS, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "att_synchronize": (_STATUS, [c_void_p]),
    "att_session_describe": (_STATUS, [c_void_p, POINTER(SessionInfo)]),
    "att_counters_read": (_STATUS, [c_void_p, POINTER(Counters), c_int]),
}


def _load() -> ctypes.CDLL:
    path = _installed_or_built("ATTILE_LIBRARY", "libattile.so", "runtime/libattile.so")
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


def version() -> str:
    """The library's version, "0.1.0"."""
    return library.att_version().decode()  # type: ignore[no-any-return]
