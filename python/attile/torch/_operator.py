"""The operators `torch.ops.attile.attention` and `attention_lse`: their implementation, the strides of their outputs,
and their inputs under autocast.

    attention(q, k, v, tensors, numbers, rule, scale, layout, schedule) -> o
    attention_lse(...) -> (o, lse)

rule is a part of a problem, "mask='k <= q and q - k < window' params='window: int'". The values of the parameters that
it declares follow in order, tensors in `tensors` and numbers in `numbers`, then the arguments of dropout (_dropout.py).
Both are registered for CPU and CUDA at the lowest level of torch.library: a custom_op's wrappers would cost more than
the launch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .. import errors
from .._check import dims_of
from .._find import plan_of
from .._memory import torch_stream
from .._new_tokens import NewTokens, with_new
from .._plan import ALIGNMENT, Plan
from .._problem import Parameter, declared_in
from .._sequences import Sequences, inputs_of
from .._stored import Stored
from .._tensor import View, contiguous, view
from ..session import at_fork_forget
from ._dropout import apart

_ARGUMENTS = (
    "(Tensor q, Tensor k, Tensor v, Tensor[] tensors, float[] numbers, str rule, float? scale, str layout, "
    "str schedule)"
)
_TAGS = tuple(
    tag for name in ("pt2_compliant_tag", "needs_fixed_stride_order") if (tag := getattr(torch.Tag, name, None))
)
_library = torch.library.Library("attile", "DEF")
_library.define(f"attention{_ARGUMENTS} -> Tensor", tags=_TAGS)
_library.define(f"attention_lse{_ARGUMENTS} -> (Tensor, Tensor)", tags=_TAGS)

PLANS = 4096  # most prepared calls that are kept; when there are as many, a further one clears them all


class Prepared(NamedTuple):
    """A checked call: its plan, and the shapes and strides of its outputs."""

    plan: Plan
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    lse_shape: tuple[int, ...]
    workspace: int  # bytes to request from PyTorch's allocator; 0 = none
    drops: bool  # the last of the tensors holds seed and offset


_prepared: dict[Any, Prepared] = {}
at_fork_forget(_prepared.clear)


def wants_gradients(*tensors: torch.Tensor) -> bool:
    """True if PyTorch records the call for autograd."""
    return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)


def out_strides(q: torch.Tensor, head_dim_v: int, layout: str) -> tuple[Any, Any]:
    """(shape, strides) of o, contiguous: heads within rows if q is ordered so, else rows within heads."""
    _, head, row = dims_of(layout)
    shape = (q.shape[0], q.shape[1], q.shape[2], head_dim_v)
    inner, outer = (head, row) if q.stride(head) < q.stride(row) else (row, head)
    strides = [0, 0, 0, 1]
    strides[inner] = head_dim_v
    strides[outer] = shape[inner] * head_dim_v
    strides[0] = shape[outer] * strides[outer]
    return shape, tuple(strides)


def packed_strides(q: torch.Tensor, head_dim_v: int, layout: str) -> tuple[Any, Any]:
    """(shape, strides) of o if q is packed, (tokens, heads, dim)."""
    tokens, heads, _ = q.shape
    return (tokens, heads, head_dim_v), (heads * head_dim_v, head_dim_v, 1)


def prepare(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[float],
    rule: str, scale: float | None, layout: str, schedule: str, want_lse: bool, sequences: Sequences | None = None,
    stored: Stored | None = None, new: NewTokens | None = None,
) -> Prepared:  # fmt: skip
    """Checks a call, finds its kernel, and determines the shapes and strides of its outputs."""
    inputs = inputs_of(view(q), view(k), view(v), layout, sequences, view, stored)
    inputs = with_new(inputs, new, layout, sequences, view)
    shape, strides = (packed_strides if inputs.packed else out_strides)(q, v.shape[-1], layout)
    first = inputs.q
    o = View(0, shape, strides, first.dtype, first.device, first.ordinal, None)
    lse_shape = inputs.lse_shape()
    lse = None
    if want_lse:
        lse = View(0, lse_shape, contiguous(lse_shape), "float32", first.device, first.ordinal, None)
    tensors, numbers, p, state = apart(rule, tensors, numbers)
    if state is not None:
        inputs = inputs._replace(
            numbers=(*inputs.numbers, ("dropout_p", p)), arrays=(*inputs.arrays, ("dropout_state", view(state)))
        )
    parameters, views = _parameters(rule, tensors, numbers)
    plan = plan_of(layout, inputs, *inputs.outputs(o, lse, layout), scale, rule, parameters, views, schedule or None)
    # PyTorch's allocations are aligned to 512 bytes on a GPU and to 64 bytes on a CPU.
    room = plan.workspace_size + ALIGNMENT if plan.workspace_size else 0
    return Prepared(plan, shape, strides, lse_shape, room, state is not None)


def _parameters(
    rule: str, tensors: Sequence[torch.Tensor], numbers: Sequence[float]
) -> tuple[list[Parameter], list[View | None]]:
    parameters: list[Parameter] = []
    views: list[View | None] = []
    declared = declared_in(rule)
    wanted = sum("[" in kind for _, kind in declared)
    if (wanted, len(declared) - wanted) != (len(tensors), len(numbers)):
        raise errors.ParameterError(
            f"the rule declares {wanted} tensors and {len(declared) - wanted} numbers, found {len(tensors)} and "
            f"{len(numbers)}: {rule}"
        )
    more_tensors, more_numbers = iter(tensors), iter(numbers)
    for name, kind in declared:
        value: Any = next(more_tensors) if "[" in kind else next(more_numbers)
        parameters.append(Parameter(name, kind, value))
        views.append(view(value) if "[" in kind else None)
    return parameters, views


def _run(
    want_lse: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Sequence[torch.Tensor],
    numbers: Sequence[float], rule: str, scale: float | None, layout: str, schedule: str,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    some = tensors or q.requires_grad or k.requires_grad or v.requires_grad
    if some and not want_lse and wants_gradients(q, k, v, *tensors):
        # autograd differentiates attention_lse (_backward.py)
        recorded: torch.Tensor = attention_lse(q, k, v, tensors, numbers, rule, scale, layout, schedule)[0]
        return recorded
    at_q, at_k, at_v, index = q.data_ptr(), k.data_ptr(), v.data_ptr(), q.get_device()
    key: Any = (
        q.shape, q.stride(), q.dtype, index, k.shape, k.stride(), k.dtype, k.get_device(), v.shape, v.stride(), v.dtype,
        v.get_device(), rule, scale, layout, schedule, want_lse, (at_q | at_k | at_v) & 15,
    )  # fmt: skip
    if numbers or tensors:
        key += (*numbers, *((one.shape, one.stride(), one.dtype, one.get_device()) for one in tensors))
    prepared = _prepared.get(key)
    if prepared is None:
        prepared = prepare(q, k, v, tensors, numbers, rule, scale, layout, schedule, want_lse)
        if len(_prepared) >= PLANS:
            _prepared.clear()
        _prepared[key] = prepared
    plan, shape, strides, lse_shape, room, dropout = prepared
    o = q.new_empty_strided(shape, strides)
    lse = torch.empty(lse_shape, dtype=torch.float32, device=q.device) if want_lse else None
    workspace = 0
    if room:
        memory = torch.empty(room, dtype=torch.uint8, device=q.device)
        workspace = memory.data_ptr()
        workspace += -workspace % ALIGNMENT
    addresses = [one.data_ptr() for one in tensors] if tensors else []
    arrays = (addresses.pop(),) if dropout else ()
    plan.launch(
        at_q, at_k, at_v, o.data_ptr(), 0 if lse is None else lse.data_ptr(), workspace, addresses,
        0 if index < 0 else _stream_of(index), arrays,
    )  # fmt: skip
    return o if lse is None else (o, lse)


_stream_of = torch_stream()


def _fake(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Any, layout: str) -> torch.Tensor:
    for name, one in (("q", q), ("k", k), ("v", v)):
        if one.dim() != 4:
            raise errors.ShapeError(f"{name} has {one.dim()} dimensions, expected four in layout {layout}")
        if one.dtype != q.dtype:
            raise errors.DtypeError(f"{name} is {one.dtype} and q is {q.dtype}, expected one type")
    shape, strides = out_strides(q, v.shape[3], layout)
    return torch.empty_strided(shape, strides, dtype=q.dtype, device=q.device)


def _fake_attention(q, k, v, tensors, numbers, rule, scale, layout, schedule):  # type: ignore[no-untyped-def]
    if wants_gradients(q, k, v, *tensors):
        raise errors.NoBackward("a graph differentiates torch.ops.attile.attention_lse; call that, or attile.attention")
    return _fake(q, k, v, tensors, layout)


def _fake_attention_lse(q, k, v, tensors, numbers, rule, scale, layout, schedule):  # type: ignore[no-untyped-def]
    _, head, row = dims_of(layout)
    lse = q.new_empty((q.shape[0], q.shape[head], q.shape[row]), dtype=torch.float32)
    return _fake(q, k, v, tensors, layout), lse


def under_autocast(operator: Any, kind: str) -> Callable[..., Any]:
    """Returns the operator with q, k and v cast to autocast's type, as in PyTorch's own attention; parameters stay."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{kind.upper()}"))

    def cast(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> Any:
        dtype = torch.get_autocast_dtype(kind)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(*(one.to(dtype) if one.dtype == torch.float32 else one for one in (q, k, v)), *rest)

    return cast


for _name, _real, _abstract in (
    ("attention", functools.partial(_run, False), _fake_attention),
    ("attention_lse", functools.partial(_run, True), _fake_attention_lse),
):
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _real, _key)
    # Autograd does not record attention; for gradients it calls attention_lse, whose Autograd is in _backward.py.
    if _name == "attention":
        _library.impl(_name, torch.library.fallthrough_kernel, "Autograd")
    torch.library.register_fake(f"attile::{_name}", _abstract, lib=_library)
    for _kind in ("cpu", "cuda"):
        _operator = getattr(torch.ops.attile, _name).default
        _library.impl(_name, under_autocast(_operator, _kind), f"Autocast{_kind.upper()}")

attention = torch.ops.attile.attention.default
attention_lse = torch.ops.attile.attention_lse.default
