"""Address, sizes, strides, type and device of any tensor, without a copy.

Tensors of PyTorch and NumPy are read through their own attributes, which is several times as fast as DLPack; neither
library is imported here. All others (CuPy, JAX, ...) are read through DLPack.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from . import errors


class View(NamedTuple):
    """A tensor as the library sees it."""

    data: int  # address; 0 for a tensor without elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    dtype: str  # "float32", "bfloat16", "int64", "bool", ...
    device: str  # "host" or "cuda"
    ordinal: int  # which GPU; 0 on the host
    owner: object  # keeps the memory alive


def view(tensor: Any, stream: int = 0) -> View:
    """Returns a view of `tensor`; its elements are neither read nor copied.

    stream: the CUDA stream that will read it, for producers (DLPack) that must order their work before it.
    Raises TensorError if it is not a tensor, DeviceError for a device other than a CPU or an NVIDIA GPU.
    """
    if is_torch(tensor):
        return _view_torch(tensor)
    if hasattr(tensor, "__array_interface__"):
        return _view_numpy(tensor)
    if hasattr(tensor, "__dlpack__"):
        return _view_dlpack(tensor, stream)
    raise errors.TensorError(f"expected a tensor with DLPack (torch, CuPy, JAX, NumPy), found {type(tensor).__name__}")


def is_torch(tensor: Any) -> bool:
    """True if `tensor` is a torch.Tensor. Does not import torch."""
    return hasattr(tensor, "data_ptr")


def _view_torch(tensor: Any) -> View:
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise errors.DeviceError(f"expected a tensor on a CPU or a CUDA GPU, found one on {tensor.device}")
    return View(
        tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), str(tensor.dtype).removeprefix("torch."),
        "host" if kind == "cpu" else "cuda", max(tensor.get_device(), 0), tensor,
    )  # fmt: skip


def _view_numpy(tensor: Any) -> View:
    size = tensor.dtype.itemsize
    if any(stride % size for stride in tensor.strides):
        raise errors.LayoutError(f"strides {tensor.strides} are not multiples of the {size} bytes of an element")
    data = tensor.__array_interface__["data"][0]
    strides = tuple(stride // size for stride in tensor.strides)
    return View(data, tensor.shape, strides, tensor.dtype.name, "host", 0, tensor)


# --- DLPack ---------------------------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h, the first member of a DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int), ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


_DEVICES = {1: "host", 2: "cuda", 3: "host", 13: "cuda"}  # CPU, CUDA, pinned, managed
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _view_dlpack(tensor: Any, stream: int) -> View:
    kind = int(tensor.__dlpack_device__()[0])
    if kind not in _DEVICES:
        raise errors.DeviceError(f"expected a tensor on a CPU or a CUDA GPU, found DLPack device {kind}")
    # DLPack denotes the default stream by 1.
    capsule = tensor.__dlpack__(stream=(stream or 1)) if _DEVICES[kind] == "cuda" else tensor.__dlpack__()
    found = _DLTensor.from_address(_pointer_of(capsule, b"dltensor"))
    shape = tuple(found.shape[: found.ndim])
    strides = tuple(found.strides[: found.ndim]) if found.strides else contiguous(shape)
    code = _CODES.get(found.code, f"code{found.code}_")
    dtype = "bool" if code == "bool" else f"{code}{found.bits}"
    data = (found.data or 0) + found.byte_offset
    # The capsule is not renamed to "used_dltensor", so it frees its tensor when it is freed itself, with the owner.
    return View(data, shape, strides, dtype, _DEVICES[kind], found.device_id, (tensor, capsule))


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


# --- outputs --------------------------------------------------------------------------------------------------------


def empty_like(tensor: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Returns a new contiguous tensor of the library that made `tensor`, on its device. Its elements are arbitrary.

    Raises TensorError if that library has no array namespace; pass `out` then.
    """
    if is_torch(tensor):
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=tensor.device)
    if not hasattr(tensor, "__array_namespace__"):
        if hasattr(tensor, "__array_interface__"):  # NumPy 1
            import numpy

            return numpy.empty(shape, dtype=tensor.dtype if tensor.dtype.name == dtype else dtype)
        raise errors.TensorError(
            f"{type(tensor).__name__} does not say how its outputs are made (__array_namespace__); give out="
        )
    names = tensor.__array_namespace__()
    same = getattr(tensor.dtype, "name", str(tensor.dtype)) == dtype
    return names.empty(shape, dtype=tensor.dtype if same else getattr(names, dtype), device=tensor.device)
