"""The operator `torch.ops.attile.append_kv`, which changes k_cache and v_cache, and `attile.torch.append_kv` on it.

    append_kv(k, v, k_cache, v_cache, q, lengths_kv, ..., slots, ..., k_scale, v_scale, rope, ..., layout) -> q_out

q_out has no elements if there is no q.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import errors
from .._append import Append, Asked, prepare
from .._sequences import ARRAYS, Sequences
from .._tensor import view
from ..session import at_fork_forget
from ._operator import PLANS, _library, _stream_of, wants_gradients

_GIVEN = (
    "k",
    "v",
    "k_cache",
    "v_cache",
    "q",
    *ARRAYS,
    "slots",
    "positions",
    "rope_cos",
    "rope_sin",
    "k_scale",
    "v_scale",
)
_TYPES = {"k": "Tensor", "v": "Tensor", "k_cache": "Tensor(a!)", "v_cache": "Tensor(b!)", "k_scale": "Tensor(c!)?",
          "v_scale": "Tensor(d!)?"}  # fmt: skip
_library.define(
    f"append_kv({', '.join(_TYPES.get(name, 'Tensor?') + ' ' + name for name in _GIVEN)}, str? rope, int? rope_dim, "
    "float? rope_base, str? dtype_kv, str layout, SymInt? max_len_q, SymInt? max_len_kv) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order),
)

_prepared: dict[Any, Append] = {}
at_fork_forget(_prepared.clear)


def append_kv(
    k: torch.Tensor, v: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, *,
    sequences: Sequences | None = None, slots: torch.Tensor | None = None, positions: torch.Tensor | None = None,
    q: torch.Tensor | None = None, rope: str | None = None, rope_dim: int | None = None,
    rope_base: float | None = None, rope_cos: torch.Tensor | None = None, rope_sin: torch.Tensor | None = None,
    dtype_kv: str | None = None, k_scale: torch.Tensor | None = None, v_scale: torch.Tensor | None = None,
    layout: str = "bshd", stream: int | None = None,
) -> torch.Tensor | None:  # fmt: skip
    """attile.append_kv on PyTorch's tensors, as an operator: works under torch.compile and in CUDA graphs.

    Arguments and results are those of attile.append_kv; caches of torch.float8_e4m3fn and float8_e5m2 need no dtype_kv.
    Runs on the current stream unless one is given. Has no gradients: a tensor that requires one is refused.
    """
    if stream is not None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=k.device)):
            return append_kv(
                k, v, k_cache, v_cache, sequences=sequences, slots=slots, positions=positions, q=q, rope=rope,
                rope_dim=rope_dim, rope_base=rope_base, rope_cos=rope_cos, rope_sin=rope_sin, dtype_kv=dtype_kv,
                k_scale=k_scale, v_scale=v_scale, layout=layout,
            )  # fmt: skip
    *arrays, max_len_q, max_len_kv = sequences or Sequences()
    q_out: torch.Tensor = _operator(
        k, v, k_cache, v_cache, q, *arrays, slots, positions, rope_cos, rope_sin, k_scale, v_scale, rope, rope_dim,
        rope_base, dtype_kv, layout, max_len_q, max_len_kv,
    )  # fmt: skip
    return None if q is None else q_out


def _run(*arguments: Any) -> torch.Tensor:
    given = {name: one for name, one in zip(_GIVEN, arguments) if one is not None}
    if wants_gradients(*given.values()):
        raise errors.NoBackward(
            "append_kv is given a tensor that requires a gradient, and has none; use torch.no_grad()"
        )
    rest = arguments[len(_GIVEN) :]
    k, q = given["k"], given.get("q")
    q_out = _fake(*arguments)
    if q is not None:
        given["q_out"] = q_out
    key: Any = (
        *((name, one.shape, one.stride(), one.dtype, one.get_device()) for name, one in given.items()), *rest,
    )  # fmt: skip
    append = _prepared.get(key)
    if append is None:
        *asked, max_len_q, max_len_kv = rest
        arrays = {name: given.get(name) for name in ARRAYS}
        sequences = Sequences(**arrays, max_len_q=max_len_q, max_len_kv=max_len_kv)
        said = any(one is not None for one in sequences)
        seen = {name: view(one) for name, one in given.items() if name not in ARRAYS}
        append = prepare(seen, sequences if said else None, view, Asked(*asked))
        if len(_prepared) >= PLANS:
            _prepared.clear()
        _prepared[key] = append
    index = k.get_device()
    append.launch({name: one.data_ptr() for name, one in given.items()}, 0 if index < 0 else _stream_of(index))
    return q_out


def _fake(*arguments: Any) -> torch.Tensor:
    k, q = arguments[0], arguments[_GIVEN.index("q")]
    return k.new_empty((0,)) if q is None else torch.empty(q.shape, dtype=q.dtype, device=q.device)


for _key in ("CPU", "CUDA"):
    _library.impl("append_kv", _run, _key)
_library.impl("append_kv", torch.library.fallthrough_kernel, "Autograd")
torch.library.register_fake("attile::append_kv", _fake, lib=_library)

_operator = torch.ops.attile.append_kv.default
