"""Checks an append to a cache and builds its problem and the arguments of its launch. `append.py` and
`torch/_append.py` call it on their tensors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from ctypes import byref
from typing import Any, NamedTuple

from . import errors
from ._check import check_device, check_heads, check_shape, check_strides, dims_of
from ._library import APPEND_KV, STRIDES, AppendArgs, library
from ._problem import knob_of_dtype, layout_text, stored_text
from ._sequences import (
    Arrays,
    Sequences,
    check_page_size,
    knobs_of_layout,
    longest_kv,
    longest_q,
    of_append,
    packed,
    table_stride,
)
from ._stored import is_eight_bits, kv_type, scales_of
from ._tensor import View
from .session import Session, session_for

ROPES = ("interleaved", "halves")


class Asked(NamedTuple):
    """The arguments of an append other than its tensors."""

    rope: str | None
    rope_dim: int | None
    rope_base: float | None
    dtype_kv: str | None
    layout: str


class Append:
    """One launch of one kernel on tensors of fixed sizes and strides; every launch passes the addresses."""

    def __init__(self, session: Session, handle: int, args: AppendArgs) -> None:
        self.session, self.handle, self.args = session, handle, args

    def launch(self, addresses: Mapping[str, int], stream: int) -> None:
        """Launches the kernel. addresses: {member of att_append_args: address}, for every tensor that is given."""
        args = AppendArgs.from_buffer_copy(self.args)
        for name, address in addresses.items():
            setattr(args, name, address)
        self.session.check(library.att_launch(self.handle, byref(args), stream))


def prepare(
    tensors: Mapping[str, View], sequences: Sequences | None, see: Callable[[Any], View], asked: Asked
) -> Append:
    """Checks a call and finds its kernel. tensors: k, v, k_cache, v_cache, and any of q, q_out, slots, positions,
    rope_cos, rope_sin, k_scale and v_scale. Raises exceptions of attile.errors."""
    k, v = tensors["k"], tensors["v"]
    _, head, row = dims_of(asked.layout)
    arrays = None if sequences is None else of_append(sequences, k, see)
    _check_which(tensors, sequences, asked)
    new = {name: tensors[name] for name in ("q", "q_out", "k", "v") if name in tensors}
    for name, one in new.items():
        if one.dtype != k.dtype:
            raise errors.DtypeError(f"{name} is {one.dtype} and k is {k.dtype}, expected one type; convert one of them")
        check_device(name, one, k)
        check_strides(name, one)
    flat = (arrays is not None and arrays.ragged) or ("slots" in tensors and len(k.shape) == 3)
    blocks = {
        name: packed(name, one, asked.layout) if flat else _four(name, one, asked.layout) for name, one in new.items()
    }
    batch, len_q, kv_heads = blocks["k"].shape[0], blocks["k"].shape[row], blocks["k"].shape[head]
    if arrays is not None and not arrays.ragged and batch != arrays.batch:
        raise errors.ShapeError(f"k has {batch} sequences, and lengths_kv has {arrays.batch}")
    check_shape("v", blocks["v"], asked.layout, batch, kv_heads, len_q, v.shape[-1])
    heads = blocks["q"].shape[head] if "q" in blocks else kv_heads
    check_heads(heads, kv_heads)
    for name in ("q", "q_out"):
        if name in blocks:
            check_shape(name, blocks[name], asked.layout, batch, heads, len_q, k.shape[-1])

    args = AppendArgs(size=ctypes.sizeof(AppendArgs), family=APPEND_KV, heads=heads, kv_heads=kv_heads)
    caches = {name: _four(name, tensors[name], asked.layout) for name in ("k_cache", "v_cache")}
    _set_sizes(args, arrays, sequences, caches["k_cache"], batch, len_q, row, "slots" in tensors)
    _check_caches(caches, k, v, args, arrays, asked, "slots" in tensors)
    for name, one in {**blocks, **caches}.items():
        for stride, dim in zip(STRIDES, dims_of(asked.layout)):
            setattr(args, f"{name}_{stride}", one.strides[dim])
    if "slots" in tensors:
        _check_list("slots", tensors["slots"], "int64", batch * len_q, k)
    if "positions" in tensors:
        _check_list("positions", tensors["positions"], "int32", batch * len_q, k)
    rope = rope_of(args, tensors, k, asked)
    k_cache = caches["k_cache"]
    kind = kv_type("k_cache", k_cache, asked.dtype_kv)
    scales = scales_of(
        tensors.get("k_scale"), tensors.get("v_scale"), k_cache, k_cache.shape[0], kv_heads, k_cache.shape[row]
    )
    for name, step in scales.strides:
        setattr(args, name, step)
    page_size = k_cache.shape[row] if arrays is None or arrays.paged else 0
    said = (
        f"slots=1 {layout_text('dense', page_size, 'table')}" if "slots" in tensors
        else "layout=dense" if arrays is None else knobs_of_layout(arrays, page_size)
    )  # fmt: skip
    problem = (
        f"family=append_kv dtype={knob_of_dtype(k.dtype, 'k')} {stored_text(kind, scales.kind)} "
        f"head_dim={k.shape[-1]} head_dim_v={v.shape[-1]} {said} {rope}"
    )
    session = session_for(k.device, k.ordinal)
    return Append(session, session.find(problem), args)


def _check_which(tensors: Mapping[str, View], sequences: Sequences | None, asked: Asked) -> None:
    """Checks that tensors that belong together are given together."""
    if "slots" in tensors and sequences is not None:
        raise errors.InvalidArgument("sequences and slots are both given; slots alone say where tokens go")
    check_rope(tensors, asked)
    if asked.rope is not None and ("slots" in tensors) != ("positions" in tensors):
        raise errors.InvalidArgument(
            "with slots and rope the position of each token is to be given, (tokens,) of int32" if "slots" in tensors
            else "positions are given without slots; the lengths of sequences say positions"
        )  # fmt: skip


def check_rope(tensors: Mapping[str, View], asked: Asked) -> None:
    """Checks that the rotation is specified completely and only once."""
    if asked.rope is not None and asked.rope not in ROPES:
        raise errors.InvalidArgument(f"rope is {asked.rope!r}, expected one of {', '.join(ROPES)}, or None")
    for name in ("q", "rope_cos", "rope_sin", "positions"):
        if name in tensors and asked.rope is None:
            raise errors.InvalidArgument(
                f"{name} is given without rope, and nothing is rotated; say rope=, or leave it out"
            )
    for one, other in (("rope_cos", "rope_sin"), ("rope_sin", "rope_cos")):
        if one in tensors and other not in tensors:
            raise errors.InvalidArgument(f"{one} is given without {other}; expected both, or neither")
    if "rope_cos" in tensors and asked.rope_base is not None:
        raise errors.InvalidArgument("rope_base and rope_cos are both given, expected one of them")


def _four(name: str, one: View, layout: str) -> View:
    if len(one.shape) != 4:
        raise errors.ShapeError(f"{name} has shape {tuple(one.shape)}, expected four dimensions in layout {layout}")
    return one


def _set_sizes(
    args: AppendArgs, arrays: Arrays | None, sequences: Sequences | None, k_cache: View, batch: int, len_q: int,
    row: int, slots: bool,
) -> None:  # fmt: skip
    blocks, rows = k_cache.shape[0], k_cache.shape[row]
    if arrays is not None and sequences is not None:
        args.batch, args.len_q = arrays.batch, longest_q(sequences, arrays, len_q)
        room = arrays._replace(ragged=False)  # a cache is never packed
        args.len_kv = longest_kv(sequences, room, rows, blocks)
        if arrays.ragged:
            args.total_q = len_q
        for name, number in table_stride(arrays):
            setattr(args, name, number)
    else:
        args.batch, args.len_q, args.len_kv = batch, len_q, 0 if slots else rows
    if slots or (arrays is not None and arrays.paged):
        args.pages = blocks
        check_page_size("k_cache", rows)


def _check_caches(
    caches: Mapping[str, View], k: View, v: View, args: AppendArgs, arrays: Arrays | None, asked: Asked, slots: bool
) -> None:
    k_cache = caches["k_cache"]
    _, _, row = dims_of(asked.layout)
    blocks = k_cache.shape[0] if slots or (arrays is not None and arrays.paged) else args.batch
    kind = kv_type("k_cache", k_cache, asked.dtype_kv)
    for (name, one), width in zip(caches.items(), (k.shape[-1], v.shape[-1])):
        if one.dtype != k_cache.dtype:
            raise errors.DtypeError(f"{name} is {one.dtype} and k_cache is {k_cache.dtype}, expected one type")
        check_device(name, one, k)
        check_strides(name, one)
        check_shape(name, one, asked.layout, blocks, args.kv_heads, k_cache.shape[row], width)
    if not is_eight_bits(kind) and k_cache.dtype != k.dtype:
        raise errors.DtypeError(f"k_cache is {k_cache.dtype} and k is {k.dtype}, expected the same or 8 bits")


def _check_list(name: str, one: View, dtype: str, count: int, beside: View) -> None:
    """Checks that an array holds one number for each new token, without gaps."""
    if one.dtype != dtype:
        raise errors.DtypeError(f"{name} is {one.dtype}, expected {dtype}; convert it once")
    check_device(name, one, beside)
    step = 1
    for size, stride in zip(reversed(one.shape), reversed(one.strides)):
        if size > 1 and stride != step:
            raise errors.LayoutError(f"{name} has strides {one.strides}, expected a contiguous array; copy it")
        step *= size
    if step != count:
        raise errors.ShapeError(
            f"{name} has shape {tuple(one.shape)}, expected {count} numbers, one for each new token"
        )


def rope_of(args: Any, tensors: Mapping[str, View], k: View, asked: Asked) -> str:
    """Returns the knobs of the rotation and sets its members in args."""
    if asked.rope is None:
        return "rope=none"
    knobs, rope_dim = f"rope={asked.rope}", asked.rope_dim or k.shape[-1]
    if rope_dim % 2 or not 2 <= rope_dim <= k.shape[-1]:
        raise errors.ShapeError(
            f"rope_dim is {rope_dim}, expected an even number up to the head dimension, {k.shape[-1]}"
        )
    if rope_dim != k.shape[-1]:
        knobs += f" rope_dim={rope_dim}"
    if "rope_cos" not in tensors:
        args.rope_base = asked.rope_base or 0
        return knobs
    rows = tensors["rope_cos"].shape[0] if tensors["rope_cos"].shape else 0
    for name in ("rope_cos", "rope_sin"):
        one = tensors[name]
        if one.dtype != "float32":
            raise errors.DtypeError(f"{name} is {one.dtype}, expected float32; convert it once")
        check_device(name, one, k)
        if tuple(one.shape) != (rows, rope_dim // 2):
            raise errors.ShapeError(f"{name} has shape {tuple(one.shape)}, expected (positions, {rope_dim // 2})")
        check_strides(name, one)
        if rows > 1 and one.strides[0] != tensors["rope_cos"].strides[0]:
            raise errors.LayoutError("rope_sin: rows lie apart otherwise than those of rope_cos; copy one of them")
    args.rope_rows = rows
    args.rope_row_stride = tensors["rope_cos"].strides[0] if rows > 1 else 0
    return f"{knobs} rope_from=tables"
