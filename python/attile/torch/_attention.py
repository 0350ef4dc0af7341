"""`attile.torch.attention`: the operator with the arguments that people write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .. import errors
from .._plan import dims_of
from .._problem import Sizes, quoted
from ._operator import attention as _operator
from ._operator import attention_lse as _operator_lse

_TYPES = {
    torch.bool: "bool",
    torch.int32: "int",
    torch.int64: "int",
    torch.float32: "float",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask: str | None = None, score: str | None = None,
    scale: float | None = None, params: Mapping[str, Any] | None = None, sinks: torch.Tensor | None = None,
    schedule: str | None = None, return_lse: bool = False, layout: str = "bshd", stream: int | None = None,
) -> Any:  # fmt: skip
    """attile.attention on PyTorch's tensors, by an operator: under torch.compile, torch.export, autocast and in CUDA graphs.

    Arguments and results are those of attile.attention. Runs on the current stream unless one is given; o lies as q does,
    with heads within rows or rows within heads. Workspace comes from PyTorch's allocator. Inputs that require a gradient
    are refused with NoBackward, but under torch.no_grad().
    """
    if stream is not None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=q.device)):
            return attention(
                q, k, v, mask=mask, score=score, scale=scale, params=params, sinks=sinks, schedule=schedule,
                return_lse=return_lse, layout=layout,
            )  # fmt: skip
    tensors, numbers, rule = rule_of(q, k, mask, score, params, sinks, layout)
    operator = _operator_lse if return_lse else _operator
    return operator(q, k, v, tensors, numbers, rule, scale, layout, schedule or "")


def rule_of(
    q: torch.Tensor, k: torch.Tensor, mask: str | None, score: str | None, params: Mapping[str, Any] | None,
    sinks: torch.Tensor | None, layout: str,
) -> tuple[list[torch.Tensor], list[float], str]:  # fmt: skip
    """What the operator calls tensors, numbers and rule."""
    parts, tensors, numbers = [], [], []
    if mask is not None:
        parts.append(f"mask={quoted(mask)}")
    if score is not None:
        parts.append(f"score={quoted(score)}")
    if params:
        _, head, row = dims_of(layout)
        if q.dim() != 4 or k.dim() != 4:
            raise errors.ShapeError(
                f"q and k have {q.dim()} and {k.dim()} dimensions, expected four in layout {layout}"
            )
        sizes = Sizes(q.shape[0], q.shape[head], k.shape[head], q.shape[row], k.shape[row])
        declared = []
        for key, value in params.items():
            name, colon, kind = key.partition(":")
            declared.append(f"{name.strip()}: {kind.strip() if colon else _declaration(name, value, sizes)}")
            if isinstance(value, torch.Tensor):
                tensors.append(value)
            else:
                numbers.append(float(value))
        parts.append(f"params='{', '.join(declared)}'")
    if sinks is not None:
        parts.append("sinks=1")
        tensors.append(sinks)
    return tensors, numbers, " ".join(parts)


def _declaration(name: str, value: Any, sizes: Sizes) -> str:
    if isinstance(value, torch.Tensor):
        if value.dtype not in _TYPES:
            raise errors.DtypeError(
                f"parameter {name} is {value.dtype}, expected one of {', '.join(map(str, _TYPES))}; convert it once"
            )
        return f"{_TYPES[value.dtype]}[{', '.join(dimension(size, sizes) for size in value.shape)}]"
    for kind, word in ((bool, "bool"), (int, "int"), (float, "float")):
        if isinstance(value, kind):
            return word
    raise errors.ParameterError(f"parameter {name} is a {type(value).__name__}, expected a bool, int, float or tensor")


def dimension(size: int, sizes: Sizes) -> str:
    """The name of the size that it equals, else the number."""
    for word, other in zip(("batch", "heads", "kv_heads", "len_q", "len_kv"), sizes):
        if size == other:
            return word
    return str(int(size))
