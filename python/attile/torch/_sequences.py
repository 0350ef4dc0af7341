"""The operators `torch.ops.attile.attention_sequences`, attention with sequences of different lengths, or with K and V
of 8 bits, and `attention_sequences_lse`, the variant that autograd records.

    attention_sequences(q, k, v, tensors, numbers, rule, scale, layout, schedule, lengths_kv, ..., dtype_kv, k_scale,
        v_scale, want_lse, check) -> (o, lse)
    attention_sequences_lse(q, k, v, tensors, numbers, rule, scale, layout, schedule, lengths_kv, cu_seqlens_q,
        cu_seqlens_kv, max_len_q, max_len_kv, check) -> (o, lse)

The arguments before lengths_kv are those of torch.ops.attile.attention. The members of attile.Sequences follow in their
order; dense tensors have none of them. lse has no elements if it is not wanted. check: wait and check the numbers in
the arrays before the launch. Only attention_sequences_lse, which has neither pages nor 8 bits, has autograd
(_backward.py), so the steps of a server, which are not recorded, do not pay for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import errors
from .._check import dims_of
from .._plan import ALIGNMENT
from .._problem import Sizes
from .._sequences import ARRAYS, Sequences
from .._stored import Stored
from ..session import at_fork_forget
from ._operator import (
    _ARGUMENTS,
    _TAGS,
    PLANS,
    Prepared,
    _library,
    _stream_of,
    out_strides,
    packed_strides,
    prepare,
    under_autocast,
    wants_gradients,
)

_ARRAYS = "".join(f", Tensor? {name}" for name in ARRAYS)
_library.define(
    f"attention_sequences({_ARGUMENTS.strip('()')}{_ARRAYS}, SymInt? max_len_q, SymInt? max_len_kv, str? dtype_kv, "
    "Tensor? k_scale, Tensor? v_scale, bool want_lse, bool check) -> (Tensor, Tensor)",
    tags=_TAGS,
)

# The members of attile.Sequences that do not concern pages.
OWN_ARRAYS, _MOST = ("lengths_kv", "cu_seqlens_q", "cu_seqlens_kv"), ("max_len_q", "max_len_kv")


def own_members(default: str = "") -> str:
    """The part of a schema for the members in OWN_ARRAYS and _MOST."""
    members = (*(f"Tensor? {name}" for name in OWN_ARRAYS), *(f"SymInt? {name}" for name in _MOST))
    return "".join(f", {member}{default}" for member in members)


_library.define(
    f"attention_sequences_lse({_ARGUMENTS.strip('()')}{own_members()}, bool check) -> (Tensor, Tensor)", tags=_TAGS
)

_prepared: dict[Any, Prepared] = {}
at_fork_forget(_prepared.clear)


def sizes_of(q: torch.Tensor, k: torch.Tensor, layout: str, sequences: Sequences | None) -> Sizes:
    """The sizes of a call, for the parameters of its mask and score. The call itself checks its arguments."""
    _, head, row = dims_of(layout)
    ragged = sequences is not None and sequences.cu_seqlens_q is not None
    dims = 3 if ragged else 4
    if q.dim() != dims or k.dim() not in (dims, 4):
        raise errors.ShapeError(
            f"q and k have {q.dim()} and {k.dim()} dimensions, expected "
            f"{'three, or four where k is in pages' if ragged else f'four in layout {layout}'}"
        )
    if sequences is None:
        return Sizes(q.shape[0], q.shape[head], k.shape[head], q.shape[row], k.shape[row])
    table, most_q, most_kv = sequences.page_table, sequences.max_len_q, sequences.max_len_kv
    lengths = sequences.cu_seqlens_q if ragged else sequences.lengths_kv
    batch = 0 if lengths is None else lengths.shape[0] - int(ragged)
    paged = table is not None or sequences.page_indptr is not None
    if most_kv is None:
        rows = k.shape[0] if k.dim() == 3 else k.shape[row]
        most_kv = rows * (1 if not paged else k.shape[0] if table is None else table.shape[1])
    return Sizes(
        batch,
        q.shape[1] if ragged else q.shape[head],
        k.shape[1] if k.dim() == 3 else k.shape[head],
        most_q if most_q is not None else q.shape[0] if ragged else q.shape[row],
        most_kv,
    )


def own_sequences(*rest: Any) -> Sequences:
    """Sequences from the members in OWN_ARRAYS and _MOST. PyTorch omits trailing ones with their default values."""
    return Sequences(**dict(zip((*OWN_ARRAYS, *_MOST), rest)))


def recorded(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[float],
    rule: str, scale: float | None, layout: str, schedule: str, *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """attention_sequences with gradients; always computes lse. Raises NoBackward for 8 bits and for pages."""
    sequences, _, _, check = _apart(*rest)
    if k.dtype.itemsize == 1:
        raise errors.NoBackward(
            "a gradient is asked for beside K and V of 8 bits, which are rounded to be stored; use K and V of 16 bits, or "
            "torch.no_grad()"
        )
    if sequences.page_table is not None or sequences.page_indptr is not None:
        raise errors.NoBackward(
            "a gradient is asked for of K and V in pages, which are for caches that serve; use packed tensors with "
            "cu_seqlens_kv, padded ones with lengths_kv, or torch.no_grad()"
        )
    own = (getattr(sequences, name) for name in (*OWN_ARRAYS, *_MOST))
    o, lse = attention_sequences_lse(q, k, v, tensors, numbers, rule, scale, layout, schedule, *own, check)
    return o, lse


def given_by(sequences: Sequences) -> Sequences | None:
    """Returns sequences, or None for dense tensors."""
    return None if all(one is None for one in sequences) else sequences


def key_of(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The properties of tensors, and the values, that must match for a prepared call to be reused."""
    return tuple(
        (one.shape, one.stride(), one.dtype, one.get_device()) if isinstance(one, torch.Tensor) else one
        for one in arguments
    )


def _apart(*rest: Any) -> tuple[Sequences, Stored, bool, bool]:
    """Converts the arguments after schedule to (sequences, stored, want_lse, check)."""
    *first, dtype_kv, k_scale, v_scale, want_lse, check = rest
    return Sequences(*first), Stored(dtype_kv, k_scale, v_scale), want_lse, check


def _run(q, k, v, tensors, *rest):  # type: ignore[no-untyped-def]
    if not wants_gradients(q, k, v, *tensors):
        return _forward(q, k, v, tensors, *rest)
    o, lse = recorded(q, k, v, tensors, *rest)
    *_, want_lse, _ = rest
    return o, lse if want_lse else lse.new_empty((0,))


def _run_lse(q, k, v, tensors, numbers, rule, scale, layout, schedule, *rest):  # type: ignore[no-untyped-def]
    return _forward(q, k, v, tensors, numbers, rule, scale, layout, schedule, *_as_of_all(*rest))


def _as_of_all(*rest: Any) -> tuple[Any, ...]:
    """Converts the arguments of attention_sequences_lse after schedule to those of attention_sequences."""
    *own, check = rest
    return *own_sequences(*own), *Stored(), True, check


def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[float],
    rule: str, scale: float | None, layout: str, schedule: str, *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    sequences, stored, want_lse, check = _apart(*rest)
    at_q, at_k, at_v, index = q.data_ptr(), k.data_ptr(), v.data_ptr(), q.get_device()
    key: Any = (
        *key_of((q, k, v, *tensors)), *key_of(rest), *numbers, rule, scale, layout, schedule, (at_q | at_k | at_v) & 15,
    )  # fmt: skip
    prepared = _prepared.get(key)
    if prepared is None:
        prepared = prepare(
            q, k, v, tensors, numbers, rule, scale, layout, schedule, want_lse, given_by(sequences), stored
        )  # fmt: skip
        if len(_prepared) >= PLANS:
            _prepared.clear()
        _prepared[key] = prepared
    plan, shape, strides, lse_shape, room, dropout = prepared
    o = q.new_empty_strided(shape, strides)
    lse = torch.empty(lse_shape if want_lse else (0,), dtype=torch.float32, device=q.device)
    workspace = 0
    if room:
        memory = torch.empty(room, dtype=torch.uint8, device=q.device)
        workspace = memory.data_ptr() + -memory.data_ptr() % ALIGNMENT
    arrays: dict[str, Any] = {**sequences._asdict(), **stored._asdict()}
    if dropout:
        *tensors, arrays["dropout_state"] = tensors
    plan.launch(
        at_q, at_k, at_v, o.data_ptr(), lse.data_ptr() if want_lse else 0, workspace,
        [one.data_ptr() for one in tensors] if tensors else (), 0 if index < 0 else _stream_of(index),
        [arrays[name].data_ptr() for name in plan.arrays], check,
    )  # fmt: skip
    return o, lse


def _fake(q, k, v, tensors, *rest):  # type: ignore[no-untyped-def]
    if wants_gradients(q, k, v, *tensors):
        raise errors.NoBackward(
            "a graph differentiates torch.ops.attile.attention_sequences_lse; call that, or attile.attention"
        )
    return _empty(q, k, v, tensors, *rest)


def _fake_lse(q, k, v, tensors, numbers, rule, scale, layout, schedule, *rest):  # type: ignore[no-untyped-def]
    return _empty(q, k, v, tensors, numbers, rule, scale, layout, schedule, *_as_of_all(*rest))


def _empty(q, k, v, tensors, numbers, rule, scale, layout, schedule, *rest):  # type: ignore[no-untyped-def]
    sequences, _, want_lse, _ = _apart(*rest)
    return empty_outputs(q, k, v, layout, sequences, want_lse)


def empty_outputs(q, k, v, layout, sequences, want_lse):  # type: ignore[no-untyped-def]
    """Empty (o, lse) of a call, with the shapes and strides that torch.compile needs."""
    sizes = sizes_of(q, k, layout, sequences)
    packed = sequences.cu_seqlens_q is not None
    shape, strides = (packed_strides if packed else out_strides)(q, v.shape[-1], layout)
    lse_shape = (sizes.heads, q.shape[0]) if packed else (q.shape[0], sizes.heads, sizes.len_q)
    return (
        torch.empty_strided(shape, strides, dtype=q.dtype, device=q.device),
        q.new_empty(lse_shape if want_lse else (0,), dtype=torch.float32),
    )


for _name, _real, _abstract in (
    ("attention_sequences", _run, _fake),
    ("attention_sequences_lse", _run_lse, _fake_lse),
):
    for _kind in ("cpu", "cuda"):
        _library.impl(_name, _real, _kind.upper())
        _operator = getattr(torch.ops.attile, _name).default
        _library.impl(_name, under_autocast(_operator, _kind), f"Autocast{_kind.upper()}")
    torch.library.register_fake(f"attile::{_name}", _abstract, lib=_library)
_library.impl("attention_sequences", torch.library.fallthrough_kernel, "Autograd")

attention_sequences = torch.ops.attile.attention_sequences.default
attention_sequences_lse = torch.ops.attile.attention_sequences_lse.default
