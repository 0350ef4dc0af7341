"""How K and V are stored if their type is not that of q: in 8 bits, with scales (docs/serving.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import errors
from ._check import check_device, check_strides
from ._library import STRIDES
from ._problem import DTYPES
from ._tensor import View

_EIGHT_BITS = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "int8"}
_TYPES = {**DTYPES, **_EIGHT_BITS}  # {type of K and V: its name in knobs}
_IN_BYTES = ("e4m3", "e5m2")  # types that may be stored as uint8

SCALES = ("k_scale", "v_scale")


class Stored(NamedTuple):
    """The arguments of a call for K and V in 8 bits."""

    dtype_kv: str | None = None  # their type if the tensors are of uint8
    k_scale: Any = None
    v_scale: Any = None


class Scales(NamedTuple):
    """The scales of a call, checked."""

    kind: str  # knob kv_scale
    strides: tuple[tuple[str, int], ...]  # members of attile.h's structs


def kv_type(name: str, one: View, dtype_kv: str | None) -> str:
    """The element type of K or V by its name in knobs."""
    if one.dtype == "uint8" and dtype_kv in _IN_BYTES:
        return str(dtype_kv)
    kind = _TYPES.get(one.dtype)
    if kind is None or dtype_kv not in (None, kind):
        raise errors.DtypeError(
            f"{name} is {one.dtype}{'' if dtype_kv is None else f' and dtype_kv is {dtype_kv}'}, expected one of "
            f"{', '.join(_TYPES)}, or uint8 with dtype_kv={' or '.join(_IN_BYTES)}"
        )
    return kind


def is_eight_bits(kind: str) -> bool:
    return kind in _EIGHT_BITS.values()


def scales_of(
    k_scale: View | None, v_scale: View | None, beside: View, blocks: int, kv_heads: int, rows: int
) -> Scales:
    """Checks the scales, float32, whose shape gives their kind: one number, (kv_heads,) or (blocks, kv_heads, rows)."""
    if k_scale is None and v_scale is None:
        return Scales("none", ())
    if k_scale is None or v_scale is None:
        one, other = SCALES if v_scale is None else reversed(SCALES)
        raise errors.InvalidArgument(f"{one} is given without {other}; expected both, or neither")
    shapes = {(): "tensor", (1,): "tensor", (kv_heads,): "head", (blocks, kv_heads, rows): "token"}
    kind = shapes.get(tuple(k_scale.shape))
    strides: list[tuple[str, int]] = []
    for name, seen in zip(SCALES, (k_scale, v_scale)):
        if seen.dtype != "float32":
            raise errors.DtypeError(f"{name} is {seen.dtype}, expected float32")
        check_device(name, seen, beside)
        if kind is None or shapes.get(tuple(seen.shape)) != kind:
            *_, last = shapes
            raise errors.ShapeError(
                f"{name} has shape {tuple(seen.shape)}, expected one number, one of each head, ({kv_heads},), or one of "
                f"each head and token, {last}, for k_scale and v_scale alike"
            )
        if kind == "head":
            check_strides(name, seen)
        if kind == "token":
            strides += [(f"{name}_{stride}", step) for stride, step in zip(STRIDES, seen.strides)]
    return Scales(str(kind), tuple(strides))
