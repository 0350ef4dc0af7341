"""Problems as the library reads them: "family=attention_forward dtype=bf16 head_dim=96 mask='k <= q'".

A call of `attention` becomes such a text. For `Kernel`, the properties of the tensors are read back from the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import errors
from ._tensor import View

DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}  # {type of q, k, v and o: its name in knobs}
_DTYPE_OF = {knob: dtype for dtype, knob in DTYPES.items()}
# int64 is read in place through its lower halves; unsigned bytes are bool's storage.
_PARAM_TYPES = {"bool": "bool", "int32": "int", "int64": "int", "float32": "float", "float16": "fp16",
                "bfloat16": "bf16"}  # fmt: skip

_PLAIN = re.compile(r"[\w.+-]+")  # at module level, since torch.compile cannot trace the compilation of an expression

Problem = str | Mapping[str, object]


class Parameter(NamedTuple):
    """A parameter of a mask or a score, set at launch."""

    name: str
    declared: str  # "int", "float[heads]", ...
    value: Any  # a bool, int or float, or a tensor


class Sizes(NamedTuple):
    """The sizes of one launch, named as in the expressions."""

    batch: int
    heads: int
    kv_heads: int
    len_q: int
    len_kv: int


def as_text(problem: Problem) -> str:
    """Converts a problem given as knobs, {"dtype": "bf16", "mask": "k <= q"}, to text; a text stays as it is."""
    if isinstance(problem, str):
        return problem
    return " ".join(f"{name}={quoted(str(value))}" for name, value in problem.items())


def quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    if "'" in value and '"' in value:
        raise errors.InvalidText(f"an expression cannot have both kinds of quotes: {value}")
    return f'"{value}"' if "'" in value else f"'{value}'"


def knobs_of(problem: str) -> dict[str, str]:
    """The knobs that a text names. The library checks what they mean."""
    found = re.findall(r"""(\w+)\s*[=:]\s*('[^']*'|"[^"]*"|[^\s,]+)""", problem)
    return {name: value.strip("'\"") for name, value in found}


class Form(NamedTuple):
    """The properties of the tensors that a kernel's problem fixes."""

    dtype: str  # "float32", ...
    dtype_out: str
    head_dim: int
    head_dim_v: int
    layout: str  # knobs of the layout, in the form of Inputs.layout; "" = dense
    stored: str  # knobs of K and V in 8 bits, in the form of Inputs.stored; "" = as q
    written: str  # knobs of what a launch writes into the cache, in the form of Inputs.written; "" = nothing


# Added to every problem that leaves them out, so that nothing here depends on the library's defaults.
DEFAULTS = {"dtype": "fp32", "head_dim": "64"}


def form_of(knobs: Mapping[str, str]) -> Form:
    """The Form of a problem that the library has accepted, so its values are valid."""
    knobs = {**DEFAULTS, **knobs}
    head_dim = int(knobs["head_dim"])
    return Form(_DTYPE_OF[knobs["dtype"]], _DTYPE_OF[knobs.get("dtype_out", knobs["dtype"])], head_dim,
                int(knobs.get("head_dim_v", head_dim)), _layout_in(knobs), _stored_in(knobs),
                _written_in(knobs))  # fmt: skip


def _layout_in(knobs: Mapping[str, str]) -> str:
    layout, page_size = knobs.get("layout", "dense"), int(knobs.get("page_size", "0"))
    return "" if layout == "dense" else layout_text(layout, page_size, knobs.get("page_table", "table"))


def _stored_in(knobs: Mapping[str, str]) -> str:
    dtype_kv = knobs.get("dtype_kv", knobs["dtype"])
    return "" if dtype_kv == knobs["dtype"] else stored_text(dtype_kv, knobs.get("kv_scale", "none"))


def _written_in(knobs: Mapping[str, str]) -> str:
    if knobs.get("append", "0") == "0":
        return ""
    rope, rope_dim = knobs.get("rope", "none"), knobs.get("rope_dim", "0")
    own_dim = rope_dim not in ("0", knobs["head_dim"])
    said = ("append=1", f"rope={rope}" * (rope != "none"), f"rope_dim={rope_dim}" * own_dim,
            "rope_from=tables" * (knobs.get("rope_from") == "tables"))  # fmt: skip
    return " ".join(part for part in said if part)


def stored_text(dtype_kv: str, kv_scale: str) -> str:
    """The part of a problem that specifies how K and V are stored."""
    return f"dtype_kv={dtype_kv} kv_scale={kv_scale}"


def layout_text(layout: str, page_size: int, page_table: str) -> str:
    """The part of a problem that specifies where the sequences are."""
    return f"layout={layout} page_size={page_size} page_table={page_table}" if page_size else f"layout={layout}"


def declared_in(problem: str) -> list[tuple[str, str]]:
    """[(name, type)] of the parameters that a text declares, in their order; the sinks come last."""
    knobs = knobs_of(problem)
    parts, depth = [""], 0
    for letter in knobs.get("params", ""):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    pairs = [part.partition(":") for part in parts if part.strip()]
    sinks = [("sinks", "float[heads]")] if knobs.get("sinks", "0") != "0" else []
    return [(name.strip(), kind.strip()) for name, _, kind in pairs] + sinks


def knob_of_dtype(dtype: str, name: str) -> str:
    if dtype not in DTYPES:
        raise errors.DtypeError(f"{name} is {dtype}, expected one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def rule_text(mask: str | None, score: str | None, parameters: list[Parameter]) -> str:
    """The part of a problem that specifies mask, score and parameters."""
    parts = []
    if mask is not None:
        parts.append(f"mask={quoted(mask)}")
    if score is not None:
        parts.append(f"score={quoted(score)}")
    declared = [f"{one.name}: {one.declared}" for one in parameters if one.name != "sinks"]
    if declared:
        parts.append(f"params='{', '.join(declared)}'")
    if len(declared) < len(parameters):
        parts.append("sinks=1")
    return " ".join(parts)


def declare(params: Mapping[str, Any] | None, sizes: Sizes, view: Any) -> list[Parameter]:
    """Converts {name: value} or {"name: type": value} to Parameters.

    Without a type, the value determines it: a number is bool, int or float; each dimension of a tensor is named after
    the member of `sizes` that it equals, or else is a number, and every different number makes a kernel of its own.
    view: tensor -> View. Raises ParameterError for a value that is neither number nor tensor.
    """
    found = []
    for key, value in (params or {}).items():
        name, colon, declared = (part.strip() for part in key.partition(":"))
        found.append(Parameter(name, declared if colon else _declaration(name, value, sizes, view), value))
    return found


def _declaration(name: str, value: Any, sizes: Sizes, view: Any) -> str:
    for kind, word in ((bool, "bool"), (int, "int"), (float, "float")):
        if isinstance(value, kind):
            return word
    try:
        seen: View = view(value)
    except errors.TensorError:
        raise errors.ParameterError(
            f"parameter {name} is a {type(value).__name__}, expected a bool, int, float or tensor"
        ) from None
    named = {size: word for word, size in reversed(list(sizes._asdict().items()))}
    dims = ", ".join(str(named.get(size, size)) for size in seen.shape)
    return f"{param_type(name, seen.dtype)}[{dims}]"


def param_type(name: str, dtype: str) -> str:
    """The name of a tensor's element type in expressions."""
    if dtype not in _PARAM_TYPES:
        raise errors.DtypeError(
            f"parameter {name} is {dtype}, expected one of {', '.join(_PARAM_TYPES)}; convert it once, before the calls"
        )
    return _PARAM_TYPES[dtype]


def hints(sizes: Sizes, alignment: int, counts_tiles: bool = False) -> str:
    """The hints that the choice of a kernel may use. Lengths are rounded up to one of four steps to each power of two,
    so that a sequence that grows token by token asks for few kernels. counts_tiles: for
    gradients, whose choice depends on the number of tiles. Lengths up to 2048 are then rounded to 32, which divides the
    size of every tile."""

    def rounded(length: int) -> int:
        step = max(16, 1 << (length - 1).bit_length()) // 8  # 256, 320, 384, 448, 512, 640, ...
        if counts_tiles and length <= 2048:
            step = min(step, 32)
        return max(16, -(-length // step) * step)

    said = (f"batch={sizes.batch} heads={sizes.heads} kv_heads={sizes.kv_heads} "
            f"len_q={rounded(sizes.len_q)} len_kv={rounded(sizes.len_kv)}")  # fmt: skip
    return said if alignment >= 16 else f"{said} alignment={alignment}"
