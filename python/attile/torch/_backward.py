"""The operator `torch.ops.attile.attention_backward`, and the autograd formula that uses it.

    attention_backward(d_o, d_lse, q, k, v, o, lse, tensors, numbers, rule, wants, scale, layout, schedule, lengths_kv=None,
        cu_seqlens_q=None, cu_seqlens_kv=None, max_len_q=None, max_len_kv=None) -> (dq, dk, dv, d_sinks, d_tensors)

It differentiates attention_lse, or attention_sequences_lse if members of attile.Sequences are given; the backward pass
reads the outputs of the forward pass. Rows of dq, dk and dv that belong to no sequence are 0. wants is the knob of the
problem, for example "dq, dk, d_bias", or "" for dq, dk, dv and d_sinks; a gradient that it leaves out has no elements.
d_tensors are gradients in fp32, one for each tensor of the rule except sinks. Under autograd the library chooses the
kernels of the backward pass, regardless of the schedule of the forward pass.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .. import errors
from .._check import dims_of
from .._library import ATTENTION_BACKWARD, SCALE_ZERO, STRIDES, BackwardArgs, ParamGradient, library
from .._plan import ALIGNMENT, alignment_of, params_of
from .._problem import declared_in, hints, knob_of_dtype, quoted
from .._sequences import Sequences, inputs_of, packed
from .._tensor import view
from ..session import at_fork_forget, session_for
from ._dropout import apart, drops
from ._operator import _library, _parameters, _stream_of, out_strides, packed_strides
from ._sequences import OWN_ARRAYS, given_by, key_of, own_members, own_sequences

_DEFINITION = (
    "attention_backward(Tensor d_o, Tensor? d_lse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor[] tensors, "
    f"float[] numbers, str rule, str wants, float? scale, str layout, str schedule{own_members('=None')}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor[])"
)
PLANS = 1024  # most prepared calls that are kept; when there are as many, a further one clears them all


class Prepared(NamedTuple):
    """A checked call: its arguments, which every run copies and completes with addresses."""

    session: Any
    handle: int
    args: BackwardArgs
    params: Any
    gradients: Any  # gradients of the parameters, in the order of the rule
    workspace: int  # bytes


_prepared: dict[Any, Prepared] = {}
at_fork_forget(_prepared.clear)


def has_sinks(rule: str) -> bool:
    return any(name == "sinks" for name, _ in declared_in(rule))


def _names(wants: str) -> list[str]:
    return [name for name in wants.replace(",", " ").split()]


def _tensor_names(rule: str) -> list[str]:
    """The names of the parameters that are tensors, in their order; sinks last."""
    return [name for name, kind in declared_in(rule) if "[" in kind]


def _outputs(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    tensors: Sequence[torch.Tensor],
    rule: str,
    wants: str,
    layout: str,
    sequences: Sequences | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """Allocates the gradients. dq, dk and dv have the order of q, k and v in memory, heads within rows or rows within
    heads; the others are contiguous."""
    wanted = _names(wants) or ["dq", "dk", "dv", "d_sinks"]
    ragged = sequences is not None and sequences.cu_seqlens_q is not None
    made = []
    for name, one in (("dq", q), ("dk", k), ("dv", v)):
        shape, strides = (packed_strides if ragged else out_strides)(one, one.shape[-1], layout)
        made.append(one.new_empty_strided(shape, strides) if name in wanted else one.new_empty((0,)))
        if sequences is not None:
            made[-1].zero_()  # kernels do not write rows that belong to no sequence
    heads = q.shape[1 if ragged else dims_of(layout)[1]] if has_sinks(rule) and "d_sinks" in wanted else 0
    of_tensors = [
        one.new_empty(one.shape if f"d_{name}" in wanted else (0,), dtype=torch.float32)
        for name, one in zip(_tensor_names(rule), tensors) if name != "sinks"
    ]  # fmt: skip
    return made[0], made[1], made[2], q.new_empty((heads,), dtype=torch.float32), of_tensors


def _prepare(
    given: dict[str, torch.Tensor], d_lse: torch.Tensor | None, lse: torch.Tensor, tensors: Sequence[torch.Tensor],
    numbers: Sequence[float], rule: str, wants: str, scale: float | None, layout: str, schedule: str,
    sequences: Sequences | None,
) -> Prepared:  # fmt: skip
    views = {name: view(one) for name, one in given.items()}
    inputs = inputs_of(views["q"], views["k"], views["v"], layout, sequences, view)
    if inputs.packed:
        views = {name: packed(name, one, layout) for name, one in views.items()}
    q, v = views["q"], views["v"]
    tensors, numbers, dropout_p, _ = apart(rule, tensors, numbers)
    parameters, parameter_views = _parameters(rule, tensors, numbers)
    alignment = min(alignment_of(one) for one in views.values())
    deterministic = int(torch.are_deterministic_algorithms_enabled())
    problem = (
        f"family=attention_backward dtype={knob_of_dtype(q.dtype, 'q')} head_dim={q.shape[3]} head_dim_v={v.shape[3]} "
        f"deterministic={deterministic} {inputs.layout} {rule} {f'wants={quoted(wants)} ' if wants else ''}"
        f"{hints(inputs.sizes, alignment, counts_tiles=True)}"
    )
    session = session_for(q.device if q.device == "host" else "cuda", q.ordinal)
    handle = session.find(problem, schedule or None)
    args = BackwardArgs(size=ctypes.sizeof(BackwardArgs), family=ATTENTION_BACKWARD)
    for name, one in views.items():
        for stride, dim in zip(STRIDES, dims_of(layout)):
            setattr(args, f"{name}_{stride}", one.strides[dim])
    args.lse_batch_stride, args.lse_head_stride = _strides(lse)
    if d_lse is not None:
        args.d_lse_batch_stride, args.d_lse_head_stride = _strides(d_lse)
    args.batch, args.heads, args.kv_heads, args.len_q, args.len_kv = inputs.sizes
    for name, number in inputs.numbers:
        setattr(args, name, number)
    args.dropout_p = dropout_p
    args.scale = 0.0 if scale is None else SCALE_ZERO if scale == 0 else scale
    params = params_of(parameters, parameter_views, q)
    args.param_count, args.params = len(parameters), params
    wanted = [i for i, one in enumerate(parameters) if f"d_{one.name}" in _names(wants) and one.name != "sinks"]
    gradients = (ParamGradient * len(wanted))()
    for gradient, i in zip(gradients, wanted):
        gradient.name = params[i].name
        for dim, length in enumerate(tensors[sum("[" in one.declared for one in parameters[:i])].shape):
            gradient.size[dim] = length
    args.param_gradient_count, args.param_gradients = len(wanted), gradients
    size = ctypes.c_size_t()
    session.check(library.att_workspace_size(handle, ctypes.byref(args), ctypes.byref(size)))
    args.workspace_size = size.value
    return Prepared(session, handle, args, params, gradients, size.value)


def _strides(lse: torch.Tensor) -> tuple[int, int]:
    """The (batch, head) strides of lse, which is (batch, heads, len_q) or, packed, (heads, tokens)."""
    return (0, lse.stride(0)) if lse.dim() == 2 else (lse.stride(0), lse.stride(1))


def _run(
    d_o: torch.Tensor, d_lse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
    lse: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[float], rule: str, wants: str,
    scale: float | None, layout: str, schedule: str, *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    if torch.is_grad_enabled() and any(one.requires_grad for one in (d_o, q, k, v, *tensors)):
        raise errors.NoBackward("the gradient of a gradient is asked for, and there are no kernels for it")
    if d_o.stride(-1) != 1 or min(d_o.stride()) < 0:
        d_o = d_o.contiguous()
    if d_lse is not None:
        d_lse = d_lse.float().contiguous()
    lse = lse.contiguous()
    sequences = given_by(own_sequences(*rest))
    dq, dk, dv, d_sinks, d_tensors = _outputs(q, k, v, tensors, rule, wants, layout, sequences)
    given = {"q": q, "k": k, "v": v, "o": o, "d_o": d_o}
    for name, one in (("dq", dq), ("dk", dk), ("dv", dv)):
        if not wants or name in _names(wants):
            given[name] = one
    key: Any = (
        *((one.shape, one.stride(), one.dtype, one.get_device(), one.data_ptr() & 15) for one in given.values()),
        *((one.shape, one.stride(), one.dtype) for one in tensors), *numbers, d_lse is None, rule, wants, scale, layout,
        schedule, *key_of(rest), torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip
    prepared = _prepared.get(key)
    if prepared is None:
        prepared = _prepare(given, d_lse, lse, tensors, numbers, rule, wants, scale, layout, schedule, sequences)
        if len(_prepared) >= PLANS:
            _prepared.clear()
        _prepared[key] = prepared
    args = BackwardArgs.from_buffer_copy(prepared.args)
    for name, one in given.items():
        setattr(args, name, one.data_ptr())
    for name, array in zip(OWN_ARRAYS, rest):
        setattr(args, name, 0 if array is None else array.data_ptr())
    args.lse, args.d_lse = lse.data_ptr(), 0 if d_lse is None else d_lse.data_ptr()
    args.d_sinks = d_sinks.data_ptr() if d_sinks.numel() else 0
    params = type(prepared.params).from_buffer_copy(prepared.params)
    places = [i for i, (_, kind) in enumerate(declared_in(rule)) if "[" in kind]
    for i, one in zip(places, tensors):
        params[i].data = one.data_ptr()
    args.params = params
    gradients = type(prepared.gradients).from_buffer_copy(prepared.gradients)
    wanted = [one for name, one in zip(_tensor_names(rule), d_tensors) if f"d_{name}" in _names(wants)]
    for gradient, one in zip(gradients, wanted):
        gradient.data = one.data_ptr()
    args.param_gradients = gradients
    if drops(rule):
        args.dropout_state = tensors[-1].data_ptr()
    if prepared.workspace:
        memory = torch.empty(prepared.workspace + ALIGNMENT, dtype=torch.uint8, device=q.device)
        args.workspace = memory.data_ptr() + -memory.data_ptr() % ALIGNMENT
    index = q.get_device()
    status = library.att_launch(prepared.handle, ctypes.byref(args), 0 if index < 0 else _stream_of(index))
    if status:
        prepared.session.check(status)
    return dq, dk, dv, d_sinks, d_tensors


def _fake(d_o, d_lse, q, k, v, o, lse, tensors, numbers, rule, wants, scale, layout, schedule, *rest):  # type: ignore[no-untyped-def]
    return _outputs(q, k, v, tensors, rule, wants, layout, given_by(own_sequences(*rest)))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Saves the context of attention_lse, or of attention_sequences_lse, which has more arguments after schedule."""
    q, k, v, tensors, numbers, rule, scale, layout, _, *more = inputs
    lengths_kv, cu_seqlens_q, cu_seqlens_kv, *_, max_len_q, max_len_kv = own_sequences(*more)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output, lengths_kv, cu_seqlens_q, cu_seqlens_kv, *tensors)
    ctx.rest = numbers, rule, _wants(q, k, v, tensors, rule), scale, layout, (max_len_q, max_len_kv), len(more)


def _wants(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: Sequence[torch.Tensor], rule: str
) -> str:  # fmt: skip
    """The knob wants of the problem: the default "" unless a parameter other than sinks requires a gradient."""
    of_tensors = [f"d_{name}" for name, one in zip(_tensor_names(rule), tensors) if one.requires_grad]
    if not set(of_tensors) - {"d_sinks"}:
        return ""
    return ", ".join([name for name, one in (("dq", q), ("dk", k), ("dv", v)) if one.requires_grad] + of_tensors)


def _backward(ctx: Any, d_o: torch.Tensor | None, d_lse: torch.Tensor | None) -> tuple[Any, ...]:
    q, k, v, o, lse, lengths_kv, cu_seqlens_q, cu_seqlens_kv, *tensors = ctx.saved_tensors
    numbers, rule, wants, scale, layout, most, more = ctx.rest
    gradients: list[torch.Tensor | None] = [None] * len(tensors)
    # PyTorch takes an empty list for a list of tensors.
    others: tuple[Any, ...] = (None if numbers else [], *(None,) * (4 + more))
    if d_o is None and d_lse is None:
        return None, None, None, gradients, *others
    if d_o is None:
        d_o = torch.zeros_like(o)
    try:
        dq, dk, dv, d_sinks, d_tensors = attention_backward(
            d_o, d_lse, q, k, v, o, lse, tensors, numbers, rule, wants, scale, layout, "",
            lengths_kv, cu_seqlens_q, cu_seqlens_kv, *most,
        )  # fmt: skip
    except (errors.InvalidText, errors.Unsupported) as error:
        if not wants:
            raise
        raise errors.NoBackward(
            f"a parameter of the mask or the score requires a gradient that it has not; detach it: {error}"
        ) from error
    for i, (name, one) in enumerate(zip(_tensor_names(rule), d_tensors)):
        if f"d_{name}" in _names(wants):
            gradients[i] = one.to(tensors[i].dtype)
    if d_sinks.numel():
        gradients[-1 - drops(rule)] = d_sinks
    of_inputs = [
        one if not wants or name in _names(wants) else None for name, one in (("dq", dq), ("dk", dk), ("dv", dv))
    ]
    return *of_inputs, gradients, *others


_library.define(_DEFINITION, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order))
for _key in ("CPU", "CUDA"):
    _library.impl("attention_backward", _run, _key)
_library.impl("attention_backward", torch.library.fallthrough_kernel, "Autograd")
torch.library.register_fake("attile::attention_backward", _fake, lib=_library)
for _name in ("attention_lse", "attention_sequences_lse"):
    torch.library.register_autograd(f"attile::{_name}", _backward, setup_context=_setup, lib=_library)

attention_backward = torch.ops.attile.attention_backward.default
