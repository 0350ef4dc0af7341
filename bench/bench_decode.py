"""Times few queries over many keys: `decode` beside cuDNN, FlashAttention-2 and a mere read of K and V, in one process
on one GPU.

    python3 bench/bench_decode.py                          every case of decode_cases.py
    python3 bench/bench_decode.py --only "b1 s8192"        the cases whose names have these words
    python3 bench/bench_decode.py --schedule "stages=3 threads=256" --schedule ...
                                                           additionally, the kernel with these knobs; a column each
    python3 bench/bench_decode.py --only append            the launch that attends writes the new tokens to the cache,
                                                           beside `append_kv` and `decode` as two launches

A time is that of one launch in a graph of launches over so many caches that no launch finds its own in L2 (more than
300 MB, at least three caches). Kernels take turns, in a new random order each round; the median of the rounds counts.
All are first compared with a reference in fp32. `fetch` reads K and V of a case and computes nothing. cuDNN and
FlashAttention-2 are called through PyTorch; for several causal queries cuDNN runs without the mask, which it cannot
align with the last key. FlashInfer runs if it is installed, also on pages and on caches of 8 bits with one scale; dense
caches are copied to pages of 16 for it, and several queries are run with both of its kernels. Varying lengths, latent
attention (V in K) and appending are measured without peers; for appending, `two launches` is a step of append_kv and
decode, and `decode alone` is the step without new tokens. Rows are appended to --results as JSON lines.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess

import checkout  # noqa: F401
import decode_cases

RESULTS = pathlib.Path(__file__).parent / "results/decode.jsonl"
WRONG = 0.01  # relative error of O that rounding to bf16 never causes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="cases with all these words")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every kernel (5)")
    parser.add_argument("--milliseconds", type=float, default=20, help="of a turn (20)")
    parser.add_argument("--schedule", action="append", default=[], metavar="KNOBS", help="a column of its own each")
    parser.add_argument("--no-peers", action="store_true", help="ours and fetching alone")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="JSON lines (bench/results/decode.jsonl)")
    parser.add_argument("--commit", help="what is measured, where git does not say")
    chosen = parser.parse_args()
    import decode_cuda  # needs a GPU

    commit = chosen.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True,
                                             text=True).stdout.strip()
    about, rows = {"bench": "decode", "commit": commit, **decode_cuda.machine()}, []
    for case in decode_cases.cases():
        if not case.matches(chosen.only):
            continue
        side = decode_cuda.Side(case)
        works, faults = {}, {}
        makers = {"attile": lambda: side.attile(None), "fetch": side.fetch}
        makers |= {f"attile {knobs}": lambda knobs=knobs: side.attile(knobs) for knobs in chosen.schedule}
        if case.append:
            makers |= {"two launches": side.in_turn, "decode alone": side.alone}
        if not chosen.no_peers and not case.dtype_kv and not case.head_dim_v and case.is_dense:
            makers |= {"cudnn": side.cudnn, "fa2": side.fa2}
        if not chosen.no_peers and decode_cuda.HAS_FLASHINFER and case.suits_pages:
            makers |= {"flashinfer": side.flashinfer}
            if case.len_q > 1:
                makers |= {"flashinfer fa2": lambda: side.flashinfer("fa2")}
        for name, make in makers.items():
            try:
                work = make()
                error = side.error(work) if name != "fetch" else 0
                if not error <= WRONG:
                    raise ValueError(f"O is wrong: relative error {error:.3g}")
                works[name] = side.graph(work)
            except Exception as fault:  # the others are measured anyway
                faults[name] = f"{type(fault).__name__}: {fault}"
        samples = {name: [] for name in works}
        for _ in range(chosen.rounds):
            for name in random.sample(list(works), len(works)):
                samples[name].append(side.microseconds(works[name], chosen.milliseconds))
        us = {name: round(statistics.median(found), 3) for name, found in samples.items() if found}
        row = {**about, "case": case.name, "us": us, "rounds": samples, "bytes": case.bytes, "goal_us": case.goal_us,
               "kernel": side.kernel_name, "faults": faults,
               "tbps": {name: round(case.bytes / time * 1e-6, 3) for name, time in us.items()}}
        rows.append(row)
        with open(chosen.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(decode_cases.markdown([row]), flush=True)
        side.close()
    print(f"Microseconds of a launch, median. {json.dumps(about)}\n\n{decode_cases.markdown(rows)}")


if __name__ == "__main__":
    main()
