"""Hugging Face transformers: `import attile.transformers`, then attn_implementation="attile".

Two functions are registered. `mask` is called once per forward pass and traces the model's own mask function, including
sliding windows and packed sequences, to an expression. Every layer calls `attention` with the result of `mask`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import errors
from ._problem import Sizes
from .torch._attention import attention as _attention
from .torch._sdpa import attn_mask_rule
from .torch._symbol import INT, Symbol
from .torch._trace import Rule, trace

try:
    from transformers import AttentionInterface, AttentionMaskInterface
except ImportError as error:
    raise errors.VersionError(
        "transformers with AttentionMaskInterface was not found; install 4.53 or newer: pip install -U transformers"
    ) from error

NAME = "attile"


class ModelMask(Rule):
    """A rule in place of the tensor of four dimensions that models expect; `generate` uses these two of its members."""

    ndim = 4

    def contiguous(self) -> ModelMask:
        return self


def mask(
    batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None, attention_mask: Any = None, **_: Any,
) -> Rule:  # fmt: skip
    """Returns the model's mask as an expression. attention_mask: (batch, tokens), true where there is no padding.

    The offsets become parameters, so that generating token by token needs only one kernel.
    """
    if isinstance(attention_mask, ModelMask):  # made in advance by `generate`
        return attention_mask
    q_length, kv_length = int(q_length), int(kv_length)
    params: dict[str, Any] = {}
    key = Symbol("k", INT) if not kv_offset else Symbol("(k + kv_offset)", INT)
    if kv_offset:
        params["kv_offset: int"] = int(kv_offset)
    if isinstance(q_offset, torch.Tensor):  # a static cache
        params["q_offset: int[1]"] = q_offset.reshape(1)
        query = Symbol("(q - (len_kv - len_q) + q_offset[0])", INT)
    elif q_offset - kv_offset == kv_length - q_length:  # the last query is aligned with the last key, as in expressions
        query = Symbol("q" if not kv_offset else "(q + kv_offset)", INT)
    else:
        params["q_offset: int"] = int(q_offset)
        query = Symbol("(q - (len_kv - len_q) + q_offset)", INT)
    sizes = Sizes(batch_size, -1, -1, q_length, kv_length)
    rule = trace(sizes, mask_function, None, (query, key), params)
    if attention_mask is None:
        return ModelMask(rule.mask, rule.score, rule.params, sizes)
    seen = attention_mask[:, kv_offset : kv_offset + kv_length].to(torch.bool)
    if seen.shape[1] < kv_length:  # a static cache, whose end is empty
        seen = torch.nn.functional.pad(seen, (0, kv_length - seen.shape[1]))
    text = "seen[b, k]" if rule.mask is None else f"{rule.mask} and seen[b, k]"
    return ModelMask(text, rule.score, {**rule.params, "seen: bool[batch, len_kv]": seen}, sizes)


def attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, dropout: float = 0.0,
    scaling: float | None = None, softcap: float | None = None, s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None, is_causal: bool | None = None, cache: Any = None, **kwargs: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Computes one layer: query (batch, heads, len_q, head_dim) -> (batch, len_q, heads, head_dim_v).

    attention_mask: the result of `mask`, a tensor that is broadcast to (batch, heads, len_q, len_kv), or None, which is
    causal if the module says so. softcap, s_aux (sinks) and position_bias (added to the scores) as models pass them.
    Raises Unsupported for a paged cache.
    """
    if cache is not None:
        raise errors.Unsupported("a paged cache was given, and there is no paged kernel yet; use another cache")
    text = score = None
    params: dict[str, Any] = {}
    if softcap is not None:
        score = f"softcap({float(softcap)!r})"
    if isinstance(attention_mask, Rule):
        text, params = attention_mask.mask, dict(attention_mask.params)
    elif attention_mask is not None:
        text, added, params = attn_mask_rule(query, key, attention_mask[..., : key.shape[2]])
        score = added if score is None else score if added is None else f"{score} then {added}"
    elif query.shape[2] > 1 and (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        text = "k <= q - (len_kv - len_q)"
    if position_bias is not None:
        wide = position_bias[..., : key.shape[2]].expand(query.shape[0], query.shape[1], -1, -1)
        _, added, bias = attn_mask_rule(query, key, wide, "bias")
        params |= bias
        score = added if score is None else f"{score} then {added}"
    o = _attention(
        query, key, value, mask=text, score=score, params=params, scale=scaling,
        sinks=None if s_aux is None else s_aux.float(), layout="bhsd", dropout_p=dropout,
    )  # fmt: skip
    return o.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)

__all__ = ["NAME", "attention", "mask"]
