"""flash_tiled in fp32, and flash_mma in TF32, beside PyTorch's fp32 attention, TF32 off: JSON lines, TFLOP/s of 4 B H S^2 d (causal: half) flops.

    python3 bench/bench_flash_fp32.py [COMMIT] >> bench/results/flash_fp32.jsonl

Figures are medians over REPEATS launches, timed by events on one stream with the L2 cache flushed before each. Every
kernel is first compared with double precision on sampled rows; a wrong result is an error, not a line.
"""
import json
import pathlib
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import checkout  # noqa: E402,F401
import attile  # noqa: E402

BATCH, LENGTH, REPEATS, ROWS = 4, 4096, 9, 64
SHAPES = [(64, 32), (128, 16)]  # head_dim, heads
# target, precision, schedule, largest error
KERNELS = [("any", "fp32", "algorithm=flash_tiled loop_order=q_outer", 1e-5),
           ("sm_80", "fp32", "algorithm=flash_tiled loop_order=q_outer", 1e-5),
           ("sm_90", "tf32x3", "algorithm=flash_mma", 1e-5),
           ("sm_90", "tf32x3", "algorithm=flash_mma block_m=64 block_n=32 threads=128 stages=1", 1e-5),
           ("sm_90", "tf32", "algorithm=flash_mma", 2e-3)]


def error(q, k, v, o, causal):
    """The largest error of o in ROWS sampled rows of a few heads, against double precision."""
    worst = 0.0
    rows = torch.linspace(0, LENGTH - 1, ROWS, device=q.device).long()
    for b, h in ((0, 0), (BATCH - 1, q.shape[1] - 1)):
        score = q[b, h, rows].double() @ k[b, h].double().T / q.shape[-1] ** 0.5
        if causal:
            score.masked_fill_(torch.arange(LENGTH, device=q.device) > rows[:, None], -torch.inf)
        worst = max(worst, (score.softmax(-1) @ v[b, h].double() - o[b, h, rows]).abs().max().item())
    return worst


def milliseconds(work, flush):
    times = []
    for _ in range(REPEATS + 2):
        flush.zero_()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times[2:])


def main():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.cuda.get_device_properties(0)
    machine = {"gpu": device.name, "multiprocessors": device.multi_processor_count, "torch": torch.__version__,
               "cuda": torch.version.cuda, "attile": attile.version(), "commit": sys.argv[1] if sys.argv[1:] else None}
    session = attile.Session("cuda")
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for head_dim, heads in SHAPES:
        q, k, v = (torch.randn(BATCH, heads, LENGTH, head_dim, device="cuda") for _ in range(3))
        o = torch.empty_like(q)
        for causal in (False, True):
            flops = 4 * BATCH * heads * LENGTH**2 * head_dim / (2 if causal else 1)

            def report(name, work, result, **more):
                milli = milliseconds(work, flush)
                print(json.dumps({"kernel": name, "head_dim": head_dim, "heads": heads, "batch": BATCH,
                                  "length": LENGTH, "causal": causal, "tflops": round(flops / milli / 1e9, 2),
                                  "ms": round(milli, 3), "error": error(q, k, v, result(), causal), **more, **machine}),
                      flush=True)

            for target, precision, schedule, limit in KERNELS:
                kernel = session.compile(f"family=attention_forward dtype=fp32 head_dim={head_dim} target={target} "
                                         f"precision={precision} mask={'causal' if causal else 'none'}", schedule)
                launch = kernel.bind(q, k, v, o)
                o.fill_(torch.nan)
                launch(torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
                if not error(q, k, v, o, causal) < limit:
                    sys.exit(f"{kernel.name}: error {error(q, k, v, o, causal)}")
                report(kernel.name, lambda: launch(torch.cuda.current_stream().cuda_stream), lambda: o,
                       registers=kernel.info.registers, spill_bytes=kernel.info.spill_bytes,
                       shared_bytes=kernel.info.shared_bytes)
            for name, backend in (("torch memory-efficient", SDPBackend.EFFICIENT_ATTENTION),
                                  ("torch math", SDPBackend.MATH)):
                with sdpa_kernel(backend):
                    work = lambda: scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
                    report(name, work, work)


main()
