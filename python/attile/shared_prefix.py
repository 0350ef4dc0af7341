"""`attention_shared_prefix`: attention of sequences that begin with the same keys, which are read only once for all."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import byref
from typing import Any

from . import errors
from ._check import dims_of, shape_of
from ._find import problem_of
from ._library import SharedPrefix, Tensor, library
from ._memory import current_stream, workspace_for
from ._plan import Plan
from ._problem import Parameter, declare, knob_of_dtype, rule_text
from ._sequences import Sequences, inputs_of
from ._stored import SCALES, Stored
from ._tensor import View, empty_like, view
from .session import session_for


def attention_shared_prefix(
    q: Any, k: Any, v: Any, k_prefix: Any, v_prefix: Any, *, prefix: Sequences | None = None,
    sequences: Sequences | None = None, mask: str | None = None, score: str | None = None, scale: float | None = None,
    params: Mapping[str, Any] | None = None, sinks: Any = None, return_lse: bool = False, layout: str = "bshd",
    stream: int | None = None, dtype_kv: str | None = None, k_scale: Any = None, v_scale: Any = None,
    k_prefix_scale: Any = None, v_prefix_scale: Any = None,
) -> Any:  # fmt: skip
    """Computes attile.attention with k_prefix and v_prefix before the keys of every sequence.

    k_prefix, v_prefix: (1, len, kv_heads, dim), in layout "bhsd" (1, kv_heads, len, dim), or pages. prefix: for pages,
    attile.Sequences of one sequence, with lengths_kv and page_table.
    The other arguments are as for attile.attention. Lengths, masks and positions of a sequence's own keys count from
    the end of the prefix. Every query sees the whole prefix with unchanged scores: mask and score apply to the own keys
    only. The queries of neighbouring sequences must be packed, or evenly spaced.
    k_prefix_scale, v_prefix_scale: for a prefix of 8 bits, like k_scale and v_scale but for tensors of its shape.
    Without them the prefix uses k_scale and v_scale, unless these have one scale for each row.
    Saves batch - 1 reads of the prefix and costs two launches (docs/serving.md). Raises NoBackward for a tensor that
    requires a gradient.
    """
    if any(getattr(one, "requires_grad", False) for one in (q, k, v, k_prefix, v_prefix)):
        raise errors.NoBackward(
            "attention_shared_prefix is given a tensor that requires a gradient, and has none; detach it"
        )

    def see(tensor: Any) -> View:
        return view(tensor, stream or 0)

    own = inputs_of(see(q), see(k), see(v), layout, sequences, see, Stored(dtype_kv, k_scale, v_scale))
    _, _, row = dims_of(layout)
    tokens = own.q.shape[0] * own.q.shape[row]
    joined = own.q._replace(shape=shape_of(layout, 1, own.sizes.heads, tokens, own.q.shape[3]))
    if prefix is not None and prefix.cu_seqlens_q is not None:
        raise errors.InvalidArgument("prefix has cu_seqlens_q, expected lengths_kv and page_table: it is one sequence")
    seen_k, seen_v = see(k_prefix), see(v_prefix)
    stored = Stored(None, k_prefix_scale, v_prefix_scale)
    if seen_k.dtype != own.q.dtype:
        stored = stored._replace(dtype_kv=dtype_kv)
        if k_prefix_scale is None and v_prefix_scale is None and "kv_scale=token" not in own.stored:
            stored = Stored(dtype_kv, k_scale, v_scale)
    first = inputs_of(joined, seen_k, seen_v, layout, prefix, see, stored)
    if first.sizes.kv_heads != own.sizes.kv_heads or first.v.shape[3] != own.v.shape[3]:
        raise errors.ShapeError(
            f"k_prefix and v_prefix have shapes {first.k.shape} and {first.v.shape}, expected as many heads and columns as "
            f"those of k and v, {own.k.shape} and {own.v.shape}"
        )
    parameters = declare(params, own.sizes, view)
    if sinks is not None:
        parameters.append(Parameter("sinks", "float[heads]", sinks))
    views = [None if isinstance(one.value, (bool, int, float)) else see(one.value) for one in parameters]
    o = empty_like(q, own.out_shape(layout, own.v.shape[3]), own.q.dtype)
    lse = empty_like(q, own.lse_shape(), "float32") if return_lse else None
    seen_o, seen_lse = own.outputs(view(o), None if lse is None else view(lse), layout)

    session = session_for(own.q.device, own.q.ordinal)
    part = seen_o._replace(data=0)  # partial O is in the workspace, which is aligned
    kernel = session.find(problem_of(own, part, rule_text(mask, score, parameters)) + " dtype_out=fp32")
    merge = f"family=merge dtype=fp32 dtype_out={knob_of_dtype(own.q.dtype, 'q')} head_dim_v={own.v.shape[3]}"
    shared = SharedPrefix(
        size=ctypes.sizeof(SharedPrefix),
        prefix=session.find(problem_of(first, part, "") + " dtype_out=fp32"),
        merge=session.find(merge),
        k=_tensor(first.k, layout), v=_tensor(first.v, layout), len=first.sizes.len_kv,
    )  # fmt: skip
    for name, one in first.arrays:
        setattr(shared, name, one.data)
    for name, number in first.numbers:
        if name == "pages" or name.startswith(SCALES):
            setattr(shared, name, number)
    plan = Plan(session, kernel, layout, own, seen_o, seen_lse, scale, parameters, views)
    args = plan.arguments(
        own.q.data, own.k.data, own.v.data, seen_o.data, seen_lse.data if seen_lse else 0, 0,
        [one.data for one in views if one], [one.data for _, one in own.arrays],
    )  # fmt: skip
    size = ctypes.c_size_t()
    session.check(library.att_shared_prefix_workspace_size(kernel, byref(args), byref(shared), byref(size)))
    kept, args.workspace = workspace_for(q, own.q, size.value)
    args.workspace_size = size.value
    at = current_stream(q) if stream is None else stream
    session.check(library.att_launch_shared_prefix(kernel, byref(args), byref(shared), at))
    del kept
    return (o, lse) if return_lse else o


def _tensor(one: View, layout: str) -> Tensor:
    return Tensor(one.data, *(one.strides[dim] for dim in dims_of(layout)))
