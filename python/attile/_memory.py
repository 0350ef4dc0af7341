"""Workspaces and streams, as the library that made a tensor has them."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from ._plan import ALIGNMENT
from ._tensor import View, empty_like, is_torch, view


def workspace_for(tensor: Any, q: View, size: int) -> tuple[object, int]:
    """So many bytes on the device of `tensor`: (what keeps them alive, their address, 256-byte aligned)."""
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
    """The stream on which the library that made `tensor` works now; 0, the default one, where it does not say."""
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
    """GPU -> the handle of PyTorch's current stream. Compiled code asks by the same function, where this PyTorch has it;
    the public one makes an object first."""
    import torch

    def public(index: int) -> int:
        return int(torch.cuda.current_stream(index).cuda_stream)

    return getattr(torch._C, "_cuda_getCurrentRawStream", public)
