"""A launch, checked once and repeated often: sizes and strides become a template of arguments, into which a launch puts
addresses. A plan may be used from several threads, since every launch fills a copy of its own.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from typing import Any

from . import errors
from ._library import ATTENTION_FORWARD, PARAM_TYPES, REPEAT, SCALE_ZERO, STRIDES, Args, Param, library
from ._problem import Form, Parameter, Sizes
from ._tensor import View
from .session import Session

# Where (batch, head, row) stand among the dimensions of q, k, v and o.
LAYOUTS = {"bshd": (0, 2, 1), "bhsd": (0, 1, 2)}
ALIGNMENT = 256  # of a workspace, in bytes


def dims_of(layout: str) -> tuple[int, int, int]:
    """Raises LayoutError for a word that is no layout."""
    if layout not in LAYOUTS:
        raise errors.LayoutError(f"layout is {layout!r}, expected one of {', '.join(LAYOUTS)}")
    return LAYOUTS[layout]


def check_inputs(q: View, k: View, v: View, layout: str) -> Sizes:
    """Do they fit each other? Types, devices, dimensions, sizes, strides. Returns the sizes of the launch."""
    batch, head, row = dims_of(layout)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dtype != q.dtype:
            raise errors.DtypeError(
                f"{name} is {tensor.dtype} and q is {q.dtype}, expected one type; convert one of them"
            )
        check_device(name, tensor, q)
        if len(tensor.shape) != 4:
            raise errors.ShapeError(f"{name} has shape {tensor.shape}, expected four dimensions in layout {layout}")
        check_strides(name, tensor)
    sizes = Sizes(q.shape[batch], q.shape[head], k.shape[head], q.shape[row], k.shape[row])
    _check_shape("k", k, layout, sizes.batch, sizes.kv_heads, sizes.len_kv, q.shape[3])
    _check_shape("v", v, layout, sizes.batch, sizes.kv_heads, sizes.len_kv, v.shape[3])
    if sizes.kv_heads == 0 or sizes.heads % sizes.kv_heads:
        raise errors.ShapeError(
            f"q has {sizes.heads} heads and k has {sizes.kv_heads}, expected a number that divides it"
        )
    return sizes


def check_device(name: str, tensor: View, q: View) -> None:
    if (tensor.device, tensor.ordinal) != (q.device, q.ordinal):
        raise errors.DeviceError(
            f"{name} is on {tensor.device}:{tensor.ordinal} and q on {q.device}:{q.ordinal}, expected one device"
        )


def check_strides(name: str, tensor: View) -> None:
    if 0 in tensor.shape:
        return  # NumPy gives what is empty any strides
    if tensor.shape[-1] > 1 and tensor.strides[-1] != 1:
        raise errors.LayoutError(
            f"{name}: the last dimension has stride {tensor.strides[-1]}, expected 1; call .contiguous() on it"
        )
    if min(tensor.strides) < 0:
        raise errors.LayoutError(f"{name}: strides {tensor.strides} go backwards, expected none below 0; copy it")


def _check_shape(name: str, tensor: View, layout: str, *expected: int) -> None:
    shape = shape_of(layout, *expected)
    if tuple(tensor.shape) != shape:
        raise errors.ShapeError(
            f"{name} has shape {tuple(tensor.shape)}, expected {shape} beside the others ({layout})"
        )


def shape_of(layout: str, batch: int, heads: int, length: int, width: int) -> tuple[int, int, int, int]:
    """(batch, heads, length, width) in the order of a layout."""
    return (batch, length, heads, width) if dims_of(layout)[1] == 2 else (batch, heads, length, width)


def check_outputs(o: View, lse: View | None, q: View, sizes: Sizes, form: Form, layout: str) -> None:
    for name, tensor, dtype in (("out", o, form.dtype_out), ("lse", lse, "float32")):
        if tensor is None:
            continue
        if tensor.dtype != dtype:
            raise errors.DtypeError(f"{name} is {tensor.dtype}, expected {dtype}")
        check_device(name, tensor, q)
        check_strides(name, tensor)
    _check_shape("out", o, layout, sizes.batch, sizes.heads, sizes.len_q, form.head_dim_v)
    if lse and tuple(lse.shape) != (sizes.batch, sizes.heads, sizes.len_q):
        raise errors.ShapeError(f"lse has shape {lse.shape}, expected {(sizes.batch, sizes.heads, sizes.len_q)}")


def check_form(q: View, v: View, form: Form) -> None:
    """Are the inputs those of the kernel's problem?"""
    if q.dtype != form.dtype:
        raise errors.DtypeError(f"q is {q.dtype}, and the kernel is compiled for {form.dtype}")
    if (q.shape[3], v.shape[3]) != (form.head_dim, form.head_dim_v):
        raise errors.ShapeError(
            f"q and v have head dimensions {q.shape[3]} and {v.shape[3]}, and the kernel is compiled for "
            f"{form.head_dim} and {form.head_dim_v}"
        )


def alignment_of(addresses: int, itemsize: int, strides: Iterable[int]) -> int:
    """The bytes, at most 16, that all addresses (or-ed together) and strides (in elements) are multiples of."""
    for stride in strides:
        addresses |= stride * itemsize
    low = addresses & 15
    return low & -low if low else 16


def _params_of(parameters: Sequence[Parameter], views: Sequence[View | None], q: View) -> ctypes.Array[Param]:
    array = (Param * len(parameters))()
    for param, one, seen in zip(array, parameters, views):
        param.name = one.name.encode()
        if seen is None:
            word = one.declared if one.declared in ("bool", "int") else "float"
            param.type = PARAM_TYPES[{"int": "int32", "float": "float32"}.get(word, word)]
            param.number = one.value
            continue
        check_device(f"parameter {one.name}", seen, q)
        if len(seen.shape) > 4:
            raise errors.ShapeError(f"parameter {one.name} has shape {seen.shape}, expected at most four dimensions")
        wide = 2 if seen.dtype == "int64" else 1  # its lower half, in place
        param.type = PARAM_TYPES["int32" if wide == 2 else seen.dtype]
        for i, (size, stride) in enumerate(zip(seen.shape, seen.strides)):
            param.size[i], param.stride[i] = size, wide * stride
        if seen.shape and not any(seen.strides):
            param.stride[0] = REPEAT
    return array


class Plan:
    """One launch of one kernel on tensors of these sizes and strides.

    q, k, v, o, lse and views say how the tensors lie; where, each launch says anew.
    """

    __slots__ = (
        "_check",
        "_count",
        "_params",
        "_template",
        "extra",
        "handle",
        "out_shape",
        "session",
        "tensors",
        "workspace_size",
    )  # fmt: skip

    def __init__(
        self, session: Session, handle: int, layout: str, sizes: Sizes, q: View, k: View, v: View, o: View,
        lse: View | None, scale: float | None, parameters: Sequence[Parameter],
        views: Sequence[View | None],
    ) -> None:  # fmt: skip
        self.session, self.handle, self._check = session, handle, session.check
        args = Args(size=ctypes.sizeof(Args), family=ATTENTION_FORWARD)
        for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o)):
            setattr(args, name, tensor.data)
            for stride, dim in zip(STRIDES, dims_of(layout)):
                setattr(args, f"{name}_{stride}", tensor.strides[dim])
        if lse is not None:
            args.lse, (args.lse_batch_stride, args.lse_head_stride) = lse.data, lse.strides[:2]
        args.batch, args.heads, args.kv_heads, args.len_q, args.len_kv = sizes
        args.scale = 0.0 if scale is None else SCALE_ZERO if scale == 0 else scale
        if not math.isfinite(args.scale):
            raise errors.InvalidArgument(f"scale is {scale}, expected a finite number that fp32 holds")
        self._count = args.param_count = len(parameters)
        self.tensors = tuple(i for i, seen in enumerate(views) if seen is not None)  # of the parameters
        array = _params_of(parameters, views, q)
        for i in self.tensors:
            array[i].data = views[i].data  # type: ignore[union-attr]
        args.params = array
        size = ctypes.c_size_t()
        self._check(library.att_workspace_size(handle, ctypes.byref(args), ctypes.byref(size)))
        self.workspace_size = args.workspace_size = size.value
        self.out_shape = o.shape
        self.extra: Any = None  # what the caller keeps beside it
        self._template, self._params = args, array

    def bind(
        self, q: int, k: int, v: int, o: int, lse: int = 0, workspace: int = 0, params: Sequence[int] = ()
    ) -> Launch:
        """A launch of which nothing changes any more but the stream."""
        args = self._filled(q, k, v, o, lse, workspace, params)
        return Launch(self, args)

    def launch(
        self, q: int, k: int, v: int, o: int, lse: int = 0, workspace: int = 0, params: Sequence[int] = (),
        stream: int = 0,
    ) -> None:  # fmt: skip
        """Start it on these addresses. params: those of the parameters that are tensors, in their order."""
        status = library.att_launch(self.handle, self._filled(q, k, v, o, lse, workspace, params), stream)
        if status:
            self._check(status)

    def _filled(self, q: int, k: int, v: int, o: int, lse: int, workspace: int, params: Sequence[int]) -> Args:
        args = Args.from_buffer_copy(self._template)
        args.q, args.k, args.v, args.o, args.lse, args.workspace = q, k, v, o, lse, workspace
        if self._count:
            array = (Param * self._count).from_buffer_copy(self._params)
            for i, address in zip(self.tensors, params):
                array[i].data = address
            args.params = array
        return args


class Launch:
    """A call with everything said but the stream; keeps the tensors that it works on."""

    __slots__ = ("_args", "_plan", "kept")

    def __init__(self, plan: Plan, args: Args) -> None:
        self._plan, self._args = plan, args
        self.kept: Any = None

    def __call__(self, stream: int = 0) -> None:
        """Start it. Asynchronous on a GPU."""
        status = library.att_launch(self._plan.handle, self._args, stream)
        if status:
            self._plan.session.check(status)
