"""Masks and scores, each in two forms: as the text for attile, and as the functions for FlexAttention.

The functions also compute the reference, so that text and functions are checked against each other. They are created
from the parameters by name, and tanh; their indices are numbers or tensors.
"""
import dataclasses
from typing import Callable

from cases import HIDDEN, Case

WINDOW, PREFIX, CAP, DOCUMENTS = 1024, 1024, 30, 12


@dataclasses.dataclass(frozen=True)
class Rule:
    knobs: str  # knobs of the problem
    mask: Callable = lambda **_: None  # parameters -> (b, h, q, k) -> seen; None: everything is seen
    score: Callable = lambda **_: None  # parameters -> (s, b, h, q, k) -> s; None: unchanged
    numbers: tuple = ()  # (name, value); a number of positions is a quarter of the length at most
    tensors: tuple = ()  # (name, type, contents)
    by_batch: bool = False  # the mask depends on b

    def number(self, case):
        return {name: min(value, case.len_kv // 4) if isinstance(value, int) else value for name, value in self.numbers}

    def functions(self, parameters, tanh):
        return self.mask(**parameters), self.score(tanh=tanh, **parameters)


def _causal(**_):
    return lambda b, h, q, k: k <= q


def _window(window, **_):
    return lambda b, h, q, k: (k <= q) & (q - k < window)


def _prefix(prefix):
    return lambda b, h, q, k: (k <= q) | (k < prefix)


def _document(doc):
    return lambda b, h, q, k: (k <= q) & (doc[b, q] == doc[b, k])


def _alibi(slopes, **_):
    return lambda s, b, h, q, k: s + slopes[h] * (k - q)


def _softcap(cap, tanh, **_):
    return lambda s, b, h, q, k: cap * tanh(s / cap)


def _bias(values, **_):
    return lambda s, b, h, q, k: s + values[h, q, k]


RULES = {
    "causal": Rule('mask="k <= q"', _causal),
    "window": Rule('mask="k <= q and q - k < window" params="window: int"', _window, numbers=(("window", WINDOW),)),
    "prefix": Rule('mask="k <= q or k < prefix" params="prefix: int"', _prefix, numbers=(("prefix", PREFIX),)),
    "document": Rule('mask="causal and document(doc)" params="doc: int[batch, len_kv]"', _document,
                     tensors=(("doc", "int32", "documents"),), by_batch=True),
    "alibi": Rule('mask=causal score="alibi(slopes)" params="slopes: float[heads]"', _causal, _alibi,
                  tensors=(("slopes", "float32", "slopes"),)),
    "softcap": Rule('mask=causal score="softcap(cap)" params="cap: float"', _causal, _softcap,
                    numbers=(("cap", float(CAP)),)),
    "softcap_window": Rule('mask="k <= q and q - k < window" score="softcap(cap)" params="window: int, cap: float"',
                           _window, _softcap, numbers=(("window", WINDOW), ("cap", float(CAP)))),
    "bias": Rule('score="s + values[h, q, k]" params="values: bf16[heads, len_q, len_kv]"', score=_bias,
                 tensors=(("values", "bfloat16", "normal"),)),
}


@dataclasses.dataclass(frozen=True)
class RuleCase(Case):
    """A square case with its own rule. Its flops are those without a mask: only times are compared."""
    rule: str = "causal"

    def rule_name(self):
        return self.rule

    def rule_knobs(self):
        return RULES[self.rule].knobs


def documents(length):
    """Returns the document number of each position; the documents have different lengths."""
    total = DOCUMENTS * (DOCUMENTS + 1) // 2
    ends = [length * (n + 1) * (n + 2) // 2 // total for n in range(DOCUMENTS)]
    return [sum(end <= at for end in ends) for at in range(length)]


def shape(what, case):
    return {"documents": (case.batch, case.len_kv), "slopes": (case.heads,),
            "normal": (case.heads, case.len_q, case.len_kv)}[what]


def cases():
    return [RuleCase("masks", head_dim, batch, HIDDEN // head_dim, length, False, rule=rule)
            for length, batch in ((8192, 2), (32768, 1)) for head_dim in (64, 128) for rule in RULES]


def tiny():
    return [RuleCase("masks", 32, 2, 2, 40, False, rule=rule) for rule in RULES]
