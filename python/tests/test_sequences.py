"""attile.Sequences on NumPy arrays: padded, ragged and paged batches; each sequence is compared with the definition."""

import attile
import numpy as np
import pytest
import reference
from attile import errors

LENGTHS_Q, LENGTHS_KV = [5, 0, 9, 1], [20, 7, 9, 0]
HEADS, KV_HEADS, DIM, DIM_V, PAGE = 4, 2, 16, 24, 8
BATCH, PAGES = len(LENGTHS_Q), 9
RNG = np.random.default_rng(3)
RULE = {"mask": "k <= q and q - k < window", "params": {"window": 6}}


def seen(b, h, q, k):
    return (k <= q) & (q - k < 6)


def int32(numbers):
    return np.asarray(numbers, np.int32)


def sums(lengths):
    return int32(np.concatenate([[0], np.cumsum(lengths)]))


def own(lengths, heads, dim, dtype="float32"):
    """Returns a random tensor (heads, length, dim) for each sequence."""
    return [RNG.standard_normal((heads, length, dim)).astype(dtype) for length in lengths]


def pack(parts, spare=0):
    """Returns (tokens, heads, dim), followed by `spare` rows of NaN that belong to no sequence."""
    rows = [part.transpose(1, 0, 2) for part in parts]
    return np.concatenate([*rows, np.full((spare, *rows[0].shape[1:]), np.nan, rows[0].dtype)])


def pad(parts, length):
    """Returns (batch, length, heads, dim), with NaN after each sequence."""
    heads, _, dim = parts[0].shape
    whole = np.full((len(parts), length, heads, dim), np.nan, parts[0].dtype)
    for b, part in enumerate(parts):
        whole[b, : part.shape[1]] = part.transpose(1, 0, 2)
    return whole


def table_of(lengths, most):
    """Returns page numbers in random order, and -1 after those of a sequence."""
    free = iter(np.random.default_rng(7).permutation(PAGES))
    table = np.full((len(lengths), -(-most // PAGE)), -1, np.int32)
    for b, length in enumerate(lengths):
        for i in range(-(-length // PAGE)):
            table[b, i] = next(free)
    return table


def page(parts, table):
    """Returns (pages, page_size, heads, dim), with NaN where no sequence has a key."""
    heads, _, dim = parts[0].shape
    pages = np.full((PAGES, PAGE, heads, dim), np.nan, parts[0].dtype)
    for b, part in enumerate(parts):
        for i in range(part.shape[1]):
            pages[table[b, i // PAGE], i % PAGE] = part[:, i]
    return pages


def csr_of(table, lengths):
    counts = [-(-length // PAGE) for length in lengths]
    return {"page_indptr": sums(counts), "page_indices": np.concatenate([table[b, :n] for b, n in enumerate(counts)])}


class Batch:
    """The queries, keys and values of each sequence, and their tensors in a layout."""

    def __init__(self, ragged, pages, order="bshd", dtype="float32", lengths_q=LENGTHS_Q):
        lengths_q = lengths_q if ragged else [3] * BATCH
        self.ragged, self.dtype = ragged, dtype
        self.parts = own(lengths_q, HEADS, DIM, dtype), own(LENGTHS_KV, KV_HEADS, DIM, dtype), own(LENGTHS_KV, KV_HEADS, DIM_V, dtype)
        q, k, v = self.parts
        said = {"cu_seqlens_q": sums(lengths_q)} if ragged else {}
        self.q = pack(q, spare=2) if ragged else pad(q, 3)
        if pages:
            table = table_of(LENGTHS_KV, 24)
            self.k, self.v = page(k, table), page(v, table)
            said |= {"lengths_kv": int32(LENGTHS_KV)} | ({"page_table": table} if pages == "table" else csr_of(table, LENGTHS_KV))
        elif ragged:
            self.k, self.v = pack(k), pack(v, spare=1)[:-1]
            said["cu_seqlens_kv"] = sums(LENGTHS_KV)
        else:
            self.k, self.v = pad(k, 20), pad(v, 20)
            said["lengths_kv"] = int32(LENGTHS_KV)
        if order == "bhsd":
            self.q, self.k, self.v = (x if x.ndim == 3 else x.transpose(0, 2, 1, 3).copy() for x in (self.q, self.k, self.v))
        self.order, self.sequences = order, attile.Sequences(**said)

    def tensors(self):
        return self.q, self.k, self.v

    def check(self, o, lse, **how):
        """Checks every sequence; o and lse are arrays."""
        row = 0
        for b, (q, k, v) in enumerate(zip(*self.parts)):
            length = q.shape[1]
            if self.ragged:
                mine, mine_lse = o[row : row + length].transpose(1, 0, 2), lse[:, row : row + length]
            else:
                mine, mine_lse = (o[b] if self.order == "bhsd" else o[b].transpose(1, 0, 2)), lse[b]
            right, right_lse, bound, lse_bound = reference.attention(q[None], k[None], v[None], dtype=self.dtype, **how)
            reference.check(mine, right[0], bound[0])
            reference.check(mine_lse, right_lse[0], lse_bound[0])
            row += length


LAYOUTS = [(ragged, pages) for ragged in (False, True) for pages in (None, "table", "csr")]


@pytest.mark.parametrize("order", ["bshd", "bhsd"])
@pytest.mark.parametrize("ragged, pages", LAYOUTS)
def test_is_the_definition(ragged, pages, order):
    batch = Batch(ragged, pages, order)
    o, lse = attile.attention(*batch.tensors(), sequences=batch.sequences, layout=order, return_lse=True, **RULE)
    assert lse.shape == ((HEADS, len(batch.q)) if ragged else (BATCH, HEADS, 3))
    batch.check(o, lse, mask=seen)


def test_sixteen_bits_and_maxima():
    batch = Batch(True, "table", dtype="float16")
    sequences = batch.sequences._replace(max_len_q=9, max_len_kv=20)
    batch.check(*attile.attention(*batch.tensors(), sequences=sequences, mask="causal", return_lse=True), mask=lambda b, h, q, k: k <= q)


def test_parameters_may_have_a_row_for_each_sequence():
    batch = Batch(False, "table")
    slopes = RNG.random((BATCH, HEADS)).astype(np.float32)
    found = attile.attention(*batch.tensors(), sequences=batch.sequences, score="s + slopes[b, h] * (k - q)",
                             params={"slopes": slopes}, return_lse=True)  # fmt: skip
    for b in range(BATCH):
        one = Batch.__new__(Batch)
        one.__dict__ = {**batch.__dict__, "parts": tuple([part[b]] for part in batch.parts)}
        weights = slopes[b].astype(np.float64)[None, :, None, None]
        one.check(found[0][b:], found[1][b:], score=lambda s, b, h, q, k, w=weights: s + w * (k - q))


def test_kernel():
    """A kernel is called, bound, and run with another workspace; the keys of plans distinguish these calls."""
    batch = Batch(True, "table")
    kernel = attile.compile(
        {"dtype": "fp32", "head_dim": DIM, "head_dim_v": DIM_V, "mask": RULE["mask"], "params": "window: int",
         "layout": "ragged", "page_size": PAGE}, device="host",
    )  # fmt: skip
    out, lse = np.full((len(batch.q), HEADS, DIM_V), np.nan, np.float32), np.full((HEADS, len(batch.q)), np.nan, np.float32)
    words = {"params": RULE["params"], "sequences": batch.sequences, "layout": "bshd"}
    for _ in range(2):
        kernel(*batch.tensors(), out, lse, **words)
        batch.check(out, lse, mask=seen)
        assert np.isnan(out[sum(LENGTHS_Q) :]).all()  # rows of no sequence are not written
    size = kernel.workspace_size(*batch.tensors(), **words)
    out[:] = np.nan
    launch = kernel.bind(*batch.tensors(), out, lse, workspace=np.empty(size + 256, np.uint8) if size else None, **words)
    batch.sequences.lengths_kv[2] = 4  # a launch reads this when it runs
    batch.parts[1][2], batch.parts[2][2] = batch.parts[1][2][:, :4], batch.parts[2][2][:, :4]
    launch()
    batch.check(out, lse, mask=seen)
    with pytest.raises(errors.ShapeError, match="layout=ragged page_size=8 page_table=table, and the kernel is compiled for layout=dense"):
        attile.compile(f"head_dim={DIM} head_dim_v={DIM_V}", device="host")(*batch.tensors(), sequences=batch.sequences, layout="bshd")


def changed(ragged, pages, **change):
    batch = Batch(ragged, pages)
    return batch, batch.sequences._replace(**change)


BAD = {
    "lengths dtype": (changed(False, None, lengths_kv=np.array(LENGTHS_KV)), errors.DtypeError, "lengths_kv is int64, expected int32"),
    "lengths shape": (changed(False, None, lengths_kv=int32([LENGTHS_KV])), errors.ShapeError, "lengths_kv has shape \\(1, 4\\), expected one dim"),
    "lengths count": (changed(False, None, lengths_kv=int32([1, 2])), errors.ShapeError, "q has 4 sequences, and lengths_kv has 2"),
    "too long": (changed(False, None, lengths_kv=int32([21, 0, 0, 0])), errors.InvalidArgument, "lengths_kv\\[0\\] is 21, expected 0 to 20"),
    "negative": (changed(False, None, lengths_kv=int32([1, -1, 0, 0])), errors.InvalidArgument, "lengths_kv\\[1\\] is -1"),
    "no tensor": (changed(False, None, lengths_kv=LENGTHS_KV), errors.TensorError, "found list"),
    "stride": (changed(False, None, lengths_kv=int32(LENGTHS_KV * 2)[::2]), errors.LayoutError, "lengths_kv: the last dimension"),
    "nothing": (changed(False, None, lengths_kv=None), errors.InvalidArgument, "padded sequences takes lengths_kv, found none"),
    "one of two": (changed(True, None, cu_seqlens_kv=None), errors.InvalidArgument, "takes cu_seqlens_q and cu_seqlens_kv, found cu_seqlens_q"),
    "two tables": (changed(True, "csr", page_table=int32([[0]])), errors.InvalidArgument, "takes lengths_kv and cu_seqlens_q and page_indptr and"),
    "falls": (changed(True, None, cu_seqlens_q=int32([0, 5, 4, 14, 15])), errors.InvalidArgument, "cu_seqlens_q\\[2\\] is 4, expected 5 to"),
    "begins late": (changed(True, None, cu_seqlens_kv=sums(LENGTHS_KV) + 1), errors.InvalidArgument, "cu_seqlens_kv\\[0\\] is 1, expected 0"),
    "more than there are": (changed(True, None, cu_seqlens_q=int32([0, 5, 5, 14, 99])), errors.InvalidArgument, "cu_seqlens_q\\[4\\] is 99"),
    "longer than the most": (changed(True, None, max_len_q=8), errors.InvalidArgument, "cu_seqlens_q\\[3\\] is 14, expected 5 to 13"),
    "batches": (changed(True, "table", lengths_kv=int32([1])), errors.ShapeError, "lengths_kv has shape \\(1,\\), expected 4 rows"),
    "no page": (changed(False, "table", page_table=np.full((4, 3), PAGES, np.int32)), errors.InvalidArgument, f"is {PAGES}, expected 0 to {PAGES - 1}"),
    "table rows": (changed(False, "table", page_table=int32([[0]])), errors.ShapeError, "page_table has shape \\(1, 1\\), expected 4 rows"),
    "table dimensions": (changed(False, "table", page_table=int32([0, 0, 0, 0])), errors.ShapeError, "page_table has shape \\(4,\\), expected two"),
    "repeated rows": (changed(False, "table", page_table=np.broadcast_to(int32([0, 1, 2]), (4, 3))), errors.LayoutError, "page_table: rows have stride 0"),
    "room": (changed(False, "table", max_len_kv=25), errors.ShapeError, "room for 3 pages of 8 keys, and max_len_kv is 25"),
    "few page numbers": (changed(False, "csr", page_indptr=int32([0, 1, 2, 3, 4])), errors.InvalidArgument, "page_indptr\\[1\\] is 1, expected 3"),
    "most of padded": (changed(False, None, max_len_kv=19), errors.ShapeError, "max_len_kv is 19, and every sequence of k has room for 20"),
    "most queries of padded": (changed(False, None, max_len_q=4), errors.ShapeError, "max_len_q is 4, and every sequence of q has 3"),
    "negative most": (changed(True, None, max_len_q=-1), errors.ShapeError, "max_len_q is -1"),
    "empty": (changed(True, None, cu_seqlens_q=int32([]), cu_seqlens_kv=int32([])), errors.ShapeError, "cu_seqlens_q has 0 numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_is_refused(case):
    (batch, sequences), kind, message = BAD[case]
    with pytest.raises(kind, match=message) as caught:
        attile.attention(*batch.tensors(), sequences=sequences)
    assert isinstance(caught.value, attile.Error)


@pytest.mark.parametrize(
    "ragged, change, message",
    [
        (True, lambda q, k, v: (q[None], k, v), "q has shape \\(1, 17, 4, 16\\), expected three dimensions"),
        (True, lambda q, k, v: (q, k[0], v), "k has shape \\(8, 2, 16\\), expected four dimensions"),
        (False, lambda q, k, v: (q, k[:, :6], v[:, :6]), "k has pages of 6 keys, expected a power of two up to 1024"),
        (False, lambda q, k, v: (q, k.repeat(200, 1), v.repeat(200, 1)), "k has pages of 1600 keys"),
        (False, lambda q, k, v: (q, k, v[1:]), "v has shape"),
        (False, lambda q, k, v: (q, k[..., :8], v), "k has shape"),
        (False, lambda q, k, v: (q[:, :, :3], k, v), "q has 3 heads and k has 2"),
    ],
)
def test_tensors_that_do_not_fit(ragged, change, message):
    batch = Batch(ragged, "table")
    with pytest.raises(errors.ShapeError, match=message):
        attile.attention(*change(*batch.tensors()), sequences=batch.sequences)
