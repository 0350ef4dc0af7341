"""Workspaces and streams from the library that made a tensor."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from ._plan import ALIGNMENT
from ._tensor import View, empty_like, is_torch, view


def workspace_for(tensor: Any, q: View, size: int) -> tuple[object, int]:
    """Allocates `size` bytes on the device of `tensor`. Returns (owner of the memory, 256-byte aligned address)."""
    if not size:
        return None, 0
    if q.device == "host" and not is_torch(tensor):
        room: Any = ctypes.create_string_buffer(size + ALIGNMENT)
        address = ctypes.addressof(room)
    else:
        room = empty_like(tensor, (size + ALIGNMENT,), "uint8")
        address = view(room).data
    return room, address + -address % ALIGNMENT


def current_stream(tensor: Any) -> int:
    """The current stream of the library that made `tensor`; 0, the default stream, if the library does not tell."""
    try:
        index: int = tensor.get_device()  # PyTorch's
        return 0 if index < 0 else torch_stream()(index)
    except AttributeError:
        pass
    cupy: Any | None = sys.modules.get("cupy")
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return int(cupy.cuda.get_current_stream().ptr)
    return 0


@functools.cache
def torch_stream() -> Callable[[int], int]:
    """Returns a function from GPU index to the handle of PyTorch's current stream: the one that compiled code calls, if
    this PyTorch has it. The public function creates an object first."""
    import torch

    def public(index: int) -> int:
        return int(torch.cuda.current_stream(index).cuda_stream)

    return getattr(torch._C, "_cuda_getCurrentRawStream", public)
