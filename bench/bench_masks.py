"""Times masks and scores written as text, beside FlexAttention with its functions and its block mask, in one process.

    python3 bench/bench_masks.py                  every rule at lengths 8192 and 32768, head dimensions 64 and 128
    python3 bench/bench_masks.py --only alibi --only "softcap d64"
    python3 bench/bench_masks.py --target sm_80   mma.sync on both sides: flash_mma, and FlexAttention with Triton's
                                                  code for sm_80 (triton_mma.py), by its tuner or its default; PTX is
                                                  checked
    python3 bench/bench_masks.py --dry-run        without a GPU: tiny shapes on the host device

Cases and checks are as in bench_matrix.py; rules.py has every mask and score as text and as functions. Neither side's
compile time counts. FlexAttention's block mask is made once and timed separately, since a change of lengths or
documents needs a new one; ours needs nothing beforehand. Kernels are compiled into an empty cache, so that
first_seconds in a row is the time from the text to the first result.
"""
import argparse
import json
import os
import pathlib
import tempfile

import protocol
import rules
import runner
import table

RESULTS = pathlib.Path(__file__).parent / "results"
ALGORITHM = "algorithm=flash_mma"  # if a target is given


def milliseconds(row):
    return row["cold"].get("ms") if table.tflops(row) else None


def quotient(a, b):
    return a / b if a and b else None


def markdown(rows, peer):
    """Returns a table with one line per case: times, our speedup, and our speed relative to our own causal kernel."""
    cases = table.by_case(rows)
    head = ["case", "attile ms", "peer ms", "its block mask ms", "times as fast", "with block mask", "first answer s",
            "causal / this"]
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for case, kernels in cases.items():
        shape, rule = case.rsplit(" ", 1)
        ours, theirs = kernels.get("attile"), kernels.get(peer, {})
        mine, other, mask = milliseconds(ours), milliseconds(theirs), theirs.get("block_mask_ms", 0)
        causal = milliseconds(cases.get(f"{shape} causal", {}).get("attile"))
        cells = [_number(mine, 3), _number(other, 3), _number(mask or None, 3), _number(quotient(other, mine), 2),
                 _number(quotient(other and other + mask, mine), 2), _number((ours or {}).get("first_seconds"), 2),
                 _number(quotient(causal, mine), 2)]
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines + table.faults(rows)) + "\n"


def _number(value, places):
    return "-" if value is None else f"{value:.{places}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="cases with all these words")
    parser.add_argument("--seconds", type=float, default=0, help="time for all; cases that do not fit are left out")
    protocol.add_options(parser)
    parser.add_argument("--no-peer", action="store_true", help="ours alone: FlexAttention takes long to compile")
    parser.add_argument("--schedule", default="", metavar="KNOBS", help="in place of the library's choice")
    parser.add_argument("--target", choices=("sm_80",), help="by mma.sync on both sides")
    parser.add_argument("--results", type=pathlib.Path,
                        help="JSON lines (bench/results/masks.jsonl, of a target masks_mma.jsonl; dry run: none)")
    parser.add_argument("--commit", help="what is measured, where git does not say")
    parser.add_argument("--dry-run", action="store_true", help="tiny cases on the host device")
    chosen = parser.parse_args()
    todo = [case for case in (rules.tiny() if chosen.dry_run else rules.cases()) if case.matches(chosen.only)]
    peer = "plain" if chosen.dry_run else "flex_mma" if chosen.target else "flex"
    schedule = f"{ALGORITHM} {chosen.schedule}".strip() if chosen.target else chosen.schedule
    job = {"schedules": {"attile": schedule}, "peers": [] if chosen.no_peer else [peer], "problem": "",
           "target": f"target={chosen.target}" if chosen.target else ""}
    file = RESULTS / ("masks_mma.jsonl" if chosen.target else "masks.jsonl")
    results = chosen.results or pathlib.Path(os.devnull if chosen.dry_run else file)
    about = {"bench": "masks", "commit": chosen.commit, "input": "standard normal, bf16"}
    about |= {"target": chosen.target} if chosen.target else {}
    with tempfile.TemporaryDirectory() as cache:
        setup = {"device": "host" if chosen.dry_run else "cuda", "cache_dir": cache,
                 "triton_mma": f"{cache}/triton" if peer == "flex_mma" else None}
        plan = protocol.Plan(rounds=chosen.rounds, seed=chosen.seed)
        machine, rows = runner.run(setup, todo, job, plan, chosen.seconds, results, about)
    print(f"Median, L2 flushed; peer: {table.title(peer)}. {json.dumps(machine)}\n\n{markdown(rows, peer)}")
    print(table.warnings(rows))


if __name__ == "__main__":
    main()
