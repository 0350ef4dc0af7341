"""The operator `torch.ops.attile.attention_append`: attention that writes new tokens into k and v, its cache.

    attention_append(q, k, v, tensors, numbers, rule, scale, layout, schedule, lengths_kv, ..., k_new, v_new, rope_cos,
        rope_sin, rope, rope_dim, rope_base, want_lse, check) -> (o, lse)

The arguments before k_new are those of torch.ops.attile.attention_sequences without 8 bits; lse and check are as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import errors
from .._new_tokens import NewTokens, tensors_of
from .._plan import ALIGNMENT
from .._sequences import Sequences
from ..session import at_fork_forget
from ._operator import _ARGUMENTS, _TAGS, PLANS, Prepared, _library, _stream_of, prepare, wants_gradients
from ._sequences import _ARRAYS, empty_outputs, key_of

_WRITTEN = _ARGUMENTS.strip("()").replace("Tensor k", "Tensor(a!) k").replace("Tensor v", "Tensor(b!) v")
_library.define(
    f"attention_append({_WRITTEN}{_ARRAYS}, SymInt? max_len_q, SymInt? max_len_kv, Tensor k_new, Tensor v_new, "
    "Tensor? rope_cos, Tensor? rope_sin, str? rope, int? rope_dim, float? rope_base, bool want_lse, bool check) "
    "-> (Tensor, Tensor)",
    tags=_TAGS,
)

_prepared: dict[Any, Prepared] = {}
at_fork_forget(_prepared.clear)


def members_of(new: NewTokens) -> tuple[Any, ...]:
    """The operator's arguments after the sequences."""
    return new.k, new.v, new.rope_cos, new.rope_sin, new.rope, new.rope_dim, new.rope_base


def _apart(*rest: Any) -> tuple[Sequences, NewTokens, bool, bool]:
    """Converts the arguments after schedule to (sequences, new, want_lse, check)."""
    *first, k_new, v_new, rope_cos, rope_sin, rope, rope_dim, rope_base, want_lse, check = rest
    return Sequences(*first), NewTokens(k_new, v_new, rope, rope_dim, rope_base, rope_cos, rope_sin), want_lse, check


def _run(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[float],
    rule: str, scale: float | None, layout: str, schedule: str, *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    sequences, new, want_lse, check = _apart(*rest)
    if wants_gradients(q, k, v, new.k, new.v, *tensors):
        raise errors.NoBackward(
            "a gradient is asked for of attention that writes new tokens into a cache; use torch.no_grad()"
        )
    at_q, at_k, at_v, index = q.data_ptr(), k.data_ptr(), v.data_ptr(), q.get_device()
    key: Any = (
        *key_of((q, k, v, *tensors)), *key_of(rest), *numbers, rule, scale, layout, schedule, (at_q | at_k | at_v) & 15,
    )  # fmt: skip
    prepared = _prepared.get(key)
    if prepared is None:
        prepared = prepare(
            q, k, v, tensors, numbers, rule, scale, layout, schedule, want_lse, sequences, None, new
        )  # fmt: skip
        if len(_prepared) >= PLANS:
            _prepared.clear()
        _prepared[key] = prepared
    plan, shape, strides, lse_shape, room, _ = prepared
    o = q.new_empty_strided(shape, strides)
    lse = torch.empty(lse_shape if want_lse else (0,), dtype=torch.float32, device=q.device)
    workspace = 0
    if room:
        memory = torch.empty(room, dtype=torch.uint8, device=q.device)
        workspace = memory.data_ptr() + -memory.data_ptr() % ALIGNMENT
    arrays = {**sequences._asdict(), **tensors_of(new)}
    plan.launch(
        at_q, at_k, at_v, o.data_ptr(), lse.data_ptr() if want_lse else 0, workspace,
        [one.data_ptr() for one in tensors] if tensors else (), 0 if index < 0 else _stream_of(index),
        [arrays[name].data_ptr() for name in plan.arrays], check,
    )  # fmt: skip
    return o, lse


def _fake(q, k, v, tensors, numbers, rule, scale, layout, schedule, *rest):  # type: ignore[no-untyped-def]
    sequences, _, want_lse, _ = _apart(*rest)
    return empty_outputs(q, k, v, layout, sequences, want_lse)


for _key in ("CPU", "CUDA"):
    _library.impl("attention_append", _run, _key)
_library.impl("attention_append", torch.library.fallthrough_kernel, "Autograd")
torch.library.register_fake("attile::attention_append", _fake, lib=_library)

attention_append = torch.ops.attile.attention_append.default
