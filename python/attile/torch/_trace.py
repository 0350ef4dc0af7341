"""Traces mask and score functions of FlexAttention to expressions and parameters.

The functions are called once, on Symbols for batch, head, query and key. Tensors that they index become parameters; the
text of an index determines the name of its dimension, so that one kernel serves all lengths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .. import errors
from .._problem import Sizes
from ._attention import _TYPES
from ._symbol import BOOL, INT, REAL, Symbol, apply, constant, is_kept, refuse

_KINDS = {"bool": BOOL, "int": INT, "float": REAL, "fp16": REAL, "bf16": REAL}


@dataclasses.dataclass(frozen=True)
class Rule:
    """The result of tracing: arguments of attile.torch.attention."""

    mask: str | None
    score: str | None
    params: Mapping[str, Any]  # {"name: type": value}
    sizes: Sizes  # for which the functions were traced

    def check(self, sizes: Sizes) -> None:
        """Raises ShapeError if positions or named dimensions would mean something else for these sizes."""
        square = self.sizes.len_q == self.sizes.len_kv
        if square != (sizes.len_q == sizes.len_kv):
            raise errors.ShapeError(
                f"the rule was traced for {self.sizes.len_q} queries and {self.sizes.len_kv} keys, found {sizes.len_q} and "
                f"{sizes.len_kv}; trace it again"
            )


class _Captured:
    """A tensor with only some of its indices given so far."""

    def __init__(self, trace: _Trace, tensor: torch.Tensor, indices: tuple[Any, ...]) -> None:
        self.trace, self.tensor, self.indices = trace, tensor, indices

    def __getitem__(self, index: Any) -> Any:
        return self.trace.element(self.tensor, self.indices + (index if isinstance(index, tuple) else (index,)))

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        refuse(f"`{getattr(function, '__name__', function)}` of a row of a tensor; index it further")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"`{name}` of a row of a tensor; index it further")


class _Trace(TorchFunctionMode):
    """Intercepts calls of PyTorch while a function is traced, for those that combine a Symbol with a tensor."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.params: dict[str, Any] = {}
        self._names: dict[Any, tuple[str, str, tuple[str, ...]]] = {}
        row = "q" if sizes.len_q == sizes.len_kv else "(q - (len_kv - len_q))"
        self.b, self.h, self.k, self.row = (Symbol(text, INT) for text in ("b", "h", "k", row))
        # {text of an index: (name of its dimension, size)}
        self._dimensions = {
            "b": ("batch", sizes.batch), "h": ("heads", sizes.heads), "k": ("len_kv", sizes.len_kv),
            row: ("len_kv" if sizes.len_q == sizes.len_kv else "len_q", sizes.len_q),
        }  # fmt: skip

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", str(function))
        if name == "__getitem__" and isinstance(args[0], torch.Tensor):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(one, (Symbol, _Captured)) for one in index):
                return self.element(args[0], index)
        flat = [*args, *kwargs.values()]
        if any(isinstance(one, Symbol) for one in flat):
            args = tuple(self._scalar(one) for one in args)
            kwargs = {key: self._scalar(one) for key, one in kwargs.items()}
            return apply(name, args, kwargs)
        return function(*args, **kwargs)

    def _scalar(self, value: Any) -> Any:
        """Makes a tensor of one number a parameter if it is on a GPU or requires a gradient."""
        if isinstance(value, torch.Tensor) and value.dim() == 0 and is_kept(value):
            return self.element(value, ())
        return value

    def element(self, tensor: torch.Tensor, index: tuple[Any, ...]) -> Symbol | _Captured:
        """Returns tensor[index], with the tensor as a parameter of the rule."""
        if any(isinstance(one, slice) or one is None or one is Ellipsis for one in index):
            refuse("a slice of a tensor")
        if len(index) < tensor.dim():
            return _Captured(self, tensor, index)
        if len(index) > tensor.dim():
            refuse(f"{len(index)} indices of a tensor of {tensor.dim()} dimensions")
        texts = [self._index(one, size) for one, size in zip(index, tensor.shape)] or ["0"]
        name, kind, sizes = self._parameter(tensor, texts)
        # Indices that are computed, or read from a tensor, are clamped to the bounds of the tensor.
        held = [
            text if text in self._dimensions or text.isdigit() else f"clamp({text}, 0, {size} - 1)"
            for text, size in zip(texts, sizes)
        ]
        return Symbol(f"{name}[{', '.join(held)}]", kind)

    def _index(self, index: Any, size: int) -> str:
        found = constant(self._scalar(index))
        if found.kind != INT:
            refuse(f"a {found.kind} as an index")
        return str(index + size) if isinstance(index, int) and index < 0 else found.text

    def _parameter(self, tensor: torch.Tensor, texts: list[str]) -> tuple[str, str, tuple[str, ...]]:
        """Returns (name, kind of its elements, names of its dimensions)."""
        if tensor.dtype not in _TYPES:
            raise errors.DtypeError(
                f"a tensor that the function captures is {tensor.dtype}, expected one of "
                f"{', '.join(map(str, _TYPES))}; convert it once, outside of the function"
            )
        storage = _TYPES[tensor.dtype]
        known = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if known not in self._names:
            name = f"t{len(self._names)}"
            sizes = tuple(
                self._dimension(f"{name}_{i}", text, size)
                for i, (text, size) in enumerate(zip(texts, tuple(tensor.shape) or (1,)))
            )
            self._names[known] = (name, _KINDS[storage], sizes)
            self.params[f"{name}: {storage}[{', '.join(sizes)}]"] = tensor.reshape(1) if tensor.dim() == 0 else tensor
        return self._names[known]

    def _dimension(self, name: str, text: str, size: int) -> str:
        """Returns the name of a dimension. A size that is not one of the call's becomes a parameter, too, so that one
        kernel serves tensors of all sizes."""
        word, length = self._dimensions.get(text, ("", -1))
        if size == length:
            return word
        if size == 1:
            return "1"
        self.params[f"{name}: int"] = size
        return name


def trace(
    sizes: Sizes, mask_mod: Callable[..., Any] | None, score_mod: Callable[..., Any] | None,
    positions: tuple[Symbol, Symbol] | None = None, params: Mapping[str, Any] | None = None,
) -> Rule:  # fmt: skip
    """Calls the functions on symbolic values. Raises TraceError for operations that expressions cannot express.

    mask_mod(b, h, q, kv) and score_mod(score, b, h, q, kv) count queries and keys from 0. positions: Symbols to pass as
    q and kv instead; params: the parameters that these mention.
    """
    watch = _Trace(sizes)
    watch.params.update(params or {})
    where = (watch.b, watch.h, *(positions or (watch.row, watch.k)))
    with watch:
        mask = None if mask_mod is None else constant(mask_mod(*where))
        score = None if score_mod is None else constant(score_mod(Symbol("s", REAL), *where))
    if mask is not None and mask.kind != BOOL:
        raise errors.TraceError(f"the mask function gives a {mask.kind}, expected a condition: {mask.text}")
    mask, score = _lift(mask, score)
    return Rule(
        None if mask is None or mask.text == "true" else mask.text,
        None if score is None or score.text == "s" else apply("float", (score,), {}).text,
        watch.params,
        sizes,
    )  # fmt: skip


def _lift(mask: Symbol | None, score: Symbol | None) -> tuple[Symbol | None, Symbol | None]:
    """Moves conditions under which the score is -inf to the mask: such a key is not seen, and a mask tells so before
    the key is loaded."""
    while score is not None and score.choice and not score.choice[0].uses_score():
        condition, yes, no = score.choice
        if no.text == "(-inf)":
            score = yes
        elif yes.text == "(-inf)":
            condition, score = apply("invert", (condition,), {}), no
        else:
            break
        mask = condition if mask is None else apply("and", (mask, condition), {})
    return mask, score
