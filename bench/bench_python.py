"""Measures the host time of one call from Python, and the time to the first result, beside PyTorch's own.

    python3 bench/bench_python.py [--device cuda] [--no-first]      prints JSON lines

Host time: the time until a call returns, with everything prepared: the median over batches of calls; the host waits for
the device between batches, never within one. All calls take turns in one process. On a CPU, where a launch computes at
once, there are no queries, so that only the call is left.
First call: from the end of the libraries' import to the first result, each in a process of its own with empty caches.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import checkout  # noqa: F401

BATCHES, CALLS, WARM = 40, 200, 50
HEADS, LENGTH, DIM = 4, 128, 64
FIRST = {"batch": 2, "heads": 16, "length": 2048, "window": 256}

ATTILE = """
import attile.torch
def answer(q, k, v):
    return attile.flex_attention(q, k, v, mask_mod=lambda b, h, q, kv: (q >= kv) & (q - kv < WINDOW))
"""
FLEX = """
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
def answer(q, k, v):
    mask = create_block_mask(lambda b, h, q, kv: (q >= kv) & (q - kv < WINDOW), None, None, q.shape[2], k.shape[2],
                             device=q.device)
    return torch.compile(flex_attention)(q, k, v, block_mask=mask)
"""
CLOCK = """
def finish():
    torch.cuda.synchronize() if DEVICE == "cuda" else None
q, k, v = (torch.randn(BATCH, HEADS, LENGTH, 64, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
finish()
start = time.perf_counter()
answer(q, k, v)
finish()
print(time.perf_counter() - start)
"""


def calls(device):
    """Returns {name: a call whose arguments are prepared}."""
    import attile.torch
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    rows = LENGTH if device == "cuda" else 0
    q = torch.randn(1, rows, HEADS, DIM, device=device, dtype=dtype)
    k, v = (torch.randn(1, LENGTH, HEADS, DIM, device=device, dtype=dtype) for _ in range(2))
    out, first = torch.empty_like(q), [x.transpose(1, 2) for x in (q, k, v)]
    kernel = attile.compile(f"dtype={'bf16' if device == 'cuda' else 'fp32'} head_dim={DIM} mask=causal",
                            device="cuda" if device == "cuda" else "host")
    launch = kernel.bind(q, k, v, out, layout="bshd")
    operator, stream = torch.ops.attile.attention.default, 0
    found = {
        "attile bound launch": lambda: launch(stream),
        "attile Kernel, out given": lambda: kernel(q, k, v, out, layout="bshd"),
        "attile Kernel": lambda: kernel(q, k, v, layout="bshd"),
        "torch.ops.attile.attention": lambda: operator(q, k, v, [], [], "mask=causal", None, "bshd", ""),
        "attile.attention": lambda: attile.attention(q, k, v, mask="causal"),
        "attile scaled_dot_product_attention": lambda: attile.torch.scaled_dot_product_attention(*first, is_causal=True),
        "F.scaled_dot_product_attention": lambda: scaled_dot_product_attention(*first, is_causal=True),
    }
    if importlib.util.find_spec("flash_attn") and device == "cuda":
        from flash_attn import flash_attn_func
        found["flash_attn_func"] = lambda: flash_attn_func(q, k, v, causal=True)
    return found


def host_times(device):
    """Returns {name: microseconds of one call}: medians over batches that take turns."""
    import torch
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    works, times = calls(device), {}
    with torch.no_grad():
        for work in works.values():
            for _ in range(WARM):
                work()
        for _ in range(BATCHES):
            for name, work in works.items():
                finish()
                start = time.perf_counter()
                for _ in range(CALLS):
                    work()
                times.setdefault(name, []).append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: round(statistics.median(some), 2) for name, some in times.items()}


def first_call(program, device):
    """Returns seconds, or why there is no result."""
    numbers = f"DEVICE, BATCH, HEADS, LENGTH, WINDOW = {device!r}, {FIRST['batch']}, {FIRST['heads']}, {FIRST['length']}, {FIRST['window']}\n"
    if device == "cpu":
        numbers = numbers.replace(f"{FIRST['length']}, ", "128, ")
    with tempfile.TemporaryDirectory() as folder:
        caches = {"ATTILE_CACHE_DIR": f"{folder}/attile", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
                  "TRITON_CACHE_DIR": f"{folder}/triton", "CUDA_CACHE_PATH": f"{folder}/driver"}
        path = os.pathsep.join([str(pathlib.Path(__file__).parents[1] / "python"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run([sys.executable, "-c", f"import time\nimport torch\n{numbers}{program}{CLOCK}"],
                              env={**os.environ, **caches, "PYTHONPATH": path}, capture_output=True, text=True)
    return {"seconds": round(float(done.stdout), 3)} if done.returncode == 0 else {"error": done.stderr.strip()[-300:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--no-first", action="store_true", help="host times alone")
    chosen = parser.parse_args()
    import attile
    import torch
    machine = {"device": torch.cuda.get_device_name() if chosen.device == "cuda" else "cpu", "torch": torch.__version__,
               "python": sys.version.split()[0], "attile": attile.version()}
    for name, microseconds in host_times(chosen.device).items():
        print(json.dumps({"what": "host time", "call": name, "microseconds": microseconds, **machine}), flush=True)
    for name, program in () if chosen.no_first else (("attile", ATTILE), ("FlexAttention", FLEX)):
        print(json.dumps({"what": "first call", "call": name, **first_call(program, chosen.device), **machine}), flush=True)


if __name__ == "__main__":
    main()
