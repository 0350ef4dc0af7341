"""The operator `torch.ops.attile.attention_sequences`: attention with sequences that have lengths of their own, or with K
and V of 8 bits.

    attention_sequences(q, k, v, tensors, numbers, rule, scale, layout, schedule, lengths_kv, ..., dtype_kv, k_scale,
        v_scale, want_lse, check) -> (o, lse)

What comes before lengths_kv is as for torch.ops.attile.attention; the members of attile.Sequences follow in their order,
none of them for dense tensors. lse has no elements where it is not wanted. check: wait, and check the numbers in the arrays
before the launch. Gradients are refused: the backward pass has dense layouts of 16 and 32 bits alone.
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

_prepared: dict[Any, Prepared] = {}
at_fork_forget(_prepared.clear)


def sizes_of(q: torch.Tensor, k: torch.Tensor, layout: str, sequences: Sequences | None) -> Sizes:
    """Of a call, for the parameters of its mask and score. The call itself checks what is wrong with it."""
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


def _refuse_gradients(*tensors: torch.Tensor) -> None:
    if wants_gradients(*tensors):
        raise errors.NoBackward(
            "a gradient is asked for of sequences with lengths of their own, or beside K and V of 8 bits, and the backward "
            "pass has neither; use one sequence with mask='document(doc)', K and V of 16 bits, or torch.no_grad()"
        )


def _apart(*rest: Any) -> tuple[Sequences, Stored, bool, bool]:
    """(sequences, stored, want_lse, check) of the arguments behind schedule."""
    *first, dtype_kv, k_scale, v_scale, want_lse, check = rest
    return Sequences(*first), Stored(dtype_kv, k_scale, v_scale), want_lse, check


def _run(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[float],
    rule: str, scale: float | None, layout: str, schedule: str, *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    _refuse_gradients(q, k, v, *tensors)
    sequences, stored, want_lse, check = _apart(*rest)
    at_q, at_k, at_v, index = q.data_ptr(), k.data_ptr(), v.data_ptr(), q.get_device()
    key: Any = (
        *((one.shape, one.stride(), one.dtype, one.get_device()) for one in (q, k, v, *tensors)),
        *((one.shape, one.stride(), one.dtype, one.get_device()) if isinstance(one, torch.Tensor) else one for one in rest),
        *numbers, rule, scale, layout, schedule, (at_q | at_k | at_v) & 15,
    )  # fmt: skip
    prepared = _prepared.get(key)
    if prepared is None:
        said = None if all(one is None for one in sequences) else sequences
        prepared = prepare(q, k, v, tensors, numbers, rule, scale, layout, schedule, want_lse, said, stored)
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
    arrays = {**sequences._asdict(), **stored._asdict()}
    plan.launch(
        at_q, at_k, at_v, o.data_ptr(), lse.data_ptr() if want_lse else 0, workspace,
        [one.data_ptr() for one in tensors] if tensors else (), 0 if index < 0 else _stream_of(index),
        [arrays[name].data_ptr() for name in plan.arrays], check,
    )  # fmt: skip
    return o, lse


def _fake(q, k, v, tensors, numbers, rule, scale, layout, schedule, *rest):  # type: ignore[no-untyped-def]
    _refuse_gradients(q, k, v, *tensors)
    sequences, _, want_lse, _ = _apart(*rest)
    sizes = sizes_of(q, k, layout, sequences)
    packed = sequences.cu_seqlens_q is not None
    shape, strides = (packed_strides if packed else out_strides)(q, v.shape[-1], layout)
    lse_shape = (sizes.heads, q.shape[0]) if packed else (q.shape[0], sizes.heads, sizes.len_q)
    return (
        torch.empty_strided(shape, strides, dtype=q.dtype, device=q.device),
        q.new_empty(lse_shape if want_lse else (0,), dtype=torch.float32),
    )


for _key in ("CPU", "CUDA"):
    _library.impl("attention_sequences", _run, _key)
_library.impl("attention_sequences", torch.library.fallthrough_kernel, "Autograd")
torch.library.register_fake("attile::attention_sequences", _fake, lib=_library)

attention_sequences = torch.ops.attile.attention_sequences.default
for _kind in ("cpu", "cuda"):
    _library.impl("attention_sequences", under_autocast(attention_sequences, _kind), f"Autocast{_kind.upper()}")
