"""`attile.torch.attention`: the operator with arguments for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .. import errors
from .._new_tokens import NewTokens
from .._problem import Sizes, quoted
from .._sequences import Sequences
from .._stored import Stored
from . import _backward  # noqa: F401  autograd of the operators
from ._dropout import with_dropout
from ._new_tokens import attention_append, members_of
from ._operator import attention as _operator
from ._operator import attention_lse as _operator_lse
from ._operator import wants_gradients
from ._sequences import attention_sequences, recorded, sizes_of

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
    sequences: Sequences | None = None, dtype_kv: str | None = None, k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None, new: NewTokens | None = None, check: bool = False, dropout_p: float = 0.0,
    generator: torch.Generator | None = None,
) -> Any:  # fmt: skip
    """attile.attention on PyTorch's tensors, as an operator: works under torch.compile, torch.export and autocast, and
    in CUDA graphs.

    Arguments and results are those of attile.attention. Runs on the current stream unless one is given; o has the order
    of q in memory, heads within rows or rows within heads. The workspace comes from PyTorch's allocator. Gradients flow
    to q, k, v, sinks and float tensors that the score reads. The backward pass raises NoBackward for a tensor that has
    no gradient because only the mask reads it; the call raises it if a gradient is wanted with pages, or with k and v
    of 8 bits. Rows of gradients that belong to no sequence are 0.

    dropout_p: each weight of the softmax is set to 0 with this probability, and the others are divided by 1 - dropout_p
    (docs/dropout.md). generator: source of the random numbers; None = PyTorch's own for the device of q. Raises
    Unsupported with new and with k and v of 8 bits.
    """
    if stream is not None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=q.device)):
            return attention(
                q, k, v, mask=mask, score=score, scale=scale, params=params, sinks=sinks, schedule=schedule,
                return_lse=return_lse, layout=layout, sequences=sequences, dtype_kv=dtype_kv, k_scale=k_scale,
                v_scale=v_scale, new=new, check=check, dropout_p=dropout_p, generator=generator,
            )  # fmt: skip
    sizes = sizes_of(q, k, layout, sequences) if params else None
    tensors, numbers, rule = rule_of(mask, score, params, sinks, sizes)
    stored = Stored(dtype_kv, k_scale, v_scale)
    eight_bits = k.dtype.itemsize == 1 or any(one is not None for one in stored)
    if dropout_p and (new is not None or eight_bits):
        raise errors.Unsupported(
            f"dropout_p is {dropout_p}, and kernels that append tokens or read K and V of 8 bits drop no weights; call it "
            "with 0"
        )
    tensors, numbers, rule = with_dropout(dropout_p, generator, q, tensors, numbers, rule)
    arguments = (q, k, v, tensors, numbers, rule, scale, layout, schedule or "")
    if new is not None:
        if any(one is not None for one in stored):
            raise errors.Unsupported("new is given with a cache of 8 bits; call attile.append_kv before")
        o, lse = attention_append(*arguments, *(sequences or Sequences()), *members_of(new), return_lse, check)
        return (o, lse) if return_lse else o
    wanted = wants_gradients(q, k, v, *tensors)
    if sequences is not None or eight_bits:
        run = recorded if wanted else attention_sequences
        o, lse = run(*arguments, *(sequences or Sequences()), *stored, return_lse, check)
        return (o, lse) if return_lse else o
    if return_lse:
        return _operator_lse(*arguments)
    if wanted:
        return _operator_lse(*arguments)[0]
    return _operator(*arguments)


def rule_of(
    mask: str | None,
    score: str | None,
    params: Mapping[str, Any] | None,
    sinks: torch.Tensor | None,
    sizes: Sizes | None,
) -> tuple[list[torch.Tensor], list[float], str]:
    """Returns the operator's arguments tensors, numbers and rule. sizes: of the call, needed if there are params."""
    parts, tensors, numbers = [], [], []
    if mask is not None:
        parts.append(f"mask={quoted(mask)}")
    if score is not None:
        parts.append(f"score={quoted(score)}")
    if params:
        assert sizes is not None
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
    """Returns the name of the first member of sizes that equals size, else the number."""
    for word, other in zip(("batch", "heads", "kv_heads", "len_q", "len_kv"), sizes):
        if size == other:
            return word
    return str(int(size))
