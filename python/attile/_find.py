"""Builds the problem of a call from its tensors and finds the kernel for it."""

from __future__ import annotations

from ._plan import Plan, alignment_of
from ._problem import Parameter, hints, knob_of_dtype
from ._sequences import Inputs
from ._tensor import View
from .session import session_for


def problem_of(inputs: Inputs, o: View, rule: str) -> str:
    """Returns the text of the problem that a call poses to the library. rule: as returned by rule_text."""
    q, k, v = inputs.q, inputs.k, inputs.v
    said = hints(inputs.sizes, min(alignment_of(one) for one in (q, k, v, o)))
    what = f"family=attention_forward dtype={knob_of_dtype(q.dtype, 'q')} head_dim={q.shape[3]} head_dim_v={v.shape[3]}"
    return " ".join(part for part in (what, inputs.stored, rule, inputs.layout, inputs.written, said) if part)


def plan_of(
    layout: str, inputs: Inputs, o: View, lse: View | None, scale: float | None, rule: str,
    parameters: list[Parameter], views: list[View | None], schedule: str | None,
) -> Plan:  # fmt: skip
    """Finds the kernel of a call, compiles it if necessary, and checks the call's arguments."""
    session = session_for(inputs.q.device, inputs.q.ordinal)
    handle = session.find(problem_of(inputs, o, rule), schedule)
    return Plan(session, handle, layout, inputs, o, lse, scale, parameters, views)
