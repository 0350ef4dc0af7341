"""Attention kernels that are generated, compiled and cached for exactly the case at hand.

    o = attile.attention(q, k, v, mask="k <= q and q - k < window", params={"window": 1024})
    kernel = attile.compile("dtype=bf16 head_dim=96 mask=causal")
    o = attile.flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask)

`import attile` alone never imports PyTorch; `attile.torch` does, and so do functions called on PyTorch tensors.
"""

from __future__ import annotations

from typing import Any

from . import errors
from ._library import version
from ._new_tokens import NewTokens
from ._sequences import Sequences
from .append import append_kv
from .attention import attention, explain
from .command import build, cache, command, doctor
from .errors import Error
from .kernel import Kernel, KernelInfo, compile
from .session import Session
from .shared_prefix import attention_shared_prefix

__version__ = version()


def flex_attention(*args: Any, **kwargs: Any) -> Any:
    """Runs FlexAttention's call on Attile's kernels; see attile.torch.flex_attention."""
    from .torch import flex_attention as call

    return call(*args, **kwargs)


__all__ = [
    "Error",
    "Kernel",
    "KernelInfo",
    "NewTokens",
    "Sequences",
    "Session",
    "append_kv",
    "attention",
    "attention_shared_prefix",
    "build",
    "cache",
    "command",
    "compile",
    "doctor",
    "errors",
    "explain",
    "flex_attention",
    "version",
]
