"""torch.nn.functional.scaled_dot_product_attention on Attile's kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .. import errors
from ._attention import attention

# Rows count from 0, positions of queries from len_kv - len_q.
_ROW = "q - (len_kv - len_q)"
_SHAPE = "batch, heads, len_q, len_kv"


def scaled_dot_product_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    *, generator: torch.Generator | None = None,
) -> torch.Tensor:  # fmt: skip
    """Like PyTorch's: query (..., heads, len_q, head_dim), key and value (..., kv_heads, len_kv, ...), result
    (..., heads, len_q, head_dim_v).

    attn_mask: broadcastable to (..., heads, len_q, len_kv), bool (true = is seen) or numbers that are added to the
    scores. is_causal aligns the first query with the first key. A query that sees no key gives 0.
    dropout_p: in [0, 1); like PyTorch's, it applies whether or not a model is in training. generator: source of the
    random numbers; None = PyTorch's own for the device. The dropped weights differ from those that PyTorch's kernels
    drop.
    """
    if is_causal and attn_mask is not None:
        raise errors.InvalidArgument("attn_mask and is_causal are both given, expected one of them")
    shape = query.shape
    if query.dim() != 4:
        query, key, value = (_four(name, one) for name, one in (("query", query), ("key", key), ("value", value)))
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise errors.ShapeError(
            f"query has {query.shape[1]} heads and key has {key.shape[1]}, expected as many; or say enable_gqa=True"
        )
    mask = score = None
    params: dict[str, torch.Tensor] = {}
    if is_causal:
        mask = "causal" if query.shape[2] == key.shape[2] else f"k <= {_ROW}"
    elif attn_mask is not None:
        if len(shape) != 4:
            attn_mask = attn_mask.expand(*shape[:-1], key.shape[2])
            attn_mask = attn_mask.reshape(query.shape[0], query.shape[1], *attn_mask.shape[-2:])
        mask, score, params = attn_mask_rule(query, key, attn_mask)
    o: torch.Tensor = attention(
        query, key, value, mask=mask, score=score, params=params, scale=scale, layout="bhsd", dropout_p=dropout_p,
        generator=generator,
    )  # fmt: skip
    return o if len(shape) == 4 else o.reshape(*shape[:-1], value.shape[-1])


def attn_mask_rule(
    query: torch.Tensor, key: torch.Tensor, attn_mask: torch.Tensor, name: str = "attn_mask"
) -> tuple[str | None, str | None, dict[str, torch.Tensor]]:
    """Returns (mask, score, params) for a tensor that is broadcast to (batch, heads, len_q, len_kv): bool (true = is
    seen) or numbers that are added to the scores."""
    try:
        given = attn_mask.expand(*query.shape[:3], key.shape[2])
    except RuntimeError:
        raise errors.ShapeError(
            f"{name} has shape {tuple(attn_mask.shape)}, expected one that is broadcast to "
            f"{(*query.shape[:3], key.shape[2])}"
        ) from None
    if given.dtype == torch.bool:
        return f"{name}[b, h, {_ROW}, k]", None, {f"{name}: bool[{_SHAPE}]": given}
    kinds = {torch.float32: "float", torch.float16: "fp16", torch.bfloat16: "bf16"}
    if given.dtype not in kinds:
        raise errors.DtypeError(f"{name} is {given.dtype}, expected bool, float32, float16 or bfloat16")
    return None, f"s + {name}[b, h, {_ROW}, k]", {f"{name}: {kinds[given.dtype]}[{_SHAPE}]": given}


def _four(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Reshapes to (batch, heads, length, dim); leading dimensions become the batch."""
    if tensor.dim() < 2:
        raise errors.ShapeError(f"{name} has shape {tuple(tensor.shape)}, expected at least two dimensions")
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    return tensor.reshape(-1, *tensor.shape[-3:])


class route_sdpa(TorchFunctionMode):
    """Within `with attile.torch.route_sdpa():`, calls of F.scaled_dot_product_attention in this thread are Attile's.

    A call that Attile refuses raises; with fallback=True PyTorch's own function computes it instead.
    """

    def __init__(self, fallback: bool = False) -> None:
        super().__init__()
        self._fallback = fallback

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not torch.nn.functional.scaled_dot_product_attention:
            return function(*args, **(kwargs or {}))
        try:
            return scaled_dot_product_attention(*args, **(kwargs or {}))
        except errors.Error:
            if not self._fallback:
                raise
            return function(*args, **(kwargs or {}))
