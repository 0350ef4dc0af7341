"""Continuous batching: requests arrive, are prefilled together as one ragged batch, decode one token a step together, and
leave. K and V lie in pages. Every step is checked against attention in double precision. examples/serve.c is the same in C.

    python3 examples/serve.py               on this CPU, with NumPy
    python3 examples/serve.py cuda          on a GPU, with PyTorch
    python3 examples/serve.py [cuda] int8   the cache in 8 bits, or e4m3, with a scale for each row of K and of V

There is no model, only what attention needs of one: random embeddings, and the token whose embedding O is nearest to.
"""

import sys
from typing import NamedTuple

import attile
import numpy as np

HEADS, KV_HEADS, DIM, PAGE, PAGES, BATCH, LONGEST, VOCABULARY, REQUESTS = 4, 2, 32, 8, 24, 4, 48, 50, 7
RNG = np.random.default_rng(1)
TO_Q, TO_K, TO_V = (
    RNG.uniform(-1, 1, (VOCABULARY, heads, DIM)).astype(np.float16) for heads in (HEADS, KV_HEADS, KV_HEADS)
)
TO_TOKEN = RNG.uniform(-1, 1, (VOCABULARY, HEADS, DIM))
PROMPTS = [RNG.integers(0, VOCABULARY, RNG.integers(1, 20)).tolist() for _ in range(REQUESTS)]
NEW = RNG.integers(1, 12, REQUESTS)  # tokens that each request asks for


def numbers_of_e4m3(bits):
    exponent, fraction = bits >> 3 & 15, (bits & 7).astype(np.float64)
    size = np.where(exponent == 0, fraction * 2.0**-9, np.ldexp(8 + fraction, exponent.astype(np.int32) - 10))
    return np.where(bits & 127 == 127, np.nan, np.where(bits & 128, -size, size))


class Storage(NamedTuple):
    """What a cache is stored in. Rounding x moves it by unit |x| at most, or by `least` where that is more: half a step."""

    dtype: type
    rubbish: float
    numbers: object  # of elements in memory
    most: float  # that an element holds; 0 = rows have no scale
    unit: float
    least: float


STORAGES = {
    "fp16": Storage(np.float16, np.nan, lambda x: x.astype(np.float64), 0, 2.0**-11, 2.0**-25),
    "e4m3": Storage(np.uint8, 255, numbers_of_e4m3, 448, 2.0**-4, 2.0**-10),
    "int8": Storage(np.int8, -1, lambda x: x.astype(np.float64), 127, 0, 0.5),
}
FP32 = (
    25 * 2.0**-24
)  # error of rotated elements: 19 units of RoPE, whose elements are at most 1, and 4 sqrt(2) of a scale


class Cache:
    """Pages of K and V, and which of them each place of the batch has."""

    def __init__(self, to_device, stored):
        self.to_device, self.stored, how = to_device, stored, STORAGES[stored]
        # A new page holds whatever was there: NaN here, so that a kernel that reads too much is noticed.
        pages, rows = (PAGES, PAGE, KV_HEADS, DIM), (PAGES, KV_HEADS, PAGE)
        self.k, self.v = (to_device(np.full(pages, how.rubbish, how.dtype)) for _ in range(2))
        self.words = {"dtype_kv": "e4m3"} if stored == "e4m3" else {}  # which memory of uint8 does not say
        for name in ("k_scale", "v_scale") if how.most else ():
            self.words[name] = to_device(np.full(rows, np.nan, np.float32))
        self.free = list(RNG.permutation(PAGES))
        self.table = np.full((BATCH, LONGEST // PAGE), -1, np.int32)
        self.lengths = np.zeros(BATCH, np.int32)

    def grow(self, place, tokens):
        for i in range(-(-self.lengths[place] // PAGE), -(-(self.lengths[place] + tokens) // PAGE)):
            self.table[place, i] = self.free.pop()
        self.lengths[place] += tokens

    def release(self, place):
        self.free += self.table[place, : -(-self.lengths[place] // PAGE)].tolist()
        self.table[place], self.lengths[place] = -1, 0

    def attend(self, q, k, v, cu_seqlens_q=None):
        """Append k and v, then attend; q, k and v have the tokens of this step. Returns O."""
        step = attile.Sequences(lengths_kv=self.to_device(self.lengths), page_table=self.to_device(self.table))
        if cu_seqlens_q is not None:
            step = step._replace(cu_seqlens_q=self.to_device(cu_seqlens_q), max_len_q=int(np.diff(cu_seqlens_q).max()))
        q, k, v = map(self.to_device, (q, k, v))
        q = attile.append_kv(k, v, self.k, self.v, q=q, rope="halves", sequences=step, **self.words)
        return to_host(attile.attention(q, self.k, self.v, mask="causal", sequences=step, **self.words))

    def held(self, place):
        """K and V of a sequence, as the cache has them: two of (tokens, KV_HEADS, DIM)."""
        length, pages = self.lengths[place], self.table[place][self.table[place] >= 0]
        for one, name in ((self.k, "k_scale"), (self.v, "v_scale")):
            numbers = STORAGES[self.stored].numbers(to_host(one)[pages])
            if name in self.words:
                numbers = numbers * to_host(self.words[name])[pages].transpose(0, 2, 1)[..., None]
            yield numbers.reshape(-1, KV_HEADS, DIM)[:length]


def to_host(array):
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def rotated(x, positions):
    """RoPE, in halves; x (tokens, heads, DIM)."""
    angle = positions[:, None, None] * 10000.0 ** (-np.arange(0, DIM, 2) / DIM)
    one, other = x[..., : DIM // 2].astype(np.float64), x[..., DIM // 2 :].astype(np.float64)
    return np.concatenate(
        [one * np.cos(angle) - other * np.sin(angle), one * np.sin(angle) + other * np.cos(angle)], -1
    )


def appended(tokens):
    """K and V of a sequence before they are stored: two of (tokens, KV_HEADS, DIM)."""
    return rotated(TO_K[tokens], np.arange(len(tokens))), TO_V[tokens].astype(np.float64)


def reference(q, k, v):
    """O of the last tokens, by definition; q and O (count, HEADS, DIM), k and v (tokens, KV_HEADS, DIM)."""
    k, v = (np.repeat(x, HEADS // KV_HEADS, 1) for x in (k, v))
    positions, count = np.arange(len(k)), len(q)
    s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(DIM)
    s = np.where(positions[None, None] <= positions[-count:][None, :, None], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)


def size_of_scores(q, k):
    """The largest sum of |q k| / sqrt(DIM)."""
    return np.einsum("qhd,khd->hqk", abs(q), np.repeat(abs(k), HEADS // KV_HEADS, 1)).max() / np.sqrt(DIM)


def check(stored, tokens, o, held):
    """The largest error in proportion to what is allowed: of the cache, of O from what it holds, and from what was appended.

    A cache is off by half a step of its type. Kernels round Q, weights and O to fp16, each by a factor within 1 +- U: a
    score is off by U sum |q k|, a weight by twice that, and O by that, its own rounding and those of all weights; elements
    of V are at most 1, and twice the sum is allowed, for what fp32 does besides. Storing K moves scores by up to e, so
    weights by a factor within exp(+-2 e), and O by that and by what storing V moves.
    """
    how, count = STORAGES[stored], len(o)
    tokens = np.array(tokens)
    exact, steps = appended(tokens), []
    for row in exact:
        most = abs(row).max(-1, keepdims=True) / how.most if how.most else 1.0
        steps.append(np.maximum(how.unit * abs(row), how.least * most) + FP32)
    q = rotated(TO_Q[tokens], np.arange(len(tokens)))[-count:]
    allowed = 2 * (2 * size_of_scores(q, held[0]) + 2) * 2.0**-11
    of_storing = np.expm1(2 * size_of_scores(q, steps[0])) + steps[1].max()
    errors = [abs(found - row) / step for found, row, step in zip(held, exact, steps)]
    errors.append(abs(o - reference(q, *held)) / allowed)
    errors.append(abs(o - reference(q, *exact)) / (allowed + of_storing))
    return max(np.nan_to_num(error, nan=np.inf).max() for error in errors)


class Server:
    def __init__(self, cache):
        self.cache = cache
        self.waiting = list(range(REQUESTS))
        self.running = {}  # place in the batch -> (request, tokens)
        self.promised = {}  # place -> pages that it may have in the end
        self.worst = 0.0

    def finish(self, place, o):
        """Check O of the tokens that were new, and take the next one."""
        request, tokens = self.running[place]
        self.worst = max(self.worst, check(self.cache.stored, tokens, o, list(self.cache.held(place))))
        if len(tokens) == len(PROMPTS[request]) + NEW[request]:
            print(f"request {request} leaves with {len(tokens)} tokens")
            self.cache.release(place)
            del self.running[place], self.promised[place]
            return
        tokens.append(int(np.einsum("hd,thd->t", o[-1].astype(np.float64), TO_TOKEN).argmax()))

    def arrive(self):
        """Requests for which there is a place and, up to their last token, pages."""
        new = []
        for place in range(BATCH):
            if place in self.running or not self.waiting:
                continue
            request = self.waiting[0]
            pages = -(-(len(PROMPTS[request]) + int(NEW[request])) // PAGE)
            if pages <= PAGES - sum(self.promised.values()):
                self.promised[place] = pages
                self.running[place] = self.waiting.pop(0), list(PROMPTS[request])
                new.append(place)
        return new

    def prefill(self, places):
        """All prompts that have just arrived, packed. The other places have no new token in this step."""
        counts = [len(self.running[place][1]) if place in places else 0 for place in range(BATCH)]
        tokens = np.concatenate([self.running[place][1] for place in places])
        ends = np.cumsum([0, *counts]).astype(np.int32)
        for place in places:
            self.cache.grow(place, counts[place])
        o = self.cache.attend(TO_Q[tokens], TO_K[tokens], TO_V[tokens], ends)
        for place in places:
            self.finish(place, o[ends[place] : ends[place + 1]])

    def decode(self):
        """One more token of everyone, the batch always as large: a place where nobody is has length 0."""
        tokens = [self.running[place][1][-1] if place in self.running else 0 for place in range(BATCH)]
        for place in self.running:
            self.cache.grow(place, 1)
        o = self.cache.attend(*(table[tokens][:, None] for table in (TO_Q, TO_K, TO_V)))
        for place in list(self.running):
            self.finish(place, o[place])


def main():
    to_device, words = np.ascontiguousarray, sys.argv[1:]
    if "cuda" in words:
        import torch

        def to_device(array):
            return torch.from_numpy(np.ascontiguousarray(array)).cuda()

    stored = [word for word in words if word != "cuda"] or ["fp16"]
    if len(stored) > 1 or stored[0] not in STORAGES:
        sys.exit(f"serve.py: expected cuda and one of {', '.join(STORAGES)}; found {' '.join(words)}")
    server, steps = Server(Cache(to_device, *stored)), 0
    while server.waiting or server.running:
        new = server.arrive()
        if new:
            server.prefill(new)
        if server.running:
            server.decode()
        steps += 1
    print(f"{steps} steps; the largest error is {100 * server.worst:.0f} % of what is allowed")
    return server.worst > 1 or len(server.cache.free) != PAGES


if __name__ == "__main__":
    sys.exit(main())
