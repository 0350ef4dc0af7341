"""attile.attention that writes new tokens into its cache, on NumPy arrays and PyTorch's tensors, compared with
attile.append_kv followed by attention."""

import attile
import numpy as np
import pytest
from attile import errors
from test_sequences import PAGE, PAGES, csr_of, int32, sums, table_of

HEADS, KV_HEADS, DIM, ROOM = 4, 2, 32, 24
NEW, LENGTHS = [3, 0, 1, 2], [20, 7, 1, 24]  # the lengths include the new tokens
RNG = np.random.default_rng(7)


def rows(*shape):
    return RNG.standard_normal(shape).astype(np.float16)


class Step:
    """A step of four sequences on a paged cache, or on a padded one."""

    def __init__(self, paged=True, packed=True):
        self.new = NEW if packed else [1] * 4
        lead = (sum(self.new),) if packed else (4, 1)
        self.q, self.k, self.v = rows(*lead, HEADS, DIM), rows(*lead, KV_HEADS, DIM), rows(*lead, KV_HEADS, DIM)
        shape = (PAGES, PAGE) if paged else (4, ROOM)
        self.caches = rows(*shape, KV_HEADS, DIM), rows(*shape, KV_HEADS, DIM)
        table = table_of(LENGTHS, ROOM) if paged else None
        self.sequences = attile.Sequences(lengths_kv=int32(LENGTHS), cu_seqlens_q=sums(self.new) if packed else None, page_table=table)

    def both(self, convert=lambda one: one, **rope):
        """Returns (o and caches of one launch, o and caches of two launches)."""
        q, k, v = (convert(one) for one in (self.q, self.k, self.v))
        sequences = self.sequences._replace(**{name: convert(one) for name, one in self.sequences._asdict().items() if isinstance(one, np.ndarray)})
        one = [convert(cache.copy()) for cache in self.caches]
        two = [convert(cache.copy()) for cache in self.caches]
        o = attile.attention(q, *one, mask="causal", sequences=sequences, new=attile.NewTokens(k, v, **rope))
        turned = attile.append_kv(k, v, *two, q=q if rope else None, sequences=sequences, **rope)
        return (o, *one), (attile.attention(turned if rope else q, *two, mask="causal", sequences=sequences), *two)


TABLES = RNG.standard_normal((ROOM, DIM // 2)).astype(np.float32)
ROTATIONS = [{}, {"rope": "halves"}, {"rope": "interleaved", "rope_dim": 8, "rope_base": 500.0}, {"rope": "halves", "rope_cos": TABLES, "rope_sin": TABLES}]


def check(found, expected):
    for one, other in zip(found[1:], expected[1:]):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    np.testing.assert_allclose(np.asarray(found[0], np.float32), np.asarray(expected[0], np.float32), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("rope", ROTATIONS, ids=["none", "halves", "interleaved", "tables"])
def test_one_launch_does_what_two_do(rope):
    check(*Step().both(**rope))


@pytest.mark.parametrize("paged", [True, False])
def test_sequences_that_are_not_packed(paged):
    check(*Step(paged, packed=False).both(rope="halves"))


def test_layout_with_heads_before_rows():
    step = Step(packed=False)
    q, k, v, k_cache, v_cache = (one.transpose(0, 2, 1, 3) for one in (step.q, step.k, step.v, *step.caches))
    o = attile.attention(q, k_cache, v_cache, layout="bhsd", mask="causal", sequences=step.sequences, new=attile.NewTokens(k, v))
    expected = attile.attention(step.q, *step.caches, mask="causal", sequences=step.sequences)  # the cache has them now
    np.testing.assert_allclose(np.asarray(o, np.float32), expected.transpose(0, 2, 1, 3).astype(np.float32), rtol=2e-3, atol=2e-3)


def test_a_kernel_is_called_with_new_tokens():
    step = Step(packed=False)
    kernel = attile.compile(f"dtype=fp16 head_dim={DIM} layout=padded page_size={PAGE} append=1 rope=halves mask=causal", device="host")
    other = [cache.copy() for cache in step.caches]
    new = attile.NewTokens(step.k, step.v, rope="halves")
    o = kernel(step.q, *step.caches, layout="bshd", sequences=step.sequences, new=new)
    expected = attile.attention(step.q, *other, mask="causal", sequences=step.sequences, new=new)
    np.testing.assert_array_equal(o, expected)
    np.testing.assert_array_equal(step.caches[0], other[0])
    with pytest.raises(errors.InvalidArgument, match="a problem without append, and the kernel is compiled for append=1 rope=halves"):
        kernel(step.q, *step.caches, layout="bshd", sequences=step.sequences)


def wrong(step, sequences=None, **change):
    new = {"k": step.k, "v": step.v, **change}
    return attile.attention(step.q, *step.caches, mask="causal", sequences=sequences or step.sequences, new=attile.NewTokens(**new))


def test_mistakes_are_named():
    step = Step()
    for change, error, words in [
        ({"k": step.k[1:]}, errors.ShapeError, "k_new has shape"),
        ({"v": step.v.astype(np.float32)}, errors.DtypeError, "v_new is float32 and q is float16"),
        ({"v": None}, errors.InvalidArgument, "new.v is missing"),
        ({"rope": "both"}, errors.InvalidArgument, "rope is 'both'"),
        ({"rope_cos": TABLES}, errors.InvalidArgument, "rope_cos is given without rope"),
        ({"rope": "halves", "rope_cos": TABLES}, errors.InvalidArgument, "rope_cos is given without rope_sin"),
        ({"rope": "halves", "rope_dim": 34}, errors.ShapeError, "rope_dim is 34"),
        ({"rope": "halves", "rope_cos": TABLES[:4], "rope_sin": TABLES[:4]}, errors.InvalidArgument, "rope_rows is 4"),
        ({"rope": "halves", "rope_dim": 8}, errors.Unsupported, "half % 8 == 0"),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            wrong(step, **change)
    dense = Step(False, packed=False)
    with pytest.raises(errors.InvalidArgument, match="without sequences that have lengths_kv"):
        attile.attention(dense.q, *dense.caches, new=attile.NewTokens(dense.k, dense.v))


def test_page_numbers_of_all_sequences_in_one_list():
    step = Step()
    step.sequences = step.sequences._replace(page_table=None, **csr_of(step.sequences.page_table, LENGTHS))
    check(*step.both(rope="halves"))


def test_on_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    step = Step()
    found, expected = step.both(torch.from_numpy, rope="halves")
    check(found, expected)
    q = torch.from_numpy(step.q).requires_grad_()
    with pytest.raises(errors.NoBackward, match="writes new tokens"):
        attile.attention(q, *(torch.from_numpy(one) for one in step.caches), sequences=step.sequences._replace(
            **{name: torch.from_numpy(one) for name, one in step.sequences._asdict().items() if isinstance(one, np.ndarray)}),
            new=attile.NewTokens(torch.from_numpy(step.k), torch.from_numpy(step.v)))  # fmt: skip


def test_under_torch_compile():
    torch = pytest.importorskip("torch")
    step = Step(packed=False)
    tensors = [torch.from_numpy(one) for one in (step.q, step.k, step.v)]
    sequences = attile.Sequences(lengths_kv=torch.from_numpy(step.sequences.lengths_kv), page_table=torch.from_numpy(step.sequences.page_table))

    def run(q, k, v, k_cache, v_cache):
        o = attile.attention(q, k_cache, v_cache, mask="causal", sequences=sequences, new=attile.NewTokens(k, v, rope="halves"))
        return o + 0, k_cache.sum()

    plain, compiled = ([torch.from_numpy(cache.copy()) for cache in step.caches] for _ in range(2))
    expected = run(*tensors, *plain)
    found = torch.compile(run, backend="aot_eager", fullgraph=True)(*tensors, *compiled)
    for one, other in zip((*found, *compiled), (*expected, *plain)):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
