"""Checks of a call before the library sees it: types, devices, shapes and strides of its tensors."""

from __future__ import annotations

from . import errors
from ._problem import Form, Sizes
from ._tensor import View

# The indices of (batch, head, row) among the dimensions of q, k, v and o.
LAYOUTS = {"bshd": (0, 2, 1), "bhsd": (0, 1, 2)}


def dims_of(layout: str) -> tuple[int, int, int]:
    """Returns the entry of LAYOUTS; raises LayoutError for an unknown layout."""
    if layout not in LAYOUTS:
        raise errors.LayoutError(f"layout is {layout!r}, expected one of {', '.join(LAYOUTS)}")
    return LAYOUTS[layout]


def check_inputs(q: View, k: View, v: View, layout: str, eight_bits: bool = False) -> Sizes:
    """Checks that q, k and v match in type, device, dimensions, sizes and strides. Returns the sizes of the launch.

    eight_bits: the type of k and v may differ from that of q.
    """
    batch, head, row = dims_of(layout)
    check_tensors(q, k, v, eight_bits)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if len(tensor.shape) != 4:
            raise errors.ShapeError(f"{name} has shape {tensor.shape}, expected four dimensions in layout {layout}")
    sizes = Sizes(q.shape[batch], q.shape[head], k.shape[head], q.shape[row], k.shape[row])
    check_shape("k", k, layout, sizes.batch, sizes.kv_heads, sizes.len_kv, q.shape[3])
    check_shape("v", v, layout, sizes.batch, sizes.kv_heads, sizes.len_kv, v.shape[3])
    check_heads(sizes.heads, sizes.kv_heads)
    return sizes


def check_heads(heads: int, kv_heads: int) -> None:
    if kv_heads == 0 or heads % kv_heads:
        raise errors.ShapeError(f"q has {heads} heads and k has {kv_heads}, expected a number that divides it")


def check_tensors(q: View, k: View, v: View, eight_bits: bool) -> None:
    """Checks that q, k and v have one type (K and V of 8 bits may differ), one device, and strides kernels can read."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        other, beside = ("k", k) if eight_bits and name == "v" else ("q", q)
        if tensor.dtype != beside.dtype and not (eight_bits and name == "k"):
            raise errors.DtypeError(
                f"{name} is {tensor.dtype} and {other} is {beside.dtype}, expected one type; convert one of them"
            )
        check_device(name, tensor, q)
        check_strides(name, tensor)


def check_device(name: str, tensor: View, q: View) -> None:
    if (tensor.device, tensor.ordinal) != (q.device, q.ordinal):
        raise errors.DeviceError(
            f"{name} is on {tensor.device}:{tensor.ordinal} and q on {q.device}:{q.ordinal}, expected one device"
        )


def check_strides(name: str, tensor: View) -> None:
    if not tensor.shape or 0 in tensor.shape:
        return  # NumPy gives empty arrays arbitrary strides
    if tensor.shape[-1] > 1 and tensor.strides[-1] != 1:
        raise errors.LayoutError(
            f"{name}: the last dimension has stride {tensor.strides[-1]}, expected 1; call .contiguous() on it"
        )
    if min(tensor.strides) < 0:
        raise errors.LayoutError(f"{name}: strides {tensor.strides} go backwards, expected none below 0; copy it")


def check_shape(name: str, tensor: View, layout: str, *expected: int) -> None:
    shape = shape_of(layout, *expected)
    if tuple(tensor.shape) != shape:
        raise errors.ShapeError(
            f"{name} has shape {tuple(tensor.shape)}, expected {shape} beside the others ({layout})"
        )


def shape_of(layout: str, batch: int, heads: int, length: int, width: int) -> tuple[int, int, int, int]:
    """Returns (batch, heads, length, width) in the order of the layout."""
    return (batch, length, heads, width) if dims_of(layout)[1] == 2 else (batch, heads, length, width)


def check_outputs(
    o: View, lse: View | None, q: View, o_shape: tuple[int, ...], lse_shape: tuple[int, ...], dtype_out: str
) -> None:
    for name, tensor, dtype, shape in (("out", o, dtype_out, o_shape), ("lse", lse, "float32", lse_shape)):
        if tensor is None:
            continue
        if tensor.dtype != dtype:
            raise errors.DtypeError(f"{name} is {tensor.dtype}, expected {dtype}")
        check_device(name, tensor, q)
        check_strides(name, tensor)
        if tuple(tensor.shape) != shape:
            raise errors.ShapeError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")


def check_form(q: View, v: View, stored: str, layout: str, written: str, form: Form) -> None:
    """Checks that the inputs match the kernel's problem. stored, layout, written: knobs of the call, as in Inputs."""
    if written != form.written:
        raise errors.InvalidArgument(
            f"the new tokens are those of {written or 'a problem without append'}, and the kernel is compiled for "
            f"{form.written or 'none'}"
        )
    if stored != form.stored:
        raise errors.DtypeError(
            f"k and v are those of {stored or 'a problem without dtype_kv'}, and the kernel is compiled for "
            f"{form.stored or 'k and v of the type of q'}"
        )
    if layout != form.layout:
        raise errors.ShapeError(
            f"the tensors and sequences are those of {layout or 'layout=dense'}, and the kernel is compiled for "
            f"{form.layout or 'layout=dense'}"
        )
    if q.dtype != form.dtype:
        raise errors.DtypeError(f"q is {q.dtype}, and the kernel is compiled for {form.dtype}")
    if (q.shape[3], v.shape[3]) != (form.head_dim, form.head_dim_v):
        raise errors.ShapeError(
            f"q and v have head dimensions {q.shape[3]} and {v.shape[3]}, and the kernel is compiled for "
            f"{form.head_dim} and {form.head_dim_v}"
        )
