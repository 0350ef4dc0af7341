"""`attention`: one call on tensors, without problem texts and without kernels to keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._find import plan_of
from ._memory import current_stream, workspace_for
from ._new_tokens import NewTokens, with_new
from ._problem import Parameter, as_text, declare, rule_text
from ._sequences import Sequences, inputs_of
from ._stored import Stored
from ._tensor import View, empty_like, is_torch, view
from .session import session_for


def attention(
    q: Any, k: Any, v: Any, *, mask: str | None = None, score: str | None = None, scale: float | None = None,
    params: Mapping[str, Any] | None = None, sinks: Any = None, schedule: str | None = None,
    return_lse: bool = False, layout: str = "bshd", stream: int | None = None, sequences: Sequences | None = None,
    dtype_kv: str | None = None, k_scale: Any = None, v_scale: Any = None, new: NewTokens | None = None,
    check: bool = False,
) -> Any:  # fmt: skip
    """Computes softmax(score(scale q k^T) where mask) v.

    q: (batch, len_q, heads, head_dim); k: (batch, len_kv, kv_heads, head_dim); v: (batch, len_kv, kv_heads, head_dim_v);
    with layout "bhsd" heads come before lengths. float32, float16 or bfloat16; any strides with a contiguous last
    dimension; kv_heads divides heads. Runs where the tensors are: on a GPU, or on this CPU by the host device.
    mask, score: expressions (docs/expressions.md); None = all keys, and the score unchanged. In a mask, the last query
    and the last key have the same position.
    params: {name: value} or {"name: type": value} for the names in mask and score, numbers and tensors. Without a type,
    a dimension of a tensor that equals a size of the call is taken to be that size.
    sinks: (heads,) of float32, logits that take weight but add no value. scale: None = 1 / sqrt(head_dim).
    schedule: knobs for how to compute; None = the library chooses. stream: a CUDA stream; None = the current one.
    sequences: attile.Sequences, for sequences of different lengths, packed one after the other or in pages; its
    docstring gives the dimensions of q, k, v, o and lse in that case. check: on a GPU, wait and check the numbers in
    its arrays before the launch, as is always done on a CPU; meant for finding an error, not for every step.
    k and v may have 8 bits: int8, float8, or uint8, for which dtype_kv says "e4m3" or "e5m2". k_scale, v_scale:
    float32; an element times its scale is the number that it stands for: one number, (kv_heads,), or one for each row,
    (batch, kv_heads, len_kv) in every layout; in pages (pages, kv_heads, page_size), packed (1, kv_heads, tokens).
    new: attile.NewTokens, k and v of the queries' own tokens, which are written into k and v, in place, before q
    attends to them, as attile.append_kv would do; with rope they and q are rotated. For 16 bits and sequences with
    lengths_kv.
    Returns o, (batch, len_q, heads, head_dim_v), of the library that made q; with return_lse (o, lse), where lse is
    (batch, heads, len_q) of float32, the natural logarithm of the sums. A query that sees no key gets 0 and -inf.
    Compiles at the first call of its kind; other calls are asynchronous on a GPU. Raises exceptions of attile.errors,
    all before anything is started.
    """
    if is_torch(q):
        from . import torch as attile_torch

        return attile_torch.attention(
            q, k, v, mask=mask, score=score, scale=scale, params=params, sinks=sinks, schedule=schedule,
            return_lse=return_lse, layout=layout, stream=stream, sequences=sequences, dtype_kv=dtype_kv,
            k_scale=k_scale, v_scale=v_scale, new=new, check=check,
        )  # fmt: skip

    def see(tensor: Any) -> View:
        return view(tensor, stream or 0)

    stored = Stored(dtype_kv, k_scale, v_scale)
    inputs = inputs_of(see(q), see(k), see(v), layout, sequences, see, stored)
    inputs = with_new(inputs, new, layout, sequences, see)
    parameters = declare(params, inputs.sizes, view)
    if sinks is not None:
        parameters.append(Parameter("sinks", "float[heads]", sinks))
    views = [None if isinstance(one.value, (bool, int, float)) else see(one.value) for one in parameters]
    o = empty_like(q, inputs.out_shape(layout, inputs.v.shape[3]), inputs.q.dtype)
    lse = empty_like(q, inputs.lse_shape(), "float32") if return_lse else None
    seen_o, seen_lse = inputs.outputs(view(o), None if lse is None else view(lse), layout)
    plan = plan_of(
        layout, inputs, seen_o, seen_lse, scale, rule_text(mask, score, parameters), parameters, views, schedule
    )
    kept, workspace = workspace_for(q, inputs.q, plan.workspace_size)
    plan.launch(
        inputs.q.data, inputs.k.data, inputs.v.data, seen_o.data, seen_lse.data if seen_lse else 0, workspace,
        [one.data for one in views if one], current_stream(q) if stream is None else stream,
        [one.data for _, one in inputs.arrays], check,
    )  # fmt: skip
    del kept
    return (o, lse) if return_lse else o


def explain(problem: Any, schedule: str | None = None, *, device: str = "auto") -> str:
    """Tells which kernel solves a problem on a device and why, knob by knob; compiles nothing.

    problem: knobs, as for `compile`. Raises Unsupported, with the reasons, if no kernel does.
    """
    return session_for(device).explain(as_text(problem), schedule)
