"""FlexAttention's call. Its functions are traced to expressions, not compiled together with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._compile import _disable_dynamo

from .. import errors
from .._problem import Sizes
from ._attention import attention
from ._trace import Rule, trace


def flex_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: Callable[..., Any] | None = None,
    block_mask: Any = None, scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
    kernel_options: Any = None, *, return_aux: Any = None, mask_mod: Callable[..., Any] | None = None,
    rule: Rule | None = None, schedule: str | None = None,
) -> Any:  # fmt: skip
    """torch.nn.attention.flex_attention.flex_attention on Attile's kernels.

    query: (batch, heads, len_q, head_dim); key, value: (batch, kv_heads, len_kv, ...), kv_heads = heads unless
    enable_gqa. score_mod(score, b, h, q_idx, kv_idx) and mask_mod(b, h, q_idx, kv_idx) are called on symbolic values in
    every call; to do that only once, pass the result of `trace_rule` as `rule`. block_mask: only its mask_mod is used,
    not its blocks. Tensors that the functions index become parameters, without a copy; of int64 only the lower 32 bits
    are read. kernel_options is ignored. Returns o, with return_lse (o, lse), with return_aux (o, AuxOutput).
    Raises TraceError for operations that expressions cannot express, with their name and line.
    """
    if query.dim() != 4 or key.dim() != 4:
        raise errors.ShapeError(f"query and key have {query.dim()} and {key.dim()} dimensions, expected four")
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise errors.ShapeError(
            f"query has {query.shape[1]} heads and key has {key.shape[1]}, expected as many; or say enable_gqa=True"
        )
    if return_aux is not None and getattr(return_aux, "max_scores", False):
        raise errors.Unsupported("return_aux asks for max_scores, which no kernel gives; ask for lse alone")
    if rule is None:
        tracer = _trace_between_graphs if torch.compiler.is_compiling() else trace_rule
        rule = tracer(query, key, score_mod, block_mask, mask_mod)
    else:
        rule.check(_sizes(query, key))
    wants_lse = return_lse or bool(return_aux is not None and return_aux.lse)
    found = attention(
        query, key, value, mask=rule.mask, score=rule.score, params=rule.params, scale=scale, schedule=schedule,
        return_lse=wants_lse, layout="bhsd",
    )  # fmt: skip
    if return_aux is None:
        return found
    from torch.nn.attention.flex_attention import AuxOutput

    return (found[0], AuxOutput(lse=found[1])) if wants_lse else (found, AuxOutput())


def trace_rule(
    query: torch.Tensor, key: torch.Tensor, score_mod: Callable[..., Any] | None = None, block_mask: Any = None,
    mask_mod: Callable[..., Any] | None = None,
) -> Rule:  # fmt: skip
    """Returns the Rule that flex_attention derives from the functions, for callers that call often with the same
    functions and captured tensors. Only the shapes of query and key are used. The rule is valid for other lengths, too,
    as long as the tensors that the functions index fit them."""
    if mask_mod is None and block_mask is not None:
        mask_mod = block_mask.mask_mod
        lengths = getattr(block_mask, "seq_lengths", None)
        if lengths and tuple(lengths) != (query.shape[2], key.shape[2]):
            raise errors.ShapeError(
                f"block_mask was made for lengths {tuple(lengths)}, found {(query.shape[2], key.shape[2])}"
            )
    return trace(_sizes(query, key), mask_mod, score_mod)


# Two tracers cannot trace one function at the same time, so PyTorch's compiler leaves this one to Python, between two
# graphs. Same as torch.compiler.disable, which would import the whole compiler here and take seconds.
_trace_between_graphs: Callable[..., Rule] = _disable_dynamo(trace_rule)


def _sizes(query: torch.Tensor, key: torch.Tensor) -> Sizes:
    return Sizes(query.shape[0], query.shape[1], key.shape[1], query.shape[2], key.shape[2])
