"""Attile in PyTorch: operators, and scaled_dot_product_attention, flex_attention and flash-attn's functions on them."""

from __future__ import annotations

from . import _version  # noqa: F401  refuses an old PyTorch before anything below needs a new one
from ._append import append_kv
from ._attention import attention
from ._flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from ._flex import flex_attention, trace_rule
from ._sdpa import route_sdpa, scaled_dot_product_attention
from ._trace import Rule

__all__ = [
    "Rule",
    "append_kv",
    "attention",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "flex_attention",
    "route_sdpa",
    "scaled_dot_product_attention",
    "trace_rule",
]
