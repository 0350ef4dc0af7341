"""Dropout in the operators' arguments: for a rule with dropout=1, the last of `numbers` is the probability, and the
last of `tensors` holds seed and offset, two int64 on the device of q.

The kernel reads seed and offset, so the host does not wait for them. They come from PyTorch's generator like any random
tensor, also under torch.compile and in a CUDA graph, whose replays draw new ones. The backward pass gets the same
tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import errors

_WORD = "dropout=1"


def drops(rule: str) -> bool:
    return rule.endswith(_WORD)


def with_dropout(
    p: float, generator: torch.Generator | None, q: torch.Tensor, tensors: list[torch.Tensor], numbers: list[float],
    rule: str,
) -> tuple[list[torch.Tensor], list[float], str]:  # fmt: skip
    """Adds dropout to tensors, numbers and rule unless p is 0. Raises InvalidArgument unless p is in [0, 1)."""
    if p == 0:
        return tensors, numbers, rule
    if not 0 < p < 1:
        raise errors.InvalidArgument(f"dropout_p is {p}, expected a probability of at least 0 and less than 1")
    state = torch.randint(-(2**63), 2**63 - 1, (2,), dtype=torch.int64, device=q.device, generator=generator)
    return [*tensors, state], [*numbers, float(p)], f"{rule} {_WORD}".lstrip()


def apart(
    rule: str, tensors: Sequence[torch.Tensor], numbers: Sequence[float]
) -> tuple[Sequence[torch.Tensor], Sequence[float], float, torch.Tensor | None]:
    """Splits the arguments into the tensors and numbers of mask and score, the probability, and seed and offset; the
    last two are 0 and None without dropout."""
    if not drops(rule):
        return tensors, numbers, 0.0, None
    if not tensors or not numbers:
        raise errors.ParameterError(
            f"the rule {rule} takes a probability and a tensor of seed and offset, found neither"
        )
    state = tensors[-1]
    if state.dtype != torch.int64 or state.shape != (2,) or not state.is_contiguous():
        raise errors.ParameterError(
            f"seed and offset are {tuple(state.shape)} of {state.dtype}, expected two int64 side by side"
        )
    return tensors[:-1], numbers[:-1], numbers[-1], state
