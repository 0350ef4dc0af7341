"""Continuous batching: requests arrive, are prefilled together as one ragged batch, decode one token a step together, and
leave. K and V lie in pages. Every step is checked against attention in double precision. examples/serve.c is the same in C.

    python3 examples/serve.py          on this CPU, with NumPy
    python3 examples/serve.py cuda     on a GPU, with PyTorch

There is no model, only what attention needs of one: random embeddings, and the token whose embedding O is nearest to.
"""

import sys

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


class Cache:
    """Pages of K and V, and which of them each place of the batch has."""

    def __init__(self, to_device):
        self.to_device = to_device
        # A new page holds whatever was there: NaN here, so that a kernel that reads too much is noticed.
        self.k, self.v = (to_device(np.full((PAGES, PAGE, KV_HEADS, DIM), np.nan, np.float16)) for _ in range(2))
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
        q = attile.append_kv(k, v, self.k, self.v, q=q, rope="halves", sequences=step)
        o = attile.attention(q, self.k, self.v, mask="causal", sequences=step)
        return o if isinstance(o, np.ndarray) else o.cpu().numpy()


def rotated(x, positions):
    """RoPE, in halves; x (tokens, heads, DIM)."""
    angle = positions[:, None, None] * 10000.0 ** (-np.arange(0, DIM, 2) / DIM)
    one, other = x[..., : DIM // 2].astype(np.float64), x[..., DIM // 2 :].astype(np.float64)
    return np.concatenate(
        [one * np.cos(angle) - other * np.sin(angle), one * np.sin(angle) + other * np.cos(angle)], -1
    )


def reference(tokens, count):
    """O of the last `count` tokens, by definition: (count, HEADS, DIM)."""
    tokens, positions = np.array(tokens), np.arange(len(tokens))
    q = rotated(TO_Q[tokens], positions)[-count:]
    k, v = (
        np.repeat(x, HEADS // KV_HEADS, 1) for x in (rotated(TO_K[tokens], positions), TO_V[tokens].astype(np.float64))
    )
    s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(DIM)
    s = np.where(positions[None, None] <= positions[-count:][None, :, None], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)


class Server:
    def __init__(self, cache):
        self.cache = cache
        self.waiting = list(range(REQUESTS))
        self.running = {}  # place in the batch -> (request, tokens)
        self.promised = {}  # place -> pages that it may have in the end
        self.worst = 0.0

    def finish(self, place, o, count):
        """Check O of the tokens that were new, and take the next one."""
        request, tokens = self.running[place]
        self.worst = max(self.worst, float(abs(o - reference(tokens, count)).max()))
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
            self.finish(place, o[ends[place] : ends[place + 1]], counts[place])

    def decode(self):
        """One more token of everyone, the batch always as large: a place where nobody is has length 0."""
        tokens = [self.running[place][1][-1] if place in self.running else 0 for place in range(BATCH)]
        for place in self.running:
            self.cache.grow(place, 1)
        o = self.cache.attend(*(table[tokens][:, None] for table in (TO_Q, TO_K, TO_V)))
        for place in list(self.running):
            self.finish(place, o[place], 1)


def main():
    to_device = np.ascontiguousarray
    if sys.argv[1:] == ["cuda"]:
        import torch

        def to_device(array):
            return torch.from_numpy(np.ascontiguousarray(array)).cuda()

    server, steps = Server(Cache(to_device)), 0
    while server.waiting or server.running:
        new = server.arrive()
        if new:
            server.prefill(new)
        if server.running:
            server.decode()
        steps += 1
    # Elements are at most 1, so |q| |k| / sqrt(DIM) is at most sqrt(DIM). Rounding q and k to fp16, by 2^-11 each, moves a
    # score by 2^-10 of that, and a weight, so also O, by twice as much; P and O are rounded, too.
    allowed = 2.0**-9 * np.sqrt(DIM) + 2.0**-10
    print(f"{steps} steps; the largest error is {100 * server.worst / allowed:.0f} % of what is allowed")
    return server.worst > allowed or len(server.cache.free) != PAGES


if __name__ == "__main__":
    sys.exit(main())
