"""Workspaces and streams, as the library that made a tensor has them."""

from __future__ import annotations

import ctypes
import sys
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


def current_stream(tensor: Any, q: View) -> int:
    """The stream on which the library that made `tensor` works now; 0, the default one, where it does not say."""
    if q.device == "host":
        return 0
    if is_torch(tensor):
        import torch

        return int(torch.cuda.current_stream(q.ordinal).cuda_stream)
    cupy: Any | None = sys.modules.get("cupy")
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return int(cupy.cuda.get_current_stream().ptr)
    return 0
