"""A launch that is checked once and repeated often: sizes and strides become a template of the arguments, which every
launch fills with addresses. Several threads may use a plan: every launch takes its own copy from a list of spare ones.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import byref
from typing import Any

from . import errors
from ._check import check_device, dims_of
from ._library import ATTENTION_FORWARD, PARAM_TYPES, REPEAT, SCALE_ZERO, STRIDES, Args, Param, library
from ._problem import Parameter
from ._sequences import Inputs
from ._tensor import View
from .session import Session

ALIGNMENT = 256  # of a workspace, in bytes
ITEM_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}  # of Q, K, V and O, in bytes; 1 for all other types

_launch = library.att_launch


def alignment_of(tensor: View) -> int:
    """The common alignment of all rows of a tensor of four dimensions, in bytes, at most 16."""
    itemsize = ITEM_SIZES.get(tensor.dtype, 1)
    bits = tensor.data
    for size, stride in zip(tensor.shape[:3], tensor.strides):
        if size > 1:
            bits |= stride * itemsize
    low = bits & 15
    return low & -low if low else 16


def params_of(parameters: Sequence[Parameter], views: Sequence[View | None], q: View) -> ctypes.Array[Param]:
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
    """One launch of one kernel on tensors of fixed sizes and strides.

    inputs, o, lse and views give the sizes and strides of the tensors; every launch passes the addresses.
    """

    __slots__ = (
        "_check",
        "_count",
        "_params",
        "_spare",
        "_template",
        "arrays",
        "extra",
        "handle",
        "session",
        "tensors",
        "workspace_size",
    )  # fmt: skip

    def __init__(
        self, session: Session, handle: int, layout: str, inputs: Inputs, o: View, lse: View | None,
        scale: float | None, parameters: Sequence[Parameter], views: Sequence[View | None],
    ) -> None:  # fmt: skip
        self.session, self.handle, self._check = session, handle, session.check
        args = Args(size=ctypes.sizeof(Args), family=ATTENTION_FORWARD)
        q = inputs.q
        for name, tensor in (("q", q), ("k", inputs.k), ("v", inputs.v), ("o", o)):
            setattr(args, name, tensor.data)
            for stride, dim in zip(STRIDES, dims_of(layout)):
                setattr(args, f"{name}_{stride}", tensor.strides[dim])
        if lse is not None:
            args.lse, (args.lse_batch_stride, args.lse_head_stride) = lse.data, lse.strides[:2]
        args.batch, args.heads, args.kv_heads, args.len_q, args.len_kv = inputs.sizes
        for name, number in inputs.numbers:
            setattr(args, name, number)
        for name, one in inputs.arrays:
            setattr(args, name, one.data)
        self.arrays = tuple(name for name, _ in inputs.arrays)  # names of the arrays of sequences, and of scales
        args.scale = 0.0 if scale is None else SCALE_ZERO if scale == 0 else scale
        if not math.isfinite(args.scale):
            raise errors.InvalidArgument(f"scale is {scale}, expected a finite number that fp32 holds")
        self._count = args.param_count = len(parameters)
        self.tensors = tuple(i for i, seen in enumerate(views) if seen is not None)  # parameters that are tensors
        array = params_of(parameters, views, q)
        for i in self.tensors:
            array[i].data = views[i].data  # type: ignore[union-attr]
        args.params = array
        size = ctypes.c_size_t()
        self._check(library.att_workspace_size(handle, byref(args), byref(size)))
        self.workspace_size = args.workspace_size = size.value
        self.extra: Any = None  # data that the caller keeps with the plan
        self._template, self._params = args, array
        self._spare: list[Args] = []  # copies of the template that no launch is using

    def bind(
        self, q: int, k: int, v: int, o: int, lse: int = 0, workspace: int = 0, params: Sequence[int] = (),
        arrays: Sequence[int] = (),
    ) -> Launch:  # fmt: skip
        """Returns a launch in which only the stream can still change."""
        return Launch(self, self.arguments(q, k, v, o, lse, workspace, params, arrays))

    def arguments(
        self, q: int, k: int, v: int, o: int, lse: int, workspace: int, params: Sequence[int], arrays: Sequence[int]
    ) -> Args:
        """Returns a copy of the arguments with these addresses."""
        args = Args.from_buffer_copy(self._template)
        args.q, args.k, args.v, args.o, args.lse, args.workspace = q, k, v, o, lse, workspace
        for name, address in zip(self.arrays, arrays):
            setattr(args, name, address)
        if self._count:
            args.params = self._params_at(params)
        return args

    def launch(
        self, q: int, k: int, v: int, o: int, lse: int = 0, workspace: int = 0, params: Sequence[int] = (),
        stream: int = 0, arrays: Sequence[int] = (), check: bool = False,
    ) -> None:  # fmt: skip
        """Starts the kernel on these addresses. params: addresses of the parameters that are tensors, in their order.
        arrays: addresses of Inputs.arrays, in its order. check: wait and check the numbers in these arrays first."""
        try:
            args = self._spare.pop()
        except IndexError:
            args = Args.from_buffer_copy(self._template)
        args.q, args.k, args.v, args.o, args.lse, args.workspace = q, k, v, o, lse, workspace
        for name, address in zip(self.arrays, arrays):
            setattr(args, name, address)
        if self._count:
            args.params = self._params_at(params)
        status = library.att_check(self.handle, byref(args)) if check else 0
        status = status or _launch(self.handle, byref(args), stream)
        self._spare.append(args)
        if status:
            self._check(status)

    def _params_at(self, addresses: Sequence[int]) -> ctypes.Array[Param]:
        array = (Param * self._count).from_buffer_copy(self._params)
        for i, address in zip(self.tensors, addresses):
            array[i].data = address
        return array


class Launch:
    """A call whose arguments are all fixed except the stream; keeps the tensors that it works on alive."""

    __slots__ = ("_at", "_plan", "kept")

    def __init__(self, plan: Plan, args: Args) -> None:
        self._plan, self._at = plan, byref(args)  # byref keeps args alive
        self.kept: Any = None

    def __call__(self, stream: int = 0) -> None:
        """Starts the call. Asynchronous on a GPU."""
        status = _launch(self._plan.handle, self._at, stream)
        if status:
            self._plan.session.check(status)
