"""Runs cases one after the other in a worker, whatever happens to the worker; keeps every row.

A run in the results is one line that describes the machine, then one line per kernel and case, with the same "run".
"""
import dataclasses
import datetime
import json
import pathlib
import subprocess
import sys
import time

import table
import tuned
from worker import Lost, Worker

WARM_SOAK = 0.25  # share of the plan's soak in cases after the first: the machine is warm
LOSSES = 2  # how often a kernel may take down the process; then the remaining cases skip it


def commit():
    """The version that is measured, as git describes it; None outside a checkout."""
    try:
        text = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "describe", "--always", "--dirty"],
                              capture_output=True, text=True)
    except OSError:
        return None
    return text.stdout.strip() or None


def run(setup, todo, job, plan, seconds, results, about, ahead=False):
    """Runs all cases `todo` within `seconds` (0: no limit). Returns (the machine, the rows). `ahead`: compiles all
    kernels first, in parallel.

    setup and job are those of contest.py; `about` is added to the first line of the run in the file `results`.
    """
    began = time.monotonic()
    version = about.get("commit") or commit()
    name = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ} {version or ''}".strip()
    rows, losses, kernels = [], {}, len(job["schedules"]) + len(job["peers"])
    results.parent.mkdir(parents=True, exist_ok=True)
    with Worker("contest:start", setup) as worker, open(results, "a") as file:

        def keep(row):
            print(json.dumps(row), file=file, flush=True)

        try:
            machine = worker.run("machine")
        except Lost as loss:
            sys.exit(f"cannot start: {loss.reason}")
        keep({"run": name, **about, "commit": version, **machine, "rounds": plan.rounds,
              "seed": plan.seed})
        if ahead:
            try:
                worker.run({**job, "ahead": todo}, lambda what: progress(f"{what}: the kernels of {len(todo)} cases"))
            except Lost as loss:  # each case then compiles its own kernels
                print(f"compile: {loss.reason}", file=sys.stderr)
        known = tuned.shapes(tuned.table(machine.get("gpu")))
        for number, case in enumerate(todo):
            left = began + seconds - time.monotonic() if seconds else 1e9
            if left <= 0:
                print(f"out of time: {len(todo) - number} of {len(todo)} cases left out", file=sys.stderr)
                break
            label = f"[{number + 1}/{len(todo)}] {case.name}"
            one = dataclasses.replace(plan, seed=f"{plan.seed} {case.name}", soak_ms=plan.soak_ms * (WARM_SOAK if number else 1))
            share = one.within(0.8 * left / (len(todo) - number), kernels)
            found = contest(worker, {**job, "case": case, "plan": share}, losses,
                            lambda what: progress(f"{label}: {what}"))
            for row in found:
                rows.append({"run": name, "case": case.name, "group": case.group, "tuned": tuned.has(known, case),
                             **row})
                keep(rows[-1])
            progress("")
            print(label, *(f" {row['kernel']} {table.tflops(row) or 'failed'}" for row in found), file=sys.stderr)
    return machine, rows


def contest(worker, job, losses, listen):
    """Returns the rows of one case. A kernel that takes down the worker gets an error, and the others another try."""
    named, lost = [*job["schedules"], *job["peers"]], []
    while True:
        job["without"] = [row["kernel"] for row in lost] + [name for name, n in losses.items() if n >= LOSSES]
        try:
            return lost + worker.run(job, listen)
        except Lost as loss:
            if loss.what not in named:  # no kernel is known to be at fault
                return lost + [failed(job, name, str(loss)) for name in named if name not in job["without"]]
            losses[loss.what] = losses.get(loss.what, 0) + 1
            lost.append(failed(job, loss.what, f"lost: {loss.reason}"))


def failed(job, name, error):
    schedule = {"schedule": job["schedules"][name]} if name in job["schedules"] else {}
    return {"kernel": name, **schedule, "error": error}


def progress(text):
    """Prints one line that the next one overwrites, on a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:119]}", end="", file=sys.stderr, flush=True)
