"""Checks that need a GPU, as JSON lines: is every kernel correct there, also on unkind data, and bit-wise reproducible?

    python3 bench/gpu_checks.py                 everything
    python3 bench/gpu_checks.py --part numbers  accuracy, equal bits run to run, more than 2^31 elements; needs PyTorch
    python3 bench/gpu_checks.py --part unkind   time and accuracy on data that is hard for a softmax; needs PyTorch
    python3 bench/gpu_checks.py --part specs    every spec against the oracle, through `attile run`
    python3 bench/gpu_checks.py --part sanitizer    memcheck and synccheck of the Hopper kernel's specs
    python3 bench/gpu_checks.py --dry-run       the first three on the host device, with small shapes

Exit status 1 when anything is wrong or did not finish.
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import fa3
import kinds
import runner
import unkind
from cases import Case
from kinds import SPECIAL
from worker import Lost, Worker

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "bench/results/gpu_checks.jsonl"

# Kinds of kinds.py. Correct means: at most twice the error of a straightforward computation of the same precision, and
# NaN and infinity exactly where the definition has them.
KINDS = ("normal", "outliers", "growing", "equal", "special")
LAUNCHES = {"cuda": 10, "host": 2}  # launches that must give the same bits


def numbers(dry_run):
    """Returns [(case, kind)]; the shapes have partial tiles, queries without keys, and groups of heads."""
    if dry_run:
        return [(Case("check", 16, 1, len(SPECIAL), 20, True, 0, 17), kind) for kind in KINDS]
    cases = [Case("check", head_dim, batch, 2 * len(SPECIAL), len_q, causal, kv_heads, len_kv)
             for head_dim in (40, 64, 80, 96, 128, 192, 256) for causal in (False, True)
             for batch, kv_heads, len_q, len_kv in ((2, 0, 333, 777), (1, 6, 1000, 900))]
    huge = Case("huge", 128, 8, 32, 66000, True)  # 2.16e9 elements each of Q, K, V and O
    return [(case, kind) for case in cases for kind in KINDS] + [(huge, "normal")]


def start(setup):
    """Runs in a worker process: jobs are (case, kind, problem, schedule)."""
    from contest import WRONG, attile, bind, digits, open_side
    session, side = open_side(setup)

    def serve(job, say):
        if job == "machine":
            return {**side.machine(), "compiler": session.info.compiler, "attile": attile.version()}
        case, kind, problem, schedule = job
        say("kernel", 120)
        kernel = session.compile(case.problem(f"{problem} {case.hints()}"), schedule)
        say("inputs")
        q, k, v = side.inputs(case, kind)
        parameters, o = side.parameters(case), side.output(case)
        reference = side.reference(case, q, k, v, thorough=case.group == "check")
        honest = side.honest(case, q, k, v, reference)[0]
        launch = bind(kernel, side, case, (q, k, v, o), parameters)
        say("launch")
        launch(side.stream)
        side.finish()
        relative, largest = side.error(reference, o)
        first, launches, same = side.copy(o), LAUNCHES[setup["device"]], 1
        for _ in range(launches - 1):
            launch(side.stream)
            side.finish()
            same += side.same(first, o)
        return {"variant": kernel.name, "relative_error": digits(relative), "largest_error": digits(largest),
                "honest_error": digits(honest), "launches": launches, "same_bits": same,
                "ok": math.isfinite(relative) and relative <= WRONG * honest and same == launches}

    return serve


def check_cases(check, start, chosen, keep, jobs, before=None):
    """Runs jobs in a worker and keeps their results. jobs: [(case or trial, kind, job for the worker)]."""
    setup = {"device": "host" if chosen.dry_run else "cuda", "cache_dir": chosen.cache_dir, "fa3": chosen.fa3,
             "fa3_here": bool(chosen.fa3) or fa3.installed()}
    with Worker(start, setup) as worker:
        try:
            machine = worker.run("machine")
        except Lost as loss:
            return keep(check, error=str(loss), ok=False)
        with contextlib.suppress(Lost):  # whatever fails in advance is done, or fails, in its own job
            if before:
                worker.run(before)
        for case, kind, job in jobs:
            runner.progress(f"{case.name}: {kind}")
            try:
                found = worker.run(job)
            except Lost as loss:
                found = {"error": str(loss), "ok": False}
            keep(check, case=case.name, kind=kind, **found, **machine)


def check_numbers(chosen, keep):
    jobs = [(case, kind, (case, kind, chosen.problem, chosen.schedule)) for case, kind in numbers(chosen.dry_run)]
    check_cases("numbers", "gpu_checks:start", chosen, keep, jobs)


def check_unkind(chosen, keep):
    todo = [(trial, kind) for trial, kind in unkind.todo(chosen.dry_run)
            if trial.case.matches(chosen.only) and kind in (chosen.kind or kinds.KINDS)]
    jobs = [(trial, kind, (trial, kind)) for trial, kind in todo]
    check_cases("unkind", "unkind:start", chosen, keep, jobs, ("compile", [trial for trial, _ in todo]))


def command(words, seconds):
    """Runs a command. Returns (exit status, or None on timeout; standard output; end of standard error)."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=seconds)
        return process.returncode, output, errors.strip()[-2000:]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and its children
        process.communicate()
        return None, "", f"not finished within {seconds:.0f} s"


def run_words(chosen, spec):
    return [str(chosen.attile), "run", str(spec.relative_to(ROOT)), "--device", "host" if chosen.dry_run else "cuda",
            "--repeat", "0", "--json"]


def side_by_side(chosen, work, every):
    """Calls work(one) for each, several at a time; yields (one, its result) as they finish."""
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        running = {pool.submit(work, one): one for one in every}
        for done in concurrent.futures.as_completed(running):
            yield running[done], done.result()


def check_specs(chosen, keep):
    specs = [spec for spec in sorted((ROOT / "specs").glob("**/*.yaml"))
             if spec.name == "merge.yaml" or not chosen.dry_run]
    runner.progress(f"attile run, {len(specs)} specs")
    for spec, (status, output, errors) in side_by_side(
            chosen, lambda spec: command(run_words(chosen, spec), chosen.patience), specs):
        try:
            found = json.loads(output)
        except json.JSONDecodeError:
            keep("oracle", what=spec.name, status=status, error=errors, ok=False)
            continue
        states = {}  # {variant: statuses of its shapes}; the worst one counts
        for result in found["results"]:
            states.setdefault(result["variant"], []).append(result["status"])
        elsewhere = [name for name, every in states.items() if set(every) == {"unsupported"}]  # targets of other GPUs
        wrong = [name for name, every in states.items() if set(every) != {"ok"} and name not in elsewhere]
        keep("oracle", what=spec.name, variants=len(states), agree=len(states) - len(wrong) - len(elsewhere),
             elsewhere=len(elsewhere), wrong=wrong[:20], device=found["device"], compiler=found["compiler"],
             ok=status == 0 and not wrong)


def check_sanitizer(chosen, keep):
    """Runs compute-sanitizer. The caches are warm after check_specs, so the time goes to launches."""
    tool = shutil.which("compute-sanitizer", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
    if not tool:
        return keep("compute-sanitizer", error="compute-sanitizer is not installed", ok=False)
    todo = [(name, spec) for name in ("memcheck", "synccheck")
            for spec in sorted((ROOT / "specs").glob("attention_*hopper*.yaml"))]
    runner.progress("compute-sanitizer")
    for (name, spec), (status, output, errors) in side_by_side(
            chosen, lambda one: command([tool, "--tool", one[0], "--error-exitcode", "99", *run_words(chosen, one[1])],
                                        chosen.patience), todo):
        summary = [line for line in (output + errors).splitlines() if "ERROR SUMMARY" in line]
        keep(f"compute-sanitizer {name}", what=spec.name, status=status, summary=" ".join(summary).strip("= "),
             error=None if status == 0 else errors[-500:], ok=status == 0)


PARTS = {"numbers": check_numbers, "unkind": check_unkind, "specs": check_specs, "sanitizer": check_sanitizer}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="only that; may be repeated")
    parser.add_argument("--problem", default="target=sm_90a", metavar="KNOBS", help="of the numbers")
    parser.add_argument("--schedule", default="algorithm=flash_async", metavar="KNOBS", help="of the numbers")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS",
                        help="unkind: cases with all these words")
    parser.add_argument("--kind", action="append", choices=kinds.KINDS, help="unkind: data of this kind; may be repeated")
    fa3.add_option(parser)
    parser.add_argument("--attile", type=pathlib.Path, default=ROOT / "build/release/cli/attile", help="the command")
    parser.add_argument("--patience", type=float, default=150, metavar="SECONDS", help="for one command (150)")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count()), help="commands at a time (8 at most)")
    parser.add_argument("--results", type=pathlib.Path, help="JSON lines (results/gpu_checks.jsonl; dry run: none)")
    parser.add_argument("--cache-dir", help="where compiled kernels are kept")
    parser.add_argument("--commit", help="what is checked, where git does not say")
    parser.add_argument("--dry-run", action="store_true", help="on the host device, without the sanitizer")
    chosen, wrong = parser.parse_args(), []
    version = chosen.commit or runner.commit()
    if chosen.cache_dir:
        os.environ["ATTILE_CACHE_DIR"] = chosen.cache_dir
    with open(chosen.results or (os.devnull if chosen.dry_run else RESULTS), "a") as file:

        def keep(check, ok, **row):
            row = {"check": check, "ok": ok, **{name: value for name, value in row.items() if value is not None}}
            print(json.dumps({**row, "commit": version}), file=file, flush=True)
            runner.progress("")
            if not ok:
                wrong.append(row)
            print("ok   " if ok else "WRONG", check, row.get("case") or row.get("what") or "", row.get("kind", ""),
                  f"{row['ratio']:.2f}x" if "ratio" in row else "", row.get("error", ""), flush=True)

        for name in chosen.part or PARTS:
            if not (chosen.dry_run and name == "sanitizer"):
                PARTS[name](chosen, keep)
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
