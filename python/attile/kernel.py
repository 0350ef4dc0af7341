"""`compile`: turns a problem into a kernel that is called on tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _library, errors
from ._check import check_form, check_outputs
from ._library import library
from ._memory import current_stream, workspace_for
from ._new_tokens import NewTokens, tensors_of, with_new
from ._plan import Launch, Plan
from ._problem import DEFAULTS, Parameter, Problem, as_text, declared_in, form_of, knobs_of
from ._sequences import ARRAYS, Sequences, inputs_of
from ._stored import SCALES, Stored
from ._tensor import View, contiguous, empty_like, is_torch, view
from .session import Session, compile_by, session_for

PLANS = 1024  # most plans that a kernel keeps; when it has as many, a further one clears them all


class KernelInfo(NamedTuple):
    """The compiler's figures for a kernel; -1 = not known (host device)."""

    registers: int  # per thread, largest of all entries
    spill_bytes: int  # per thread
    shared_bytes: int  # per block, largest of all entries
    threads: int  # per block, largest of all entries
    launches: int  # kernels that one call starts
    instructions: int  # of all entries
    binary_size: int  # bytes
    compile_seconds: float  # 0 when the kernel came from a cache or a bundle
    compiler_seconds: float  # time that the compiler took when it built the kernel
    origin: str  # "compiler", "disk" or "bundle"


def compile(
    problem: Problem, schedule: str | None = None, *, device: str = "auto", session: Session | None = None
) -> Kernel:
    """Returns the kernel for a problem, compiled and loaded.

    problem: knobs, as text, "family=attention_forward dtype=bf16 head_dim=96 mask='k <= q'", or as a mapping; family
    defaults to attention_forward. schedule: knobs for how to compute; None = the library chooses (docs/tuned.md).
    device: "auto", "cuda" or "host", unless a session is given. Kernels live as long as their session.
    Raises InvalidText, Unsupported, NoDevice, NoCompiler or CompileFailed.
    """
    text = as_text(problem)
    knobs = knobs_of(text)
    defaults = DEFAULTS if knobs.get("family", "attention_forward") == "attention_forward" else {}
    for name, value in {"family": "attention_forward", **defaults}.items():
        if name not in knobs:
            text += f" {name}={value}"
    session = session or session_for(device)
    return Kernel(session, session.find(text, schedule), text, schedule)


compile_by(lambda problem, schedule, session: compile(problem, schedule, session=session))


class Kernel:
    """A kernel of a session, compiled and loaded. Several threads may call it."""

    def __init__(self, session: Session, handle: int, problem: str, schedule: str | None) -> None:
        self.session, self.handle, self.problem, self.schedule = session, handle, problem, schedule
        self._knobs = knobs_of(problem)
        self._plans: dict[Any, Plan] = {}

    def __repr__(self) -> str:
        return f"<attile.Kernel {self.name}>"

    @property
    def name(self) -> str:
        """An identifier that includes every knob."""
        return library.att_kernel_name(self.handle).decode()  # type: ignore[no-any-return]

    @property
    def source(self) -> str:
        """The CUDA source that was compiled; "" for a kernel from a bundle."""
        return library.att_kernel_source(self.handle).decode()  # type: ignore[no-any-return]

    @property
    def info(self) -> KernelInfo:
        """The compiler's figures for this kernel."""
        found = _library.KernelInfo(size=ctypes.sizeof(_library.KernelInfo))
        self.session.check(library.att_kernel_describe(self.handle, ctypes.byref(found)))
        values = [getattr(found, name) for name in KernelInfo._fields]
        return KernelInfo._make([*values[:-1], values[-1].decode()])

    def workspace_size(
        self, q: Any, k: Any, v: Any, *, params: Mapping[str, Any] | None = None, layout: str = "bhsd",
        sequences: Sequences | None = None, k_scale: Any = None, v_scale: Any = None,
    ) -> int:  # fmt: skip
        """The bytes of workspace that a call on tensors like these needs. Their elements are not read."""
        return self.plan(
            q, k, v, params=params, layout=layout, sequences=sequences, k_scale=k_scale, v_scale=v_scale
        ).workspace_size

    def __call__(
        self, q: Any, k: Any, v: Any, out: Any = None, lse: Any = None, *, scale: float | None = None,
        params: Mapping[str, Any] | None = None, stream: int | None = None, workspace: Any = None,
        layout: str = "bhsd", sequences: Sequences | None = None, k_scale: Any = None, v_scale: Any = None,
        new: NewTokens | None = None,
    ) -> Any:  # fmt: skip
        """Starts out = softmax(score(scale q k^T)) v on a stream; returns out.

        q: (batch, heads, len_q, head_dim); k: (batch, kv_heads, len_kv, head_dim); v: (batch, kv_heads, len_kv,
        head_dim_v); out: (batch, heads, len_q, head_dim_v); in layout "bshd" lengths come before heads. Any strides
        with a contiguous last dimension. out: created if None. lse: (batch, heads, len_q) of fp32, filled unless None.
        scale: None = 1 / sqrt(head_dim). params: {name: number or tensor}, all that the problem declares.
        stream: a CUDA stream handle; None = the current one of the library that made q. workspace: a tensor of at least
        `workspace_size` bytes; None = allocated by the call. sequences: given if the layout of the kernel's problem is
        not dense; k_scale, v_scale: if the problem has kv_scale; new: if it has append. All as for attile.attention.
        Asynchronous on a GPU: the call neither waits nor copies.
        Raises the exceptions of attile.errors before anything is started.
        """
        key = None if new else _key_of(q, k, v, out, lse, scale, params, layout, sequences, k_scale, v_scale)
        plan = self._plans.get(key) if key else None
        if plan is None:
            plan = self._plan_anew(key, q, k, v, out, lse, scale, params, layout, sequences, k_scale, v_scale, new)
        form, shape, strides, all_torch = plan.extra
        if out is None:
            same = all_torch and form.dtype_out == form.dtype
            out = q.new_empty_strided(shape, strides) if same else empty_like(q, shape, form.dtype_out)
        if stream is None:
            stream = current_stream(q)
        at = 0
        if plan.workspace_size:
            if workspace is None:
                workspace, at = workspace_for(q, view(q), plan.workspace_size)
            else:
                at = _workspace_address(workspace, plan.workspace_size)
        if all_torch and not params and not plan.arrays:  # same as the general case below, in half the time
            at_lse = 0 if lse is None else lse.data_ptr()
            plan.launch(q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), at_lse, at, (), stream)
            return out
        found = _addresses(plan, q, k, v, out, lse, params, sequences, k_scale, v_scale, new, stream)
        plan.launch(*found.tensors, at, found.params, stream, found.arrays)
        return out

    def _plan_anew(
        self, key: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, scale: float | None, params: Any, layout: str,
        sequences: Sequences | None, k_scale: Any, v_scale: Any, new: NewTokens | None,
    ) -> Plan:  # fmt: skip
        plan = self.plan(
            q, k, v, out, lse, scale=scale, params=params, layout=layout, sequences=sequences, k_scale=k_scale,
            v_scale=v_scale, new=new,
        )  # fmt: skip
        if key:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def bind(
        self, q: Any, k: Any, v: Any, out: Any, lse: Any = None, *, scale: float | None = None,
        params: Mapping[str, Any] | None = None, workspace: Any = None, layout: str = "bhsd",
        sequences: Sequences | None = None, k_scale: Any = None, v_scale: Any = None, new: NewTokens | None = None,
    ) -> Launch:  # fmt: skip
        """Returns a call on exactly these tensors, to be started often: launch = kernel.bind(...); launch(stream).

        Arguments are those of a call. workspace: a tensor, or an address of device memory. Starting the launch costs
        little more than the library's own call. The launch keeps the tensors alive.
        """
        plan = self.plan(
            q, k, v, out, lse, scale=scale, params=params, layout=layout, sequences=sequences, k_scale=k_scale,
            v_scale=v_scale, new=new,
        )  # fmt: skip
        room: object = workspace
        at = 0
        if plan.workspace_size and workspace is None:
            room, at = workspace_for(q, view(q), plan.workspace_size)
        elif plan.workspace_size:
            at = workspace if isinstance(workspace, int) else _workspace_address(workspace, plan.workspace_size)
        found = _addresses(plan, q, k, v, out, lse, params, sequences, k_scale, v_scale, new, 0)
        launch = plan.bind(*found.tensors, at, found.params, found.arrays)
        launch.kept = (found, room)
        return launch

    def plan(
        self, q: Any, k: Any, v: Any, out: Any = None, lse: Any = None, *, scale: float | None = None,
        params: Mapping[str, Any] | None = None, layout: str = "bhsd", sequences: Sequences | None = None,
        k_scale: Any = None, v_scale: Any = None, new: NewTokens | None = None,
    ) -> Plan:  # fmt: skip
        """Checks the arguments of a call and returns a Plan, for callers that repeat it with their own addresses."""
        family = self._knobs["family"]
        if family != "attention_forward":
            raise errors.InvalidArgument(f"{self.name} is of family {family}, and only attention_forward can be called")
        form = form_of(self._knobs)
        seen_k = view(k)
        dtype_kv = self._knobs.get("dtype_kv") if seen_k.dtype == "uint8" else None  # uint8 does not tell the type
        stored = Stored(dtype_kv, k_scale, v_scale)
        inputs = inputs_of(view(q), seen_k, view(v), layout, sequences, view, stored)
        inputs = with_new(inputs, new, layout, sequences, view)
        first = inputs.q
        if (first.device, first.ordinal) != (self.session.device, self.session.ordinal):
            raise errors.DeviceError(
                f"q is on {first.device}:{first.ordinal}, and the kernel is compiled for "
                f"{self.session.device}:{self.session.ordinal}; say device= or session= to compile"
            )
        check_form(first, inputs.v, inputs.stored, inputs.layout, inputs.written, form)
        shape = inputs.out_shape(layout, form.head_dim_v)
        o = view(out) if out is not None else like(first, shape, form.dtype_out)
        seen_lse = None if lse is None else view(lse)
        check_outputs(o, seen_lse, first, shape, inputs.lse_shape(), form.dtype_out)
        parameters = self._parameters(params)
        views = [None if isinstance(one.value, (bool, int, float)) else view(one.value) for one in parameters]
        plan = Plan(self.session, self.handle, layout, inputs, *inputs.outputs(o, seen_lse, layout), scale, parameters,
                    views)  # fmt: skip
        all_torch = all(one is None or is_torch(one) for one in (q, k, v, out, lse))
        plan.extra = (form, shape, o.strides, all_torch)
        return plan

    def _parameters(self, params: Mapping[str, Any] | None) -> list[Parameter]:
        """The values with the types that the problem declares."""
        declared = dict(declared_in(self.problem))
        given = dict(params or {})
        if set(declared) != set(given):
            raise errors.ParameterError(
                f"{self.name} takes the parameters {sorted(declared) or 'none'}, found {sorted(given) or 'none'}"
            )
        return [Parameter(name, declared[name], value) for name, value in given.items()]


def like(q: View, shape: tuple[int, ...], dtype: str) -> View:
    """Returns a view of a future contiguous output on the device of q; address 0 stands for any aligned address."""
    return View(0, shape, contiguous(shape), dtype, q.device, q.ordinal, None)


def _key_of(
    q: Any, k: Any, v: Any, out: Any, lse: Any, scale: float | None, params: Mapping[str, Any] | None, layout: str,
    sequences: Sequences | None, k_scale: Any, v_scale: Any,
) -> tuple[Any, ...] | None:  # fmt: skip
    """Returns a key that differs for calls that need different plans; None if that cannot be determined cheaply."""
    try:
        key: tuple[Any, ...] = (
            q.shape, q.stride(), q.dtype, q.get_device(), k.shape, k.stride(), k.dtype, k.get_device(), v.shape,
            v.stride(), v.dtype, v.get_device(), scale, layout,
        )  # fmt: skip
        key += (None,) if out is None else (out.shape, out.stride(), out.dtype, out.get_device())
    except AttributeError:  # not all are PyTorch tensors
        try:
            key = (*_form_of(q), *_form_of(k), *_form_of(v), scale, layout, None if out is None else _form_of(out))
        except AttributeError:  # one tensor is read through DLPack
            return None
    if lse is None and not params and sequences is None and k_scale is None and v_scale is None:
        return key
    try:
        key += tuple(None if one is None else _form_of(one) for one in (lse, k_scale, v_scale))
        key += () if sequences is None else (_form_of_sequences(sequences),)
    except AttributeError:
        return None
    for name, value in (params or {}).items():
        key += (name, type(value), value) if isinstance(value, (bool, int, float)) else (name, *_form_of(value))
    return key


def _form_of(tensor: Any) -> tuple[Any, ...]:
    if is_torch(tensor):
        return tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device()
    return tensor.shape, tensor.strides, tensor.dtype, getattr(tensor, "device", None)


def _form_of_sequences(sequences: Sequences) -> tuple[Any, ...]:
    return tuple(
        _form_of(one) if name in ARRAYS and one is not None else one for name, one in sequences._asdict().items()
    )


class _Found(NamedTuple):
    """Addresses for a plan, and the owners that keep the memory alive until the launch."""

    tensors: tuple[int, int, int, int, int]  # q, k, v, out, lse
    params: list[int]
    arrays: list[int]
    owners: object


def _addresses(
    plan: Plan, q: Any, k: Any, v: Any, out: Any, lse: Any, params: Mapping[str, Any] | None,
    sequences: Sequences | None, k_scale: Any, v_scale: Any, new: NewTokens | None, stream: int,
) -> _Found:  # fmt: skip
    values = list(params.values()) if params else []
    five = [(0, None) if one is None else _address(one, stream) for one in (q, k, v, out, lse)]
    at_q, at_k, at_v, at_out, at_lse = (at for at, _ in five)
    others = [_address(values[i], stream) for i in plan.tensors]
    beside = {**dict(zip(SCALES, (k_scale, v_scale))), **tensors_of(new)}
    arrays = [_address(beside.get(name, getattr(sequences, name, None)), stream) for name in plan.arrays]
    return _Found((at_q, at_k, at_v, at_out, at_lse), [at for at, _ in others], [at for at, _ in arrays],
                  (five, others, arrays))  # fmt: skip


def _address(tensor: Any, stream: int) -> tuple[int, object]:
    """Returns (address of the tensor, owner of its memory)."""
    if is_torch(tensor):
        return tensor.data_ptr(), tensor
    seen = view(tensor, stream)
    return seen.data, seen.owner


def _workspace_address(workspace: Any, needed: int) -> int:
    seen = view(workspace)
    sizes = {"uint8": 1, "int8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "int64": 8, "float64": 8}
    bytes_there = sizes.get(seen.dtype, 1)
    for size in seen.shape:
        bytes_there *= size
    if bytes_there < needed:
        raise errors.InvalidArgument(
            f"the workspace has {bytes_there} bytes, expected {needed} (Kernel.workspace_size)"
        )
    return seen.data
