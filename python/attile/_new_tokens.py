"""`NewTokens`: K and V that a call of attention writes into the cache it attends to, with the rotation of Q and K
(docs/serving.md), and the checks of these arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from . import errors
from ._append import Asked, check_rope, rope_of
from ._check import check_device, check_shape, check_strides, dims_of
from ._library import STRIDES
from ._sequences import Inputs, Sequences, packed
from ._tensor import View


class NewTokens(NamedTuple):
    """K and V of the tokens that the queries belong to; the call writes them into the cache and attends to them.

    k: (batch, len_q, kv_heads, head_dim), v: the same with head_dim_v; packed if q is packed. They become the last
    keys that lengths_kv counts. rope, rope_dim, rope_base, rope_cos, rope_sin: the rotation of k and q, as in
    attile.append_kv.
    """

    k: Any
    v: Any
    rope: str | None = None
    rope_dim: int | None = None
    rope_base: float | None = None
    rope_cos: Any = None
    rope_sin: Any = None


TENSORS = {"k": "k_new", "v": "v_new", "rope_cos": "rope_cos", "rope_sin": "rope_sin"}  # {member: name in attile.h}


def tensors_of(new: NewTokens | None) -> dict[str, Any]:
    """Returns the tensors that are given, keyed by their names in attile.h."""
    if new is None:
        return {}
    return {name: one for member, name in TENSORS.items() if (one := getattr(new, member)) is not None}


def with_new(
    inputs: Inputs, new: NewTokens | None, layout: str, sequences: Sequences | None, see: Callable[[Any], View]
) -> Inputs:
    """Checks the new tokens and returns inputs with them. Raises the same exceptions as inputs_of."""
    if new is None:
        return inputs
    if sequences is None or sequences.lengths_kv is None:
        raise errors.InvalidArgument(
            "new is given without sequences that have lengths_kv, which say where new tokens go"
        )
    seen = {name: see(one) for name, one in tensors_of(new).items()}
    asked = Asked(new.rope, new.rope_dim, new.rope_base, None, layout)
    check_rope(seen, asked)
    q = inputs.q
    _, head, row = dims_of(layout)
    strides: list[tuple[str, int]] = []
    for name, cache in (("k_new", inputs.k), ("v_new", inputs.v)):
        if name not in seen:
            raise errors.InvalidArgument(f"new.{name[0]} is missing; k and v of new tokens belong together")
        one = packed(name, seen[name], layout) if inputs.packed else seen[name]
        if one.dtype != q.dtype:
            raise errors.DtypeError(f"{name} is {one.dtype} and q is {q.dtype}, expected one type; convert one of them")
        check_device(name, one, q)
        check_strides(name, one)
        check_shape(name, one, layout, q.shape[0], cache.shape[head], q.shape[row], cache.shape[3])
        strides += [(f"{name}_{stride}", one.strides[dim]) for stride, dim in zip(STRIDES, dims_of(layout))]
    rope, knobs = SimpleNamespace(), ""
    if new.rope is not None:
        knobs = f" {rope_of(rope, seen, q, asked)}"
    return inputs._replace(
        written=f"append=1{knobs}", arrays=(*inputs.arrays, *seen.items()),
        numbers=(*inputs.numbers, *strides, *vars(rope).items()),
    )  # fmt: skip
