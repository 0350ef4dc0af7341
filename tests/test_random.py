#!/usr/bin/env python3
"""Random problems, schedules and sizes on the host device, with its threads in a random order and some problems checked
for races: cases that no spec covers. Each commit draws different ones (tests/helper_part.h), and a failure prints its
command.

    tests/test_random.py build/release/cli/attile [build/release/cli/attile-race]
    ATTILE_SHARD=7 tests/test_random.py build/release/cli/attile     other problems
    ATTILE_RANDOM=100 tests/test_random.py ...                       more problems
"""

import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ATTILE = sys.argv.pop(1) if len(sys.argv) > 1 else f"{ROOT}/build/release/cli/attile"
RACE = sys.argv.pop(1) if len(sys.argv) > 1 else None
PROBLEMS = int(os.environ.get("ATTILE_RANDOM", "20"))

# {name that a formula reads: its declaration}
PARAMS = {"window": "window: int", "doc": "doc: int[batch, len_kv]", "slopes": "slopes: float[heads]",
          "values": "values: bf16[heads, len_kv, len_kv]"}
MASKS = ["none", "causal", "k <= q and q - k < window", "abs(q - k) <= window", "causal and document(doc)", "q // 47 == k // 47"]
SCORES = ["scaled", "softcap(30)", "s + slopes[h] * (k - q)", "s + values[h, max(q, 0), k]", "softcap(2) then s + slopes[h] * (k - q)"]
KERNELS = [  # family, algorithm, target, element types
    ("attention_forward", "flash_tiled", "any", ["fp32", "bf16"]),
    ("attention_forward", "flash", "any", ["fp32", "fp16"]),
    ("attention_forward", "flash_mma", "sm_80", ["fp16", "bf16"]),
    ("attention_forward", "flash_mma", "sm_90", ["fp16", "bf16"]),
    ("attention_forward", "decode", "sm_80", ["fp16", "bf16"]),
    ("attention_forward", "decode", "sm_90", ["fp16", "bf16"]),
    ("attention_forward", "flash_async", "sm_90a", ["fp16", "bf16"]),
    ("attention_backward", "flash_tiled", "any", ["fp32"]),
    ("attention_backward", "flash_mma", "sm_80", ["fp16", "bf16"]),
    ("attention_backward", "flash_async", "sm_90a", ["fp16", "bf16"]),
]
SCHEDULES = {  # {algorithm: [(knob that may be left open, its possible values)]}
    "flash_async": [("rescale", ["lazy", "from_sum"]), ("overlap", ["off", "intra_warpgroup", "both"]), ("stages", [1, 2, 3]),
                    ("store", ["tma", "direct"]), ("cluster", [1, 2]), ("scheduler", ["persistent", "per_tile"]),
                    ("pack_gqa", [0, 1]), ("splits", [0, 1, 3]), ("block_m", [64, 128, 192]), ("block_n", [16, 48, 64])],
    "flash_mma": [("rescale", ["lazy", "from_sum"]), ("stages", [1, 2, 3]), ("splits", [0, 1, 3]), ("block_m", [64, 128]),
                  ("block_n", [16, 32, 64]), ("pack_gqa", [0, 1]), ("q_in", ["q_registers", "q_shared"])],
    "decode": [("splits", [0, 1, 3]), ("stages", [1, 2, 3]), ("block_m", [8, 16, 32]), ("batch_invariant", [0, 1])],
}  # fmt: skip


def draw_size(draw, most):
    """Draws a size up to `most`, often at a tile boundary, or 0."""
    return min(most, draw.choice([0, 1, 16, 17, 64, 65, 128, 129, draw.randint(0, most), draw.randint(0, most)]))


def draw_problem(draw):
    """Draws (problem, shape) as `attile run` takes them; they may be infeasible."""
    family, algorithm, target, dtypes = draw.choice(KERNELS)
    odd = algorithm in ("flash_tiled", "flash", "flash_mma", "decode") and draw.random() < 0.3
    head_dim = draw.randint(1, 80) if odd else 8 * draw.choice([1, 4, 8, 8, 12, 16, 16, 24, 32])
    knobs = {"family": family, "algorithm": algorithm, "target": target, "dtype": draw.choice(dtypes), "head_dim": head_dim,
             "mask": draw.choice(MASKS), "score": draw.choice(SCORES)}  # fmt: skip
    if draw.random() < 0.3:
        knobs["head_dim_v"] = 8 * draw.randint(1, 16)
    for knob, chance, values in (("sinks", 0.2, [1]), ("dropout", 0.2, [1]), ("layout", 0.5, ["padded", "ragged"])):
        if draw.random() < chance:
            knobs[knob] = draw.choice(values)
    if family == "attention_backward" and draw.random() < 0.3:
        knobs["deterministic"] = 1
    if family == "attention_forward" and "layout" in knobs and draw.random() < 0.5:
        knobs["page_size"] = draw.choice([1, 16, 64, 128])
    if family == "attention_forward":
        for knob, values in SCHEDULES.get(algorithm, []):
            if draw.random() < 0.25:
                knobs[knob] = draw.choice(values)
    read = [declared for name, declared in PARAMS.items() if name in knobs["mask"] + knobs["score"]]
    if read:
        knobs["params"] = ", ".join(read)
    kv_heads = draw.randint(1, 3)
    len_kv = draw_size(draw, 300)
    len_q = draw.randint(1, 8) if algorithm == "decode" else draw_size(draw, 300)
    shape = {"batch": draw.randint(1, 4), "heads": kv_heads * draw.choice([1, 1, 2, 3]), "kv_heads": kv_heads, "len_q": len_q,
             "len_kv": len_kv}  # fmt: skip
    problem = " ".join(f'{name}="{value}"' if " " in str(value) else f"{name}={value}" for name, value in knobs.items())
    return problem, ",".join(f"{name}={value}" for name, value in shape.items())


class Random(unittest.TestCase):
    def check(self, problem, shape, seed, program, mode):
        """Runs a problem; returns False if it is not feasible."""
        command = [program, "run", problem, "--shape", shape, "--seed", str(seed), "--device", "host", "--host-mode", mode,
                   "--host-seed", str(seed), "--no-nvrtc", "--no-cache"]  # fmt: skip
        # The thread sanitizer needs addresses without randomisation.
        started = ["setarch", "-R", *command] if mode == "race" else command
        done = subprocess.run(started, capture_output=True, text=True, timeout=500)
        if done.returncode == 3 and re.search("is not feasible|no kernel answers this problem", done.stderr):
            return False
        self.assertEqual(done.returncode, 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
        return True

    def test_problems_agree_with_the_oracle(self):
        draw = random.Random(os.environ.get("ATTILE_SHARD", "0"))
        checked = drawn = 0
        while checked < PROBLEMS:
            drawn += 1
            self.assertLess(drawn, 100 * PROBLEMS, "hardly any problem is feasible")
            problem, shape = draw_problem(draw)
            seed = draw.randint(1, 10**6)
            if self.check(problem, shape, seed, ATTILE, "check"):
                checked += 1
                if RACE and checked % 3 == 0:
                    self.check(problem, shape, seed, RACE, "race")


if __name__ == "__main__":
    unittest.main()
