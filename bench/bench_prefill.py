"""Times prompts that are packed, padded or in pages, beside dense ones with the same work, in one process on one GPU.

    python3 bench/bench_prefill.py                           every case of prefill_cases.py
    python3 bench/bench_prefill.py --only d128 --only causal
    python3 bench/bench_prefill.py --schedule "splits=1"     knobs for every side, in place of the library's choice

Ours alone, in bf16. Figures are medians over rounds in which the sides take turns in random order, timed by events on
one stream, with the L2 cache flushed by reading before each, while the host runs ahead. O of every side is first
compared with double precision, in one head. `varied` has sequences of 1 to twice the length; its time is compared with
dense ones through TFLOP/s. Rows are appended to --results as JSON lines.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import statistics
import subprocess

import checkout  # noqa: F401
import prefill_cases

RESULTS = pathlib.Path(__file__).parent / "results/prefill.jsonl"
WRONG = 0.01  # relative error of O that rounding to bf16 never causes
AHEAD = 1_000_000  # clocks that the GPU idles before each launch


def compiled(cases, schedule):
    """Returns {problem: kernel, or the exception}; compiles in parallel."""
    import attile

    def one(problem):
        try:
            return attile.compile(problem, schedule)
        except attile.errors.Error as fault:
            return fault

    problems = sorted({case.problem(side) for case in cases for side in prefill_cases.SIDES})
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(problems, pool.map(one, problems)))


class Prompts:
    """The same tokens in every layout."""

    def __init__(self, case):
        import torch

        self.torch, self.case = torch, case
        shape = prefill_cases.TOKENS, case.heads, case.head_dim
        torch.manual_seed(1)
        self.packed = [torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3)]

    def work(self, side, kernel):
        """Returns a function that starts the launch; its attribute `o` is the output, (tokens, heads, head_dim) or
        (batch, tokens, heads, head_dim)."""
        import attile

        lengths, (q, k, v) = side.lengths(self.case), self.packed
        if side.layout == "ragged":
            starts, longest = self._ints([sum(lengths[:i]) for i in range(len(lengths) + 1)]), max(lengths)
            sequences = attile.Sequences(cu_seqlens_q=starts, max_len_q=longest, max_len_kv=longest)
            if side.page_size:
                table, k, v = self._pages(side, lengths)
                sequences = sequences._replace(lengths_kv=self._ints(lengths), page_table=table)
            else:
                sequences = sequences._replace(cu_seqlens_kv=starts)
        else:
            q, k, v = (self._dense(x, side) for x in (q, k, v))
            sequences = attile.Sequences(lengths_kv=self._ints(lengths)) if side.layout == "padded" else None
        o = self.torch.full_like(q, self.torch.nan)
        launch = kernel.bind(q, k, v, o, layout="bhsd" if side.order == "hnd" else "bshd", sequences=sequences)

        def work():
            launch(self.torch.cuda.current_stream().cuda_stream)

        work.o = o.transpose(1, 2) if side.order == "hnd" and side.layout != "ragged" else o
        return work

    def _ints(self, numbers):
        return self.torch.tensor(numbers, dtype=self.torch.int32, device="cuda")

    def _dense(self, x, side):
        x = x.view(self.case.batch, self.case.length, *x.shape[1:])
        return x.transpose(1, 2).contiguous() if side.order == "hnd" else x

    def _pages(self, side, lengths):
        """Returns page numbers in random order, and K and V in pages."""
        torch, size = self.torch, side.page_size
        counts = [-(-length // size) for length in lengths]
        numbers = torch.randperm(sum(counts), device="cuda", dtype=torch.int32)
        table = torch.zeros(len(lengths), max(counts), dtype=torch.int32, device="cuda")
        k, v = (torch.zeros(sum(counts), size, *x.shape[1:], dtype=x.dtype, device="cuda") for x in self.packed[1:])
        first, page = 0, 0
        for row, length, count in zip(table, lengths, counts):
            row[:count] = numbers[page:page + count]
            for x, pages in ((self.packed[1], k), (self.packed[2], v)):
                padded = torch.zeros(count * size, *x.shape[1:], dtype=x.dtype, device="cuda")
                padded[:length] = x[first:first + length]
                pages[row[:count].long()] = padded.view(count, size, *x.shape[1:])
            first, page = first + length, page + count
        if side.order == "hnd":
            k, v = (x.transpose(1, 2).contiguous() for x in (k, v))
        return table, k, v

    def error(self, work, side):
        """The relative error in the Frobenius norm, in the last head of the last sequence."""
        torch, length = self.torch, side.lengths(self.case)[-1]
        work()
        q, k, v, found = (x.flatten(0, -3)[-length:, -1].double() for x in (*self.packed, work.o))
        score = q @ k.T / self.case.head_dim**0.5
        if self.case.causal:
            score.masked_fill_(torch.ones_like(score, dtype=torch.bool).triu(1), -torch.inf)
        right = score.softmax(-1) @ v
        return ((found - right).norm() / right.norm()).item()


def milliseconds(works, flush, rounds):
    """Returns {name: [ms of each round]}. The host runs ahead, so that the times do not include its calls."""
    import torch

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
    torch.cuda.synchronize()
    return {name: [start.elapsed_time(stop) for start, stop in pairs[2:]] for name, pairs in events.items()}


def measure(case, kernels, rounds, flush):
    """Returns a row: milliseconds, TFLOP/s, kernel and error of every side; faults of those that fail."""
    prompts, works, errors, names, faults = Prompts(case), {}, {}, {}, {}
    for side in prefill_cases.SIDES:
        try:
            kernel = kernels[case.problem(side)]
            if isinstance(kernel, Exception):
                raise kernel
            work = prompts.work(side, kernel)
            errors[side.name], names[side.name] = prompts.error(work, side), kernel.name
            if not errors[side.name] <= WRONG:
                raise ValueError(f"O is wrong: relative error {errors[side.name]:.3g}")
            works[side.name] = work
        except Exception as fault:  # the others are measured anyway
            faults[side.name] = f"{type(fault).__name__}: {fault}"
    ms = {name: round(statistics.median(found), 5) for name, found in milliseconds(works, flush, rounds).items()}
    tflops = {side.name: round(case.flops(side.lengths(case)) / ms[side.name] / 1e9, 1)
              for side in prefill_cases.SIDES if side.name in ms}
    return {"case": case.name, "ms": ms, "tflops": tflops, "ratios": prefill_cases.ratios(tflops), "kernels": names,
            "errors": {name: float(f"{one:.2g}") if math.isfinite(one) else None for name, one in errors.items()}, "faults": faults}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="d128, S4096, causal or full; several narrow it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--schedule", metavar="KNOBS", help="in place of the library's choice")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="JSON lines (bench/results/prefill.jsonl)")
    parser.add_argument("--commit", help="what is measured, where git does not say")
    chosen = parser.parse_args()
    import torch
    import side_cuda

    commit = chosen.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True,
                                             text=True).stdout.strip()
    properties = torch.cuda.get_device_properties(0)
    about = {"bench": "prefill", "commit": commit, "gpu": properties.name, "driver": side_cuda.Monitor().driver(),
             "cuda": torch.version.cuda, "torch": torch.__version__, "schedule": chosen.schedule, "rounds": chosen.rounds}
    cases, rows = [case for case in prefill_cases.cases() if case.matches(chosen.only)], []
    kernels, flush = compiled(cases, chosen.schedule), torch.zeros(64 << 20, device="cuda")
    for case in cases:
        rows.append({**about, **measure(case, kernels, chosen.rounds, flush)})
        with open(chosen.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    print(f"TFLOP/s of dense tensors, and times in proportion for the same work. {json.dumps(about)}\n\n"
          f"{prefill_cases.markdown(rows)}")


if __name__ == "__main__":
    main()
