"""Attile in PyTorch: an operator, scaled_dot_product_attention and flex_attention on it."""

from __future__ import annotations

from . import _version  # noqa: F401  refuses an old PyTorch before anything below needs a new one
from ._attention import attention
from ._flex import flex_attention, trace_rule
from ._sdpa import route_sdpa, scaled_dot_product_attention
from ._trace import Rule

__all__ = ["Rule", "attention", "flex_attention", "route_sdpa", "scaled_dot_product_attention", "trace_rule"]
