"""Times the backward pass beside cuDNN's and FlashAttention-2's through PyTorch, in one process: JSON lines.

    python3 bench/bench_backward.py                          bf16, d 64 to 256, 512 to 16384 tokens a sequence, full and causal
    python3 bench/bench_backward.py --only gqa               eight heads that share K and V; likewise `few`, one sequence of few heads,
                                                             `few_kv`, few K/V heads of many heads each, `short`, many heads of
                                                             short sequences, and `off_grid`, lengths and heads that are no
                                                             powers of two
    python3 bench/bench_backward.py --only d128 --only causal
    python3 bench/bench_backward.py --fa3 LIBRARY            FlashAttention-3 as well (fa3.py says how)
    python3 bench/bench_backward.py --schedule "block_m=64 threads=256"   in place of the library's choice

TFLOP/s count 10 d flops for each visible pair, 2.5 times those of the forward pass, whatever a kernel computes. Figures
are medians over rounds in which the sides take turns in random order, timed by events on one stream with the L2 cache
flushed before each, while the host runs ahead.
Each side runs as PyTorch calls it: the order in which dQ is accumulated may vary, in ours too, except with
`--deterministic`. `--kind peaked` makes scores 16 times as large, `--kind nan` puts one NaN into dO, `--kind nan_q`
into Q, and so on, `inf_k` an infinity into K. `--packed` packs the sequences one after the other for ours, without peers; `--dropout P` drops
weights with this probability. Up to 2048 tokens the gradients of one head are first compared with double precision, as
relative errors: a wrong result is an error, not a line. So are two deterministic calls whose bits differ.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import random
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import checkout  # noqa: E402,F401
import fa3  # noqa: E402
import attile  # noqa: E402
import attile.torch  # noqa: E402
import side_cuda  # noqa: E402

TOKENS, COLUMNS, CHECKED, MOST_ERROR, PEAKED = 16384, 2048, 2048, 1e-2, 16
GROUPS = {"grid", "gqa", "few", "few_kv", "short", "off_grid"}
# one element, of a tensor
ODD = {"nan": ("d_o", math.nan), "nan_q": ("q", math.nan), "nan_k": ("k", math.nan), "nan_v": ("v", math.nan),
       "inf_k": ("k", math.inf)}
INSIDE = 40  # where a NaN lies within a tile, so that some rows of the tile do not see it under a causal mask
AHEAD = 2_000_000  # clocks that the GPU idles before each call
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash_attention_2": SDPBackend.FLASH_ATTENTION}


@dataclasses.dataclass(frozen=True)
class Case:
    group: str  # of GROUPS
    head_dim: int
    batch: int
    heads: int
    kv_heads: int
    length: int
    causal: bool

    @property
    def words(self):
        return {self.group, f"d{self.head_dim}", f"S{self.length}", "causal" if self.causal else "full"}

    @property
    def flops(self):
        return 10 * self.head_dim * self.batch * self.heads * self.length * (self.length + 1 if self.causal else 2 * self.length) / 2


def cases():
    grid = [("grid", d, TOKENS // length, max(1, COLUMNS // d), 1, length) for d in (64, 96, 128, 192, 256) for length in (512, 2048, 4096, 16384)]
    gqa = [("gqa", d, TOKENS // length, COLUMNS // d, 8, length) for d in (64, 128, 256) for length in (1024, 4096)]
    few = [("few", d, 1, heads, 1, length) for d in (64, 128, 256) for heads, length in ((8, 512), (8, 2048), (16, 1024), (4, 4096))]
    short = [("short", d, batch, heads, 1, length) for d in (64, 96, 128, 192, 256) for batch, heads, length in ((64, 32, 128), (6, 24, 640))]
    off_grid = [("off_grid", d, batch, heads, 1, length) for d in (64, 96, 128, 192, 256) for batch, heads, length in ((4, 12, 777), (3, 28, 1500), (1, 12, 3000))]
    few_kv = [("few_kv", d, batch, heads, shared_by, length) for d in (64, 128, 256)
              for batch, heads, shared_by, length in ((1, 32, 8, 2048), (1, 32, 4, 2048), (1, 32, 4, 4096), (1, 28, 7, 4096), (1, 40, 5, 2500), (1, 8, 8, 8192))]
    for group, head_dim, batch, heads, shared_by, length in grid + gqa + few + few_kv + short + off_grid:
        for causal in (False, True):
            yield Case(group, head_dim, batch, heads, heads // shared_by, length, causal)


def gradients_in_double(q, k, v, d_o, causal):
    """Gradients (dq, dk, dv) of the heads that share K and V: q and d_o (heads, length, dim), k and v (length, dim)."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    score = q @ k.T / q.shape[-1] ** 0.5
    if causal:
        score = score.masked_fill(torch.ones_like(score, dtype=torch.bool).triu(1), -torch.inf)
    return torch.autograd.grad(score.softmax(-1) @ v, (q, k, v), d_o.double())


def ours(q, k, v, d_o, causal, schedule, dropout=0):
    """Returns a function that returns (dq, dk, dv); tensors are (batch, heads, length, dim)."""
    rule = "mask=causal" if causal else ""
    state, chances = [], []
    if dropout:
        state, chances, rule = [torch.zeros(2, dtype=torch.int64, device="cuda")], [dropout], f"{rule} dropout=1".strip()
    o, lse = torch.ops.attile.attention_lse(q, k, v, state, chances, rule, None, "bhsd", "")
    backward = torch.ops.attile.attention_backward
    return lambda: backward(d_o, None, q, k, v, o, lse, state, chances, rule, "", None, "bhsd", schedule)[:3]


def ours_packed(q, k, v, d_o, causal, schedule):
    """The same for packed sequences; the gradients are viewed as (batch, heads, length, dim)."""
    batch, _, length, head_dim = q.shape
    q, k, v, d_o = (x.transpose(1, 2).reshape(batch * length, x.shape[1], head_dim) for x in (q, k, v, d_o))
    starts = torch.arange(0, (batch + 1) * length, length, dtype=torch.int32, device="cuda")
    rest, own = ("mask=causal" if causal else "", None, "bshd"), (None, starts, starts, length, length)
    o, lse = torch.ops.attile.attention_sequences_lse(q, k, v, [], [], *rest, "", *own, True)
    backward = torch.ops.attile.attention_backward

    def work():
        found = backward(d_o, None, q, k, v, o, lse, [], [], rest[0], "", *rest[1:], schedule, *own)[:3]
        return [x.view(batch, length, -1, head_dim).transpose(1, 2) for x in found]

    return work


def theirs(backend, q, k, v, d_o, causal, dropout=0):
    """The same for a peer, or None if PyTorch does not have it."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    try:
        with sdpa_kernel(backend):
            o = scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout, enable_gqa=q.shape[1] != k.shape[1])
        work = lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)  # noqa: E731
        work()
    except RuntimeError:
        return None
    return work


def fa3_backward(path, q, k, v, d_o, causal):
    """The same for FlashAttention-3 as a library, whose own layout is prepared outside of the timing; None if it cannot."""
    library, stream = fa3.Library(path), torch.cuda.current_stream().cuda_stream
    q, k, v, d_o = (x.transpose(1, 2).contiguous() for x in (q, k, v, d_o))
    o, lse = torch.empty_like(q), torch.empty(q.shape[0], q.shape[2], q.shape[1], device="cuda")
    gradients = [torch.empty_like(x) for x in (q, k, v)]
    deterministic = torch.are_deterministic_algorithms_enabled()

    def work():
        return [x.transpose(1, 2) for x in library.backward(q, k, v, o, d_o, lse, gradients, causal, deterministic, stream)]

    try:
        library.forward(q, k, v, o, lse, causal, 1, stream)
        work()
    except RuntimeError:
        return None
    return work


def error(found, q, k, v, d_o, causal):
    """The largest relative error of the three gradients, for the last head of K and V."""
    group = q.shape[1] // k.shape[1]
    right = gradients_in_double(q[-1, -group:], k[-1, -1], v[-1, -1], d_o[-1, -group:], causal)
    last = found[0][-1, -group:], found[1][-1, -1], found[2][-1, -1]
    return max(((one.double() - other).norm() / other.norm()).item() for one, other in zip(last, right))


def have_equal_bits(some, others):
    """True if gradients in 16 bits are the same, NaN included."""
    return all(torch.equal(one.view(torch.int16), other.view(torch.int16)) for one, other in zip(some, others))


def sample(works, flush, rounds, monitor):
    """Returns {name: [ms of each round]}, and clock, power and temperature near the end, while the GPU works. The host
    runs ahead, so that the times do not include its calls. Sides take turns call by call, so that they run at the same
    clock."""
    events = {name: [] for name in works}
    for _ in range(rounds + 2):
        for name in random.sample(list(works), len(works)):
            torch.cuda._sleep(AHEAD)
            flush.sum()  # reads: lines that a flush writes would be written back during the kernel
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            works[name]()
            stop.record()
            events[name].append((start, stop))
    state = monitor.read()
    torch.cuda.synchronize()
    return {name: [round(start.elapsed_time(stop), 5) for start, stop in pairs[2:]] for name, pairs in events.items()}, state


def measure(case, chosen, flush, monitor):
    """Returns a row: TFLOP/s and milliseconds of every side."""
    length, causal = case.length, case.causal
    q, k, v, d_o = (torch.randn(case.batch, heads, length, case.head_dim, device="cuda", dtype=torch.bfloat16)
                    for heads in (case.heads, case.kv_heads, case.kv_heads, case.heads))
    if chosen.kind == "peaked":
        q *= PEAKED
    elif chosen.kind in ODD:
        name, value = ODD[chosen.kind]
        {"q": q, "k": k, "v": v, "d_o": d_o}[name][0, 0, length // 2 + INSIDE, 3] = value
    if chosen.packed:
        works = {"attile": ours_packed(q, k, v, d_o, causal, chosen.schedule)}
    else:
        works = {"attile": ours(q, k, v, d_o, causal, chosen.schedule, chosen.dropout)}
    if not chosen.no_peer and not chosen.packed:
        works |= {name: theirs(backend, q, k, v, d_o, causal, chosen.dropout) for name, backend in PEERS.items()}
        if chosen.fa3 and not chosen.dropout:
            works["flash_attention_3"] = fa3_backward(chosen.fa3, q, k, v, d_o, causal)
    works = {name: work for name, work in works.items() if work}
    checked = length <= CHECKED and not chosen.dropout
    errors = {name: error(work(), q, k, v, d_o, causal) for name, work in works.items()} if checked else {}  # of the last head, without NaN
    for name, found in errors.items():
        if not found <= MOST_ERROR:
            raise SystemExit(f"{case}: the relative error of {name} is {found:.3g}")
    if chosen.deterministic and not have_equal_bits(works["attile"](), works["attile"]()):
        raise SystemExit(f"{case}: two calls gave different bits")
    rounds, state = sample(works, flush, chosen.rounds, monitor)
    times = {name: statistics.median(found) for name, found in rounds.items()}
    return {**dataclasses.asdict(case), "error": errors.get("attile"), "ms": times, "rounds": rounds, "state": state,
            "tflops": {name: case.flops / ms / 1e9 for name, ms in times.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="a group, d128, S4096, causal or full; several narrow it (grid)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--schedule", default="", metavar="KNOBS", help="in place of the library's choice")
    parser.add_argument("--kind", choices=("normal", "peaked", *ODD), default="normal", help="of data")
    parser.add_argument("--deterministic", action="store_true", help="equal bits from run to run, of all sides")
    parser.add_argument("--packed", action="store_true", help="sequences one behind another (layout ragged), ours alone")
    parser.add_argument("--dropout", type=float, default=0, metavar="P", help="the probability that a weight is dropped")
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    fa3.add_option(parser)
    parser.add_argument("--commit", help="what is measured")
    chosen = parser.parse_args()
    if chosen.packed and chosen.dropout:
        parser.error("--packed and --dropout are not measured together")
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(chosen.deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = False  # filling costs time and is not part of a gradient
    device, monitor = torch.cuda.get_device_properties(0), side_cuda.Monitor()
    machine = {"bench": "backward", "gpu": device.name, "driver": monitor.driver(), "torch": torch.__version__, "cuda": torch.version.cuda,
               "attile": attile.version(), "commit": chosen.commit, "schedule": chosen.schedule, "kind": chosen.kind, "deterministic": chosen.deterministic,
               "packed": chosen.packed, "dropout": chosen.dropout}
    flush = torch.zeros(64 << 20, device="cuda")
    words = set(chosen.only)
    if not words & GROUPS:
        words.add("grid")
    for case in cases():
        if words <= case.words:
            print(json.dumps({**machine, **measure(case, chosen, flush, monitor)}), flush=True)


if __name__ == "__main__":
    main()
