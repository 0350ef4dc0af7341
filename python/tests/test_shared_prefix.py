"""attile.attention_shared_prefix computes as if every sequence began with the keys of the prefix."""

import attile
import numpy as np
import pytest
import reference
from attile import errors
from test_sequences import DIM, DIM_V, KV_HEADS, Batch, int32, own, page

LENGTH = 13  # keys of the prefix
ORDER = [4, 1]  # pages of the prefix


class Prefix:
    def __init__(self, dtype="float16"):
        self.k, self.v = own([LENGTH], KV_HEADS, DIM, dtype), own([LENGTH], KV_HEADS, DIM_V, dtype)

    def tensors(self):
        return [one[0].transpose(1, 0, 2)[None].copy() for one in (self.k, self.v)]

    def pages(self):
        table = int32([ORDER])
        return [page(one, table) for one in (self.k, self.v)], attile.Sequences(lengths_kv=int32([LENGTH]), page_table=table)

    def before(self, batch):
        """Sets the keys of the definition: the prefix, then the keys of each sequence."""
        q, k, v = batch.parts
        batch.parts = q, *([np.concatenate([one[0], x], 1) for x in more] for one, more in ((self.k, k), (self.v, v)))
        return batch


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("ragged, pages", [(True, "table"), (True, None), (False, None)])
def test_is_the_definition(ragged, pages, paged):
    batch, prefix = Batch(ragged, pages, dtype="float16"), Prefix()
    tensors, where = prefix.pages() if paged else (prefix.tensors(), None)
    o, lse = attile.attention_shared_prefix(
        *batch.tensors(), *tensors, prefix=where, sequences=batch.sequences, mask="causal", return_lse=True
    )
    # A query before the first own key sees only the prefix.
    prefix.before(batch).check(o, lse, mask=lambda b, h, q, k: (k <= q) | (k < LENGTH))


def test_dense_and_in_a_kernel_of_fp32():
    q, k, v = (np.random.default_rng(n).standard_normal((2, 3, h, 16)).astype(np.float32) for n, h in enumerate((4, 2, 2)))
    first = [np.random.default_rng(n).standard_normal((1, 5, 2, 16)).astype(np.float32) for n in (8, 9)]
    o = attile.attention_shared_prefix(q, k, v, *first)
    whole = [np.concatenate([np.repeat(one, 2, 0), x], 1).transpose(0, 2, 1, 3) for one, x in zip(first, (k, v))]
    right, _, bound, _ = reference.attention(q.transpose(0, 2, 1, 3), *whole)
    reference.check(o.transpose(0, 2, 1, 3), right, 3 * bound)  # two results and their merge


@pytest.mark.parametrize("backend", ["torch"])
def test_tensors_of_pytorch(backend):
    torch = pytest.importorskip(backend)
    batch, prefix = Batch(False, None, dtype="float16"), Prefix()
    found = attile.attention_shared_prefix(*batch.tensors(), *prefix.tensors(), sequences=batch.sequences)
    sequences = attile.Sequences(lengths_kv=torch.from_numpy(batch.sequences.lengths_kv))
    given = [torch.from_numpy(x) for x in (*batch.tensors(), *prefix.tensors())]
    same = attile.attention_shared_prefix(*given, sequences=sequences)
    np.testing.assert_array_equal(same.numpy(), found)
    with pytest.raises(errors.NoBackward, match="requires a gradient"):
        attile.attention_shared_prefix(given[0].requires_grad_(), *given[1:], sequences=sequences)


def test_what_is_refused():
    batch, prefix = Batch(True, "table", dtype="float16"), Prefix()
    k, v = prefix.tensors()
    (k_pages, v_pages), where = prefix.pages()
    for given, words, message in (
        ((k[:, :, :1], v[:, :, :1]), {}, "expected as many heads"),
        ((k[0], v), {}, "k has shape|k: |four dimensions"),
        ((k_pages, v_pages), {"prefix": where._replace(cu_seqlens_q=int32([0, 1]))}, "prefix has cu_seqlens_q"),
        ((k_pages, v_pages), {"prefix": where._replace(lengths_kv=int32([3, 4]), page_table=int32([ORDER] * 2))}, "q has 1 sequences"),
        ((k.astype(np.float32), v), {}, "k is float32 and q is float16"),
    ):
        with pytest.raises(errors.InvalidArgument, match=message):
            attile.attention_shared_prefix(*batch.tensors(), *given, sequences=batch.sequences, **words)
