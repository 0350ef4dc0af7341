"""Mask and score functions of FlexAttention -> expressions and parameters.

The functions are called once, on Symbols for batch, head, query and key. Tensors that they index become parameters; how an
index is written says what its dimension is called, so that one kernel serves all lengths.
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
    """What functions said: arguments of attile.torch.attention."""

    mask: str | None
    score: str | None
    params: Mapping[str, Any]  # {"name: type": value}
    sizes: Sizes  # for which they were traced

    def check(self, sizes: Sizes) -> None:
        """Raises ShapeError where positions or named dimensions would mean something else for these sizes."""
        square = self.sizes.len_q == self.sizes.len_kv
        if square != (sizes.len_q == sizes.len_kv):
            raise errors.ShapeError(
                f"the rule was traced for {self.sizes.len_q} queries and {self.sizes.len_kv} keys, found {sizes.len_q} and "
                f"{sizes.len_kv}; trace it again"
            )


class _Captured:
    """A tensor with some of its indices."""

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
    """Watches calls of PyTorch while a function is traced, for those in which a Symbol and a tensor meet."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.params: dict[str, Any] = {}
        self._names: dict[Any, tuple[str, str, tuple[str, ...]]] = {}
        row = "q" if sizes.len_q == sizes.len_kv else "(q - (len_kv - len_q))"
        self.b, self.h, self.k, self.row = (Symbol(text, INT) for text in ("b", "h", "k", row))
        # How an index of a dimension is written, and what the dimension is then called.
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
        """A tensor of one number becomes a parameter where it is on a GPU, or requires a gradient."""
        if isinstance(value, torch.Tensor) and value.dim() == 0 and is_kept(value):
            return self.element(value, ())
        return value

    def element(self, tensor: torch.Tensor, index: tuple[Any, ...]) -> Symbol | _Captured:
        """tensor[index], as a parameter of the rule."""
        if any(isinstance(one, slice) or one is None or one is Ellipsis for one in index):
            refuse("a slice of a tensor")
        if len(index) < tensor.dim():
            return _Captured(self, tensor, index)
        if len(index) > tensor.dim():
            refuse(f"{len(index)} indices of a tensor of {tensor.dim()} dimensions")
        texts = [self._index(one, size) for one, size in zip(index, tensor.shape)] or ["0"]
        name, kind, sizes = self._parameter(tensor, texts)
        # Whatever is computed, or read from a tensor, is held within the tensor.
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
        """(name, what it holds, how its dimensions are called)"""
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
        """A size that is none of the call's is a parameter, too: one kernel serves tensors of all sizes."""
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
    """Call the functions on symbolic values. Raises TraceError for what expressions cannot say.

    mask_mod(b, h, q, kv) and score_mod(score, b, h, q, kv) count queries and keys from 0. positions: what stands for
    q and kv instead; params: parameters that they mention.
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
    """A score of -inf is a key that is not seen. As a mask it says so before the key is loaded."""
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
