"""Symbolic values: a mask or score function is called on them, so that it writes down what it computes.

A Symbol is a part of an expression (docs/expressions.md): its text, fully parenthesised, and its kind, a condition, an
integer or a real. Python's operators and PyTorch's functions on Symbols make larger ones; both use the one table
OPERATIONS. An operation that is not in it is refused with its name and the line that uses it.
"""

from __future__ import annotations

import linecache
import math
import os
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from .. import errors

BOOL, INT, REAL = "condition", "integer", "real"
_LIBRARIES = (os.path.dirname(__file__), os.path.dirname(torch.__file__))


def refuse(what: str) -> NoReturn:
    """Raises TraceError, with the line of the function that is traced."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).strip()
    raise errors.TraceError(
        f"{file}:{line}: {what} cannot be said in an expression (docs/expressions.md has what can)\n    {text}"
    )


class Symbol:
    """A part of an expression."""

    __slots__ = ("choice", "kind", "text")

    def __init__(self, text: str, kind: str, choice: tuple[Symbol, Symbol, Symbol] | None = None) -> None:
        self.text, self.kind = text, kind
        self.choice = choice  # (condition, value if true, value if false) of a where

    def __repr__(self) -> str:
        return f"<{self.kind} {self.text}>"

    def uses_score(self) -> bool:
        return re.search(r"\bs\b", self.text) is not None

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return apply(getattr(function, "__name__", str(function)), args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        """Methods are the functions of the same name: x.tanh() is torch.tanh(x)."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("dtype", "device", "shape", "ndim"):
            return {
                "dtype": {BOOL: torch.bool, INT: torch.int32, REAL: torch.float32}[self.kind],
                "device": torch.device("cpu"),
                "shape": torch.Size(()),
                "ndim": 0,
            }[name]
        return lambda *args, **kwargs: apply(name, (self, *args), kwargs)

    def _no_value(self, *_: Any) -> NoReturn:
        refuse(
            "a Python decision or number made of a symbolic value (`if`, `and`, int(), a loop; use &, |, torch.where)"
        )

    __bool__ = __int__ = __float__ = __index__ = __iter__ = __len__ = _no_value
    __hash__ = object.__hash__


def is_kept(number: torch.Tensor) -> bool:
    """True if a tensor of one number becomes a parameter, unread: it is on a GPU, or requires a gradient."""
    return bool(number.device.type != "cpu" or number.requires_grad)


def _make_operator(name: str) -> Callable[..., Any]:
    def operate(self: Symbol, *others: Any) -> Any:
        if others and isinstance(others[0], torch.Tensor) and others[0].dim() == 0 and is_kept(others[0]):
            return NotImplemented  # the tensor's own operator calls the trace, which makes it a parameter
        return apply(name, (self, *others), {})

    return operate


for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "radd", "rsub",
    "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rand", "ror", "rxor", "rlshift", "rrshift", "lt", "le", "gt", "ge",
    "eq", "ne", "neg", "pos", "abs", "invert",
):  # fmt: skip
    setattr(Symbol, f"__{_name}__", _make_operator(_name))


def constant(value: Any) -> Symbol:
    """Writes a number, or a tensor of one element in CPU memory, as a Symbol."""
    if isinstance(value, Symbol):
        return value
    if isinstance(value, torch.Tensor):
        if value.dim() or value.device.type != "cpu":
            refuse(f"a whole tensor of shape {tuple(value.shape)} beside one query and one key; index it")
        value = value.item()
    if isinstance(value, bool):
        return Symbol("true" if value else "false", BOOL)
    if isinstance(value, int):
        return Symbol(str(value) if value >= 0 else f"(-{-value})", INT)
    if not hasattr(value, "__float__"):
        refuse(f"a {type(value).__name__}")
    number = float(value)
    if math.isnan(number):
        refuse("NaN")
    text = "inf" if math.isinf(number) else repr(abs(number))
    return Symbol(text if number >= 0 else f"(-{text})", REAL)


# --- the operations, on Symbols -------------------------------------------------------------------------------------


def _number(x: Symbol) -> Symbol:
    """Converts a condition to 1 or 0; returns other Symbols unchanged."""
    return Symbol(f"(1 if {x.text} else 0)", INT) if x.kind == BOOL else x


def _condition(x: Symbol) -> Symbol:
    return x if x.kind == BOOL else Symbol(f"({x.text} != 0)", BOOL)


def _real(x: Symbol) -> Symbol:
    x = _number(x)
    return x if x.kind == REAL else Symbol(f"real({x.text})", REAL)


def _wider(*values: Symbol) -> str:
    return REAL if any(one.kind == REAL for one in values) else INT


def _arithmetic(sign: str) -> Callable[..., Symbol]:
    def make(a: Symbol, b: Symbol, alpha: Symbol | None = None) -> Symbol:
        a, b = _number(a), _number(b)
        if alpha is not None and alpha.text != "1":
            b = Symbol(f"({b.text} * {alpha.text})", _wider(b, alpha))
        return Symbol(f"({a.text} {sign} {b.text})", REAL if sign == "/" else _wider(a, b))

    return make


def _floor_divide(a: Symbol, b: Symbol) -> Symbol:
    a, b = _number(a), _number(b)
    if _wider(a, b) == REAL:
        return Symbol(f"floor({a.text} / {b.text})", INT)
    return Symbol(f"({a.text} // {b.text})", INT)


def _divide(a: Symbol, b: Symbol, rounding_mode: str | None = None) -> Symbol:
    if rounding_mode == "floor":
        return _floor_divide(a, b)
    quotient = _arithmetic("/")(a, b)
    return _truncate(quotient) if rounding_mode == "trunc" else quotient


def _remainder(a: Symbol, b: Symbol) -> Symbol:
    a, b = _number(a), _number(b)
    if _wider(a, b) == REAL:
        return Symbol(f"({a.text} - floor({a.text} / {b.text}) * {b.text})", REAL)
    return Symbol(f"({a.text} % {b.text})", INT)


def _compare(sign: str) -> Callable[[Symbol, Symbol], Symbol]:
    def make(a: Symbol, b: Symbol) -> Symbol:
        if not (sign in ("==", "!=") and a.kind == b.kind == BOOL):
            a, b = _number(a), _number(b)
        return Symbol(f"({a.text} {sign} {b.text})", BOOL)

    return make


def _bits(word: str, sign: str) -> Callable[[Symbol, Symbol], Symbol]:
    """Joins two conditions by `word`, two integers by `sign`."""

    def make(a: Symbol, b: Symbol) -> Symbol:
        if a.kind == b.kind == BOOL:
            return Symbol(f"({a.text} {word} {b.text})", BOOL)
        a, b = _number(a), _number(b)
        if _wider(a, b) == REAL:
            refuse(f"{sign} of a real")
        return Symbol(f"({a.text} {sign} {b.text})", INT)

    return make


def _both(word: str) -> Callable[[Symbol, Symbol], Symbol]:
    return lambda a, b: Symbol(f"({_condition(a).text} {word} {_condition(b).text})", BOOL)


def _shift(sign: str) -> Callable[[Symbol, Symbol], Symbol]:
    return lambda a, b: Symbol(f"({_number(a).text} {sign} {_number(b).text})", INT)


def _not(x: Symbol) -> Symbol:
    return Symbol(f"(not {x.text})", BOOL) if x.kind == BOOL else Symbol(f"(~{x.text})", INT)


def _negative(x: Symbol) -> Symbol:
    x = _number(x)
    return Symbol(f"(-{x.text})", x.kind)


def _function(name: str) -> Callable[[Symbol], Symbol]:
    return lambda x: Symbol(f"{name}({_real(x).text})", REAL)


def _of_real(text: str) -> Callable[[Symbol], Symbol]:
    """`text` with a real for $."""
    return lambda x: Symbol(text.replace("$", _real(x).text), REAL)


def _floor(x: Symbol) -> Symbol:
    return Symbol(f"floor({x.text})", INT) if x.kind == REAL else _number(x)


def _truncate(x: Symbol) -> Symbol:
    if x.kind != REAL:
        return _number(x)
    return Symbol(f"(floor({x.text}) if {x.text} >= 0 else -floor(-{x.text}))", INT)


def _power(base: Symbol, exponent: Symbol) -> Symbol:
    base = _number(base)
    if exponent.kind == INT and exponent.text.isdigit() and int(exponent.text) <= 8:
        product = " * ".join([base.text] * int(exponent.text)) or "1"
        return Symbol(f"({product})", base.kind)
    if exponent.text == "0.5":
        return Symbol(f"sqrt({_real(base).text})", REAL)
    if re.fullmatch(r"[\d.e+-]+", base.text) and float(base.text) > 0:
        return Symbol(f"exp({_real(exponent).text} * {constant(math.log(float(base.text))).text})", REAL)
    return refuse(f"the power {exponent.text} of a symbolic value")


def _where(condition: Symbol, a: Symbol, b: Symbol) -> Symbol:
    condition = _condition(condition)
    if not a.kind == b.kind == BOOL:
        a, b = _number(a), _number(b)
        if _wider(a, b) == REAL:
            a, b = _real(a), _real(b)
    return Symbol(f"({a.text} if {condition.text} else {b.text})", a.kind, (condition, a, b))


def _choose(name: str) -> Callable[[Symbol, Symbol], Symbol]:
    def make(a: Symbol, b: Symbol) -> Symbol:
        a, b = _number(a), _number(b)
        return Symbol(f"{name}({a.text}, {b.text})", _wider(a, b))

    return make


def _clamp(x: Symbol, min: Symbol | None = None, max: Symbol | None = None) -> Symbol:
    if min is not None:
        x = _choose("max")(x, min)
    return x if max is None else _choose("min")(x, max)


def _absolute(x: Symbol) -> Symbol:
    x = _number(x)
    return Symbol(f"abs({x.text})", x.kind)


def _convert(x: Symbol, *args: Any, dtype: Any = None, **_: Any) -> Symbol:
    """Converts to bool, integer or real. A real becomes fp32 whatever the type in PyTorch: kernels compute in fp32."""
    wanted = dtype or next((one for one in args if isinstance(one, (torch.dtype, Symbol))), None)
    if isinstance(wanted, Symbol):
        wanted = wanted.dtype
    if wanted is None:
        return x
    if wanted == torch.bool:
        return _condition(x)
    return _real(x) if wanted.is_floating_point else _truncate(x)


def _filled(value: Any) -> Callable[..., Symbol]:
    """zeros_like and similar functions."""

    def make(x: Symbol, *args: Any, dtype: Any = None, **_: Any) -> Symbol:
        found = constant(value)
        return _convert(found, dtype or x.dtype)

    return make


def _full(x: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    return constant(kwargs.get("fill_value", args[-1] if args else None))


def _same(x: Symbol, *_: Any, **__: Any) -> Symbol:
    return x


# Keys are the names of Python's operators and of PyTorch's functions, without leading and trailing underscores.
OPERATIONS: dict[str, Callable[..., Symbol]] = {
    "add": _arithmetic("+"), "sub": _arithmetic("-"), "subtract": _arithmetic("-"), "mul": _arithmetic("*"),
    "multiply": _arithmetic("*"), "truediv": _arithmetic("/"), "div": _divide, "divide": _divide,
    "true_divide": _arithmetic("/"), "floordiv": _floor_divide, "floor_divide": _floor_divide, "mod": _remainder,
    "remainder": _remainder, "pow": _power, "neg": _negative, "negative": _negative, "pos": _number,
    "lt": _compare("<"), "less": _compare("<"), "le": _compare("<="), "less_equal": _compare("<="), "gt": _compare(">"),
    "greater": _compare(">"), "ge": _compare(">="), "greater_equal": _compare(">="), "eq": _compare("=="),
    "ne": _compare("!="), "not_equal": _compare("!="),
    "and": _bits("and", "&"), "bitwise_and": _bits("and", "&"), "or": _bits("or", "|"), "bitwise_or": _bits("or", "|"),
    "xor": _bits("!=", "^"), "bitwise_xor": _bits("!=", "^"), "logical_and": _both("and"), "logical_or": _both("or"),
    "logical_xor": _both("!="), "invert": _not, "bitwise_not": _not, "logical_not": lambda x: _not(_condition(x)),
    "lshift": _shift("<<"), "bitwise_left_shift": _shift("<<"), "rshift": _shift(">>"), "bitwise_right_shift": _shift(">>"),
    "where": _where, "minimum": _choose("min"), "maximum": _choose("max"), "min": _choose("min"), "max": _choose("max"),
    "fmin": _choose("min"), "fmax": _choose("max"), "clamp": _clamp, "clip": _clamp, "clamp_min": _clamp,
    "clamp_max": lambda x, max: _clamp(x, None, max), "abs": _absolute, "absolute": _absolute,
    "exp": _function("exp"), "log": _function("log"), "sqrt": _function("sqrt"), "tanh": _function("tanh"),
    "sigmoid": _function("sigmoid"), "expit": _function("sigmoid"), "exp2": _of_real("exp($ * 0.6931471805599453)"),
    "log2": _of_real("(log($) * 1.4426950408889634)"), "log10": _of_real("(log($) * 0.4342944819032518)"),
    "rsqrt": _of_real("(1.0 / sqrt($))"), "reciprocal": _of_real("(1.0 / $)"), "square": lambda x: _power(x, constant(2)),
    "relu": lambda x: _choose("max")(x, constant(0)), "silu": _of_real("($ * sigmoid($))"),
    "softplus": _of_real("log(1.0 + exp($))"), "floor": lambda x: _real(_floor(x)),
    "ceil": lambda x: _real(_negative(_floor(_negative(x)))), "trunc": lambda x: _real(_truncate(x)),
    "sign": lambda x: Symbol(f"(1 if {_number(x).text} > 0 else ((-1) if {_number(x).text} < 0 else 0))", INT),
    "to": _convert, "type": _convert, "type_as": _convert, "float": _real, "double": _real, "half": _real,
    "bfloat16": _real, "int": _truncate, "long": _truncate, "short": _truncate, "bool": _condition,
    "zeros_like": _filled(0), "ones_like": _filled(1), "new_zeros": _filled(0), "new_ones": _filled(1),
    "full_like": _full, "new_full": _full, "clone": _same, "detach": _same, "contiguous": _same,
}  # fmt: skip

# Operations whose arguments besides Symbols, such as types and sizes, stay as they are.
_RAW = {"to", "type", "type_as", "zeros_like", "ones_like", "new_zeros", "new_ones", "full_like", "new_full", "clone",
        "contiguous"}  # fmt: skip


def apply(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Symbol:
    """Applies the operation of that name to Symbols, numbers and None."""
    plain = name.strip("_")
    if plain not in OPERATIONS and plain.startswith("r") and plain[1:] in OPERATIONS:
        plain, args = plain[1:], tuple(reversed(args))
    if plain not in OPERATIONS:
        refuse(f"`{plain}`")
    if plain not in _RAW:
        keep = ("rounding_mode",)
        args = tuple(one if one is None else constant(one) for one in args)
        kwargs = {key: one if one is None or key in keep else constant(one) for key, one in kwargs.items()}
        kwargs = {{"input": "x", "other": "b"}.get(key, key): one for key, one in kwargs.items() if key != "out"}
    try:
        return OPERATIONS[plain](*args, **kwargs)
    except TypeError as error:
        if isinstance(error, errors.TraceError):
            raise
        refuse(f"`{plain}` with these arguments ({error})")
