"""Times the forward kernel beside cuDNN, FlashAttention-2 and others, on every shape of cases.py, in one process.

    python3 bench/bench_matrix.py                                 the whole matrix, L2 flushed before each launch
    python3 bench/bench_matrix.py --warm --flex                   with a warm L2 as well; FlexAttention, slow to compile
    python3 bench/bench_matrix.py --fa3 LIBRARY                   FlashAttention-3 as well (fa3.py says how)
    python3 bench/bench_matrix.py --quick --seconds 120           a subset, in about that time
    python3 bench/bench_matrix.py --only d128 --only "d64 causal" the cases whose names have these words
    python3 bench/bench_matrix.py --schedule choice --schedule fixed --schedule "block_n=176 stages=3" --schedule ...
                                                                  a column each: the library's choice, the same with
                                                                  constant sizes ("fixed" can be combined with knobs);
                                                                  "unhinted" is the choice without hints
    python3 bench/bench_matrix.py --variants FILE                 the same, one schedule per line
    python3 bench/bench_matrix.py --dry-run                       without a GPU: tiny shapes on the host device

Every kernel is first compared with double precision in sampled rows and with the peers everywhere; a kernel that is
wrong, cannot be built, hangs or loses the device is an error in its row. Rows are appended to --results as JSON lines;
the table goes to standard output.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import sys

import cases
import contest
import fa3
import protocol
import runner
import table

RESULTS = pathlib.Path(__file__).parent / "results/matrix.jsonl"
TARGET = "sm_90a"
ALGORITHM = "algorithm=flash_async"  # for schedules that name no algorithm


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a subset of the cases")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="cases with all these words")
    parser.add_argument("--seconds", type=float, default=0, help="time for all; cases that do not fit are left out")
    protocol.add_options(parser)
    parser.add_argument("--warm", action="store_true", help="also without flushing L2")
    parser.add_argument("--peers", help="comma-separated (cudnn,fa2, and fa3,flashinfer where they are); or none")
    fa3.add_option(parser)
    parser.add_argument("--flex", action="store_true", help="FlexAttention too")
    parser.add_argument("--schedule", action="append", default=[], metavar="KNOBS", help="a column of its own each")
    parser.add_argument("--variants", type=pathlib.Path, metavar="FILE", help="schedules, one a line; # comments")
    parser.add_argument("--target", help=f"of all kernels; else the library chooses it, and schedules that are given are for {TARGET}")
    parser.add_argument("--results", type=pathlib.Path, help="JSON lines (bench/results/matrix.jsonl; dry run: none)")
    parser.add_argument("--cache-dir", help="where compiled kernels are kept")
    parser.add_argument("--commit", help="what is measured, where git does not say")
    parser.add_argument("--dry-run", action="store_true", help="tiny cases on the host device")
    return parser.parse_args()


def schedules(chosen):
    """Returns {name of the column: text as contest.py takes it}; by default, the library's own choices."""
    texts = list(chosen.schedule)
    if chosen.variants:
        lines = (line.split("#")[0].strip() for line in chosen.variants.read_text().splitlines())
        texts += [line for line in lines if line]
    given = {} if texts else dict(table.CHOICES)
    for text in texts:
        words = text.split()
        if not {"choice", *contest.WORDS} >= set(words) and not any(word.startswith("algorithm") for word in words):
            words.insert(0, ALGORITHM)
        words = [word for word in words if word != "choice"]
        given["attile" if not words else f"attile {text}"] = " ".join(words)
    return given


def peers(chosen):
    """Returns the peers that are requested, else those that are installed."""
    if chosen.dry_run:
        return ["plain"]
    here = {"cudnn": True, "fa2": True, "fa3": chosen.fa3 or fa3.installed(),
            "flashinfer": importlib.util.find_spec("flashinfer"), "flex": chosen.flex}
    if chosen.peers is None:
        return [name for name in here if here[name]]
    return [name for name in chosen.peers.split(",") if name != "none"] + ["flex"] * bool(chosen.flex)


def main():
    chosen = options()
    todo = cases.tiny() if chosen.dry_run else cases.matrix()
    todo = [case for case in todo if case.matches(chosen.only) and (not chosen.quick or cases.quick(case))]
    if not todo:
        sys.exit("no case has these words; a case is called " + cases.matrix()[0].name)
    setup = {"device": "host" if chosen.dry_run else "cuda", "cache_dir": chosen.cache_dir, "fa3": chosen.fa3}
    target = f"target={chosen.target}" if chosen.target else ""
    job = {"schedules": schedules(chosen), "peers": list(dict.fromkeys(peers(chosen))), "problem": target,
           "target": "" if target else f"target={TARGET}"}
    results = chosen.results or pathlib.Path(os.devnull if chosen.dry_run else RESULTS)
    about = {"bench": "matrix", "commit": chosen.commit, "input": "standard normal, bf16"}
    plan = protocol.Plan(rounds=chosen.rounds, seed=chosen.seed, warm_too=chosen.warm)
    machine, rows = runner.run(setup, todo, job, plan, chosen.seconds, results, about, ahead=True)
    print(f"TFLOP/s, median, L2 flushed. {json.dumps(machine)}\n\n{table.markdown(rows)}")
    if chosen.warm:
        print(f"The same with a warm L2.\n\n{table.markdown(rows, 'warm')}")
    print(table.warnings(rows))


if __name__ == "__main__":
    main()
