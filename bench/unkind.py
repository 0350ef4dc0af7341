"""Checks that the kernel is as accurate and as fast on unkind data as on normal data. One kernel and kind at a time.

Accurate means an error, in sampled rows against double precision, of at most twice that of an honest computation of the
same precision: exact maxima, P rounded to the input's type, O rounded to its type. Both errors are against the
unrounded result, so that both include the rounding of O. If an honest computation makes no error at all, EXACT of the
norm is allowed: one key takes all the weight, O is a row of V, which its type represents exactly, and no rounding
excuses another value. NaN and infinity must be exactly where they are in double precision. As fast means within RATIO
of the time on normal data, both measured alternately; if inputs are not finite, kernels may recompute rows.
"""
import concurrent.futures
import dataclasses
import math
import os

import kinds
import protocol
from cases import HIDDEN, TOKENS, Case
from contest import WRONG, attile, bind, digits, open_side
from rules import RuleCase

EXACT = 1e-6
RATIO = {True: 1.15, False: 2}  # by whether all inputs are finite
SLOW = 10  # a time so many times that on normal data needs no precise measurement
PLAN = protocol.Plan(soak_ms=0, settle_ms=0, readings=1, warmup_ms=5, repeat_ms=20)  # many measurements in little time

EVERY = tuple(kind for kind in kinds.KINDS if kind not in ("normal", "outliers", "growing", "special"))
SOME = ("deviation_8", "deviation_64", "rising", "falling", "hot_first", "hot_last", "equal", "outliers_v", "nan_k",
        "nan_v", "nan_row_v", "nan_spread_v", "nan_channel_v", "all_nan")
FEW = ("deviation_8", "deviation_64", "rising", "hot_last", "nan_v")
MASKS = ("none", "causal", "window")


@dataclasses.dataclass(frozen=True)
class Trial:
    """A kernel at a shape."""
    case: Case
    schedule: str = ""  # none: the library's choice
    knobs: str = ""  # further knobs of the problem

    @property
    def name(self):
        return f"{self.case.name} {self.schedule}".strip()

    def problem(self):
        return f"{self.case.problem(self.knobs)} {self.case.hints()}"


def _case(head_dim, length, mask, batch=0, heads=0, **more):
    sizes = ("unkind", head_dim, batch or TOKENS // length, heads or HIDDEN // head_dim, length)
    if mask in ("none", "causal"):
        return Case(*sizes, mask == "causal", **more)
    return RuleCase(*sizes, False, rule=mask, **more)


def todo(dry_run):
    """Returns [(trial, kind)]: every kind with each head dimension and mask at length 4096; a third of the kinds, a
    different third each time, at 512; and some with each option."""
    if dry_run:
        small = [Trial(_case(16, 20, mask, 1, 2)) for mask in MASKS]
        return [(small[1], kind) for kind in EVERY] + [(trial, kind) for trial in small for kind in FEW]
    base = [(head_dim, mask) for head_dim in (64, 128, 256) for mask in MASKS]
    found = [(Trial(_case(head_dim, 4096, mask)), EVERY) for head_dim, mask in base]
    found += [(Trial(_case(head_dim, 512, mask)), EVERY[number % 3::3])
              for number, (head_dim, mask) in enumerate(base)]
    options = [Trial(_case(128, 4096, "none", dtype="fp16")), Trial(_case(64, 4096, "causal", dtype="fp16")),
               Trial(_case(128, 4096, "softcap")), Trial(_case(128, 4096, "alibi")), Trial(_case(128, 4096, "bias")),
               Trial(_case(128, 4096, "document")),
               Trial(_case(128, 4096, "causal", scale=-0.09)),
               Trial(_case(128, 4096, "causal"), "algorithm=flash_async cluster=2", "target=sm_90a"),
               Trial(_case(128, 4096, "causal", kv_heads=4), "algorithm=flash_async pack_gqa=1", "target=sm_90a")]
    found += [(trial, SOME) for trial in options]
    found += [(Trial(_case(64, 2048, mask, 4, dtype="fp32"), "algorithm=flash_tiled"), FEW) for mask in MASKS[:2]]
    return [(trial, kind) for trial, some in found for kind in some]


def faults(row, finite, timed=True):
    """Returns the faults of a row."""
    honest = row["honest_error"] if math.isfinite(row["honest_error"]) else 0
    found = []
    if not row["relative_error"] <= WRONG * honest + EXACT:
        found.append(f"error {row['relative_error']:.3g}, an honest computation has {row['honest_error']:.3g}")
    if timed and not row["ratio"] <= RATIO[finite]:
        found.append(f"{row['ratio']:.3g} times the time on normal data, expected {RATIO[finite]} at most")
    if not row["same_bits"]:
        found.append("not the same bits after the last launch")
    return found


def start(setup):
    """Runs in a worker process: jobs are "machine", ("compile", [trial]) and (trial, kind)."""
    session, side = open_side(setup)
    bench, timed = Bench(session, side, setup.get("fa3_here")), setup["device"] == "cuda"

    def serve(job, say):
        if job == "machine":
            return {**side.machine(), "compiler": session.info.compiler, "attile": attile.version()}
        if job[0] == "compile":
            say("compile", 600)
            return bench.compile(job[1])
        trial, kind = job
        try:
            row = bench.row(trial, kind, say)
        except Unbuilt as error:  # the device is intact, so the next job may run in this process
            return {"error": str(error), "ok": False}
        found = faults(row, kinds.finite(kind), timed)
        return {**row, "ok": not found, **({"error": "; ".join(found)} if found else {})}

    return serve


class Unbuilt(Exception):
    pass


class Bench:
    """Keeps the kernel and the normal data of the last trial for its next kind."""

    def __init__(self, session, side, fa3_here):
        self._session, self._side, self._fa3_here, self._trial = session, side, fa3_here, None

    def compile(self, trials):
        """Compiles all kernels in parallel, so that later jobs find them; a failing one reports its error there."""
        with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count())) as pool:
            done = [pool.submit(self._find, trial) for trial in dict.fromkeys(trials)]
        return sum(one.exception() is None for one in done)

    def _find(self, trial):
        try:
            return self._session.compile(trial.problem(), trial.schedule or None)
        except attile.Error as error:
            raise Unbuilt(error) from error

    def _prepare(self, trial):
        if trial == self._trial:
            return
        self._trial, self._kernel = None, self._find(trial)
        self._normal = self._side.inputs(trial.case)
        self._parameters = self._side.parameters(trial.case)
        self._trial = trial

    def _ours(self, tensors):
        """Returns (the callable, its output after one run)."""
        case, kernel, stream = self._trial.case, self._kernel, self._side.stream
        output = self._side.output(case)
        launch = bind(kernel, self._side, case, (*tensors, output), self._parameters)
        launch(stream)
        self._side.finish()
        return lambda: launch(stream), output

    def row(self, trial, kind, say):
        say("kernel", 120)
        self._prepare(trial)
        case, side = trial.case, self._side
        say("inputs")
        tensors = side.inputs(case, kind)
        reference = side.reference(case, *tensors)
        honest, _ = side.honest(case, *tensors, reference)
        say("launch")
        works = {}  # {name of the time in the row: callable}
        (works["ms"], output), (works["normal_ms"], _) = self._ours(tensors), self._ours(self._normal)
        first = side.copy(output)
        relative, largest = side.error(reference, output)
        row = {"variant": self._kernel.name, "relative_error": digits(relative), "largest_error": digits(largest),
               "honest_error": digits(honest)}
        row.update(self._fa3(works, tensors, reference))
        say("time", 120)
        row.update({name: digits(ms) for name, ms in self._times(works).items()})
        row["ratio"] = digits(row["ms"] / row["normal_ms"])
        if "fa3_ms" in row:
            row["fa3_ratio"] = digits(row["fa3_ms"] / row["fa3_normal_ms"])
        row["same_bits"] = side.same(first, output)
        return row

    def _fa3(self, works, tensors, reference):
        """FlashAttention-3 on the same data, if it is available and supports the problem."""
        case, side = self._trial.case, self._side
        if not self._fa3_here or self._trial.schedule or case.dtype != "bf16" or case.scale or hasattr(case, "rule"):
            return {}
        try:
            unkind, normal = (side.fa3(case, *of, splits=(1,))[0] for of in (tensors, self._normal))
            error = digits(side.error(reference, unkind())[0])
            works.update(fa3_ms=unkind, fa3_normal_ms=normal)
            return {"fa3_error": error}
        except Exception as error:
            side.finish()
            return {"fa3_fails": f"{type(error).__name__}: {error}"}

    def _times(self, works):
        """Returns {name: median milliseconds}."""
        once = {name: min(self._side.times(work, 2, True)) for name, work in works.items()}
        if once["ms"] > SLOW * once["normal_ms"]:
            return once
        found = protocol.measure(works, self._side, PLAN)
        return {name: protocol.summary(modes["cold"], 1)["ms"] for name, modes in found.items()}
