"""`Sequences`: batches whose sequences have different lengths (docs/serving.md), and the checks of these arguments. The
set of arrays that is given determines the layout. On a GPU the host does not read their elements, neither in a launch
nor in this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import errors
from ._check import check_device, check_heads, check_inputs, check_shape, check_strides, check_tensors, dims_of
from ._problem import Sizes, layout_text, stored_text
from ._stored import SCALES, Stored, is_eight_bits, kv_type, scales_of
from ._tensor import View


class Sequences(NamedTuple):
    """Where the queries, keys and values of each sequence are. Arrays are int32, on the device of q. The set of arrays
    that is given determines the layout:

    padded  lengths_kv, (batch,): number of keys of each sequence; q, k and v as without sequences.
    ragged  cu_seqlens_q, (batch + 1,): where the queries of each sequence begin and the last ones end; cu_seqlens_kv is
            the same for keys. q, k, v and o are packed, (tokens, heads, head_dim), in every layout; lse is (heads,
            tokens).
    paged   lengths_kv, with or without cu_seqlens_q; k and v are (pages, page_size, kv_heads, head_dim), in layout
            "bhsd" (pages, kv_heads, page_size, head_dim). Either page_table is (batch, pages of the longest sequence),
            or page_indices has the page numbers of all sequences, one sequence after the other, and page_indptr,
            (batch + 1,), says where each sequence begins.

    max_len_q, max_len_kv: the longest sequence in queries and in keys. By default they are what the tensors have room
    for: this is always enough, but starts more blocks than are needed.
    On a CPU every call checks the numbers in the arrays. On a GPU no call does: wrong numbers read other memory.
    """

    lengths_kv: Any = None
    cu_seqlens_q: Any = None
    cu_seqlens_kv: Any = None
    page_table: Any = None
    page_indptr: Any = None
    page_indices: Any = None
    max_len_q: int | None = None
    max_len_kv: int | None = None


ARRAYS = ("lengths_kv", "cu_seqlens_q", "cu_seqlens_kv", "page_table", "page_indptr", "page_indices")

# (ragged, arrays with the page numbers) -> the arrays that attention takes. Those of an append differ in one entry.
_TABLE, _CSR = ("page_table",), ("page_indptr", "page_indices")
_OF_ATTENTION = {
    (False, ()): {"lengths_kv"},
    (False, _TABLE): {"lengths_kv", *_TABLE},
    (False, _CSR): {"lengths_kv", *_CSR},
    (True, ()): {"cu_seqlens_q", "cu_seqlens_kv"},
    (True, _TABLE): {"cu_seqlens_q", "lengths_kv", *_TABLE},
    (True, _CSR): {"cu_seqlens_q", "lengths_kv", *_CSR},
}
_OF_APPEND = {**_OF_ATTENTION, (True, ()): {"cu_seqlens_q", "lengths_kv"}}

PAGE_MOST = 1024


class Arrays(NamedTuple):
    """The arrays of a batch, checked."""

    seen: tuple[tuple[str, View], ...]  # (name in attile.h, view)
    ragged: bool
    paged: bool
    csr: bool
    batch: int
    columns: int  # page numbers in a row of page_table


class Inputs(NamedTuple):
    """The inputs of a call, checked. A packed tensor is viewed as one sequence, with a batch stride of 0."""

    sizes: Sizes  # len_q and len_kv are those of the longest sequence
    q: View
    k: View
    v: View
    stored: str  # knobs of the problem: "dtype_kv=e4m3 kv_scale=head"; "" = K and V have the type of q
    layout: str  # likewise: "layout=ragged page_size=16"; "" = dense
    arrays: tuple[tuple[str, View], ...]  # arrays of the sequences, and scales
    numbers: tuple[tuple[str, float], ...]  # other members of attile.h's struct
    packed: bool  # q and o are packed
    written: str = ""  # knobs of what the launch writes into the cache: "append=1 rope=halves"

    def out_shape(self, layout: str, width: int) -> tuple[int, ...]:
        """The shape of o, with rows of `width` elements."""
        _, head, row = dims_of(layout)
        if self.packed:
            return self.q.shape[row], self.q.shape[head], width
        return (*self.q.shape[:3], width)

    def lse_shape(self) -> tuple[int, ...]:
        if self.packed:
            return self.sizes.heads, int(dict(self.numbers)["total_q"])
        return self.sizes.batch, self.sizes.heads, self.sizes.len_q

    def outputs(self, o: View, lse: View | None, layout: str) -> tuple[View, View | None]:
        """Returns (o, lse) in the form of q: packed ones are viewed as one sequence."""
        if not self.packed:
            return o, lse
        if lse is not None:
            lse = lse._replace(shape=(1, *lse.shape), strides=(0, *lse.strides))
        return packed("out", o, layout), lse


def inputs_of(
    q: View, k: View, v: View, layout: str, sequences: Sequences | None, see: Callable[[Any], View],
    stored: Stored | None = None,
) -> Inputs:  # fmt: skip
    """Checks that tensors and sequences fit each other. see: array -> View. Raises the exceptions of check_inputs, for
    the arrays as well.

    stored: how K and V are stored in 8 bits; without it, 8 bits are refused.
    """
    kind = ""  # the type of q
    if stored is not None and (k.dtype != q.dtype or stored.dtype_kv is not None):
        kind = kv_type("k", k, stored.dtype_kv)
    if sequences is None:
        inputs = Inputs(check_inputs(q, k, v, layout, is_eight_bits(kind)), q, k, v, "", "", (), (), False)
    else:
        arrays = arrays_of(sequences, q, see, _OF_ATTENTION, "attention")
        check_tensors(q, k, v, is_eight_bits(kind))
        inputs = _inputs_of_sequences(q, k, v, layout, sequences, arrays)
    if stored is None or not (is_eight_bits(kind) or stored.k_scale is not None or stored.v_scale is not None):
        return inputs
    return _with_scales(inputs, kind, stored, layout, see)


def _with_scales(inputs: Inputs, kind: str, stored: Stored, layout: str, see: Callable[[Any], View]) -> Inputs:
    """Returns inputs with the type and the scales of an 8-bit cache."""
    _, head, row = dims_of(layout)
    if not is_eight_bits(kind):
        raise errors.InvalidArgument(f"k_scale or v_scale is given, and k is {inputs.k.dtype}; 8 bits take scales")
    blocks, kv_heads, rows = (inputs.k.shape[dim] for dim in (0, head, row))
    k_scale, v_scale = (None if one is None else see(one) for one in (stored.k_scale, stored.v_scale))
    scales = scales_of(k_scale, v_scale, inputs.q, blocks, kv_heads, rows)
    there = tuple((name, one) for name, one in zip(SCALES, (k_scale, v_scale)) if one is not None)
    return inputs._replace(
        stored=stored_text(kind, scales.kind), arrays=(*inputs.arrays, *there),
        numbers=(*inputs.numbers, *scales.strides),
    )  # fmt: skip


def _inputs_of_sequences(q: View, k: View, v: View, layout: str, sequences: Sequences, arrays: Arrays) -> Inputs:
    packed_q = packed("q", q, layout) if arrays.ragged else q
    packed_kv = arrays.ragged and not arrays.paged
    seen_k, seen_v = (packed(name, one, layout) if packed_kv else one for name, one in (("k", k), ("v", v)))
    _, head, row = dims_of(layout)
    for name, one in (("q", packed_q), ("k", seen_k), ("v", seen_v)):
        if len(one.shape) != 4:
            raise errors.ShapeError(f"{name} has shape {tuple(one.shape)}, expected four dimensions in layout {layout}")
    rows = seen_k.shape[row]
    page_size = check_page_size("k", rows) if arrays.paged else 0
    blocks = seen_k.shape[0] if arrays.paged or packed_kv else arrays.batch
    if not arrays.ragged and packed_q.shape[0] != arrays.batch:
        raise errors.ShapeError(f"q has {packed_q.shape[0]} sequences, and lengths_kv has {arrays.batch}")
    heads, kv_heads = packed_q.shape[head], seen_k.shape[head]
    check_shape("k", seen_k, layout, blocks, kv_heads, rows, q.shape[-1])
    check_shape("v", seen_v, layout, blocks, kv_heads, rows, v.shape[-1])
    check_heads(heads, kv_heads)
    len_q = longest_q(sequences, arrays, packed_q.shape[row])
    len_kv = longest_kv(sequences, arrays, rows, blocks)
    numbers = [("total_q", packed_q.shape[row])] if arrays.ragged else []
    if packed_kv:
        numbers.append(("total_kv", rows))
    if arrays.paged:
        numbers.append(("pages", blocks))
    sizes = Sizes(arrays.batch, heads, kv_heads, len_q, len_kv)
    return Inputs(sizes, packed_q, seen_k, seen_v, "", knobs_of_layout(arrays, page_size), arrays.seen,
                  (*numbers, *table_stride(arrays)), arrays.ragged)  # fmt: skip


def of_append(sequences: Sequences, k: View, see: Callable[[Any], View]) -> Arrays:
    """Checks the arrays of an append and returns them. They are on the device of k."""
    return arrays_of(sequences, k, see, _OF_APPEND, "an append")


def arrays_of(
    sequences: Sequences, beside: View, see: Callable[[Any], View], table: dict[Any, set[str]], what: str
) -> Arrays:
    """Checks that the given arrays make up a layout and fit each other, and returns them."""
    given = {name: getattr(sequences, name) for name in ARRAYS if getattr(sequences, name) is not None}
    ragged = "cu_seqlens_q" in given
    csr = any(name in given for name in _CSR)
    paged = csr or "page_table" in given
    wanted = table[ragged, _CSR if csr else _TABLE if paged else ()]
    if set(given) != wanted:
        raise errors.InvalidArgument(
            f"sequences: {what} of {'ragged' if ragged else 'padded'} sequences{' in pages' if paged else ''} takes "
            f"{' and '.join(name for name in ARRAYS if name in wanted)}, found {', '.join(given) or 'none'}"
        )
    seen = {name: see(array) for name, array in given.items()}
    for name, one in seen.items():
        _check_array(name, one, beside)
    batch = seen["cu_seqlens_q"].shape[0] - 1 if ragged else seen["lengths_kv"].shape[0]
    if batch < 1:
        raise errors.ShapeError(f"cu_seqlens_q has {batch + 1} numbers, expected one more than there are sequences")
    for name, one in seen.items():
        length = {"lengths_kv": batch, "page_table": batch, "page_indices": one.shape[0]}.get(name, batch + 1)
        if one.shape[0] != length:
            raise errors.ShapeError(
                f"{name} has shape {tuple(one.shape)}, expected {length} rows for {batch} sequences"
            )
    columns = seen["page_table"].shape[1] if "page_table" in seen else 0
    return Arrays(tuple(seen.items()), ragged, paged, csr, batch, columns)


def _check_array(name: str, one: View, beside: View) -> None:
    if one.dtype != "int32":
        raise errors.DtypeError(f"{name} is {one.dtype}, expected int32; convert it once")
    check_device(name, one, beside)
    dims = 2 if name == "page_table" else 1
    if len(one.shape) != dims:
        raise errors.ShapeError(
            f"{name} has shape {tuple(one.shape)}, expected {'one dimension' if dims == 1 else 'two'}"
        )
    check_strides(name, one)


def check_page_size(name: str, page_size: int) -> int:
    """Returns page_size, checked: a power of two up to PAGE_MOST."""
    if not 1 <= page_size <= PAGE_MOST or page_size & (page_size - 1):
        raise errors.ShapeError(f"{name} has pages of {page_size} keys, expected a power of two up to {PAGE_MOST}")
    return page_size


def packed(name: str, one: View, layout: str) -> View:
    """Views a packed tensor, (tokens, heads, dim), as one sequence in a layout."""
    if len(one.shape) != 3:
        raise errors.ShapeError(
            f"{name} has shape {tuple(one.shape)}, expected three dimensions, (tokens, heads, dim): it is packed"
        )
    order = (0, 1, 2) if dims_of(layout)[1] == 2 else (1, 0, 2)
    return one._replace(
        shape=(1, *(one.shape[i] for i in order)), strides=(0, *(one.strides[i] for i in order))
    )  # fmt: skip


def longest_q(sequences: Sequences, arrays: Arrays, rows: int) -> int:
    """The number of queries, or new tokens, of the longest sequence."""
    if sequences.max_len_q is None or not arrays.ragged:
        if sequences.max_len_q not in (None, rows):
            raise errors.ShapeError(f"max_len_q is {sequences.max_len_q}, and every sequence of q has {rows} rows")
        return rows
    return _checked("max_len_q", sequences.max_len_q)


def longest_kv(sequences: Sequences, arrays: Arrays, rows: int, blocks: int) -> int:
    """The number of keys of the longest sequence. k has `blocks` blocks of `rows` rows."""
    room = rows
    if arrays.paged:
        room = rows * (blocks if arrays.csr else arrays.columns)
    if sequences.max_len_kv is None:
        return room
    most = _checked("max_len_kv", sequences.max_len_kv)
    if arrays.paged and not arrays.csr and most > room:
        raise errors.ShapeError(
            f"page_table has room for {arrays.columns} pages of {rows} keys, and max_len_kv is {most}; expected at most "
            f"{room}"
        )
    if not arrays.paged and not arrays.ragged and most != rows:
        raise errors.ShapeError(f"max_len_kv is {most}, and every sequence of k has room for {rows} keys")
    return most


def _checked(name: str, length: int) -> int:
    if length < 0:
        raise errors.ShapeError(f"{name} is {length}, expected at least 0")
    return length


def knobs_of_layout(arrays: Arrays, page_size: int) -> str:
    return layout_text("ragged" if arrays.ragged else "padded", page_size, "csr" if arrays.csr else "table")


def table_stride(arrays: Arrays) -> tuple[tuple[str, int], ...]:
    """The row stride of page_table as a member to set; empty if page_table has at most one row or no columns."""
    for name, one in arrays.seen:
        if name == "page_table" and one.shape[0] > 1 and one.shape[1] > 0:
            if one.strides[0] < one.shape[1]:
                raise errors.LayoutError(
                    f"page_table: rows have stride {one.strides[0]}, expected at least their length; copy it"
                )
            return (("page_table_row_stride", one.strides[0]),)
    return ()
