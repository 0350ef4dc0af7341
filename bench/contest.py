"""Builds, checks and times attile's kernels and the peers' for one case. Runs in a worker process.

    job   {case, problem: knobs besides the case's, target: further knobs for texts that name a schedule,
           schedules: {name: text}, peers: [name], without: [name], plan}
    text  knobs, or none for the library's choice; it may include the words "fixed", for a kernel of these sizes only,
          and "unhinted", for a kernel that is found without hints of sizes and alignment
    rows  one for each kernel: its figures, or an "error" that says why it has none

A job with "ahead", a list of cases, compiles the kernels of all of them in parallel, so that the device does not wait.
"""
import concurrent.futures
import os
import time

import checkout  # noqa: F401
import attile
import protocol
import triton_mma

WORDS = ("fixed", "unhinted")  # words of a schedule that are not knobs
WRONG = 2  # allowed error, in multiples of an honest computation's of the same precision, in the rows compared with it
APART = 4  # the same for a peer's error, and for our distance from a peer over the whole tensor
ROUNDING = 2.0**-8  # or this: correct results rounded to bf16 may be this far apart, however few rows are exact


def open_side(setup):
    """setup: {device, cache_dir, fa3: a path or None, triton_mma: a folder or None}. Returns (session, side)."""
    if setup.get("triton_mma"):
        triton_mma.prepare(setup["triton_mma"])
    if setup["device"] == "cuda":
        from side_cuda import Side
    else:
        from side_host import Side
    session = attile.Session(setup["device"], cache_dir=setup["cache_dir"], host_mode="check")
    return session, Side(session, setup.get("fa3"))


def start(setup):
    """Returns a function serve, which keeps the session and the side from case to case."""
    session, side = open_side(setup)

    def serve(job, say):
        if job == "machine":
            say("ceilings")
            return {**side.machine(), "arch": session.info.arch, "compiler": session.info.compiler,
                    "attile": attile.version(), **side.ceilings()}
        if "ahead" in job:
            say("compile", 900)
            return compile_ahead(session, job)
        return Contest(session, side, job, say).rows()

    return serve


def request(job, case, schedule):
    """Converts a text to (problem, schedule), as Session.compile takes them."""
    words, knobs = schedule.split(), [job["problem"]]
    knobs += [] if "unhinted" in words else [case.hints()]
    knobs += [case.fixed_knobs()] if "fixed" in words else []
    words = [word for word in words if word not in WORDS]
    if words:
        knobs.append(job["target"])
    return case.problem(" ".join(knobs)), " ".join(words) or None


def compile_ahead(session, job):
    """Returns the number of kernels that compile; the others report their error in their case."""
    requests = {request(job, case, schedule) for case in job["ahead"] for schedule in job["schedules"].values()}
    with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count())) as pool:
        done = [pool.submit(session.compile, *one) for one in sorted(requests, key=str)]
    return sum(one.exception() is None for one in done)


def bind(kernel, side, case, tensors, parameters, lse=None):
    """Returns a launch with the workspace that it needs, which it keeps alive."""
    size = kernel.workspace_size(*tensors[:3], params=parameters)
    kept, workspace = side.workspace(size) if size else (None, None)
    launch = kernel.bind(*tensors, lse, scale=case.scale or None, params=parameters, workspace=workspace)
    launch.kept = (launch.kept, kept)
    return launch


class Contest:
    def __init__(self, session, side, job, say):
        self._session, self._side, self._job, self._say = session, side, job, say
        self._case, self._rows, self._works, self._outputs = job["case"], {}, {}, {}

    def rows(self):
        self._say("inputs")
        self._tensors = self._side.inputs(self._case)
        self._parameters = self._side.parameters(self._case)
        self._reference = self._side.reference(self._case, *self._tensors)
        self._honest = self._side.honest(self._case, *self._tensors, self._reference)[0]
        for name, schedule in self._job["schedules"].items():
            self._enter(name, lambda row: self._ours(schedule, row), 60, schedule=schedule)
        for name, make in self._side.peers(self._case, *self._tensors, self._job["peers"]).items():
            self._enter(name, lambda row: self._theirs(make, row), 240)
        self._compare()
        self._measure()
        return list(self._rows.values())

    def _enter(self, name, make, patience, **about):
        """Makes a kernel, runs it once and checks its result. A kernel that fails here is not timed."""
        if name in self._job["without"]:
            return
        row = self._rows[name] = {"kernel": name, **about}
        self._say(name, patience)
        try:
            work, output = make(row)
            self._side.finish()
            relative, row["largest_error"] = map(digits, self._side.error(self._reference, output))
            row.update(relative_error=relative, honest_error=digits(self._honest))
            if not relative <= (WRONG if "schedule" in row else APART) * self._honest:
                raise ValueError(f"wrong: relative error {relative}, an honest computation has {digits(self._honest)}")
            self._works[name], self._outputs[name] = work, output
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"
            self._side.finish()  # a lost device fails here, and ends this process

    def _ours(self, schedule, row):
        began = time.perf_counter()
        kernel = self._session.compile(*request(self._job, self._case, schedule))
        info, output, lse = kernel.info, self._side.output(self._case), self._side.lse(self._case)
        row.update(variant=kernel.name, registers=info.registers, spill_bytes=info.spill_bytes,
                   shared_bytes=info.shared_bytes, compile_seconds=round(info.compile_seconds, 3),
                   origin=info.origin)
        launch = bind(kernel, self._side, self._case, (*self._tensors, output), self._parameters, lse)
        stream = self._side.stream
        launch(stream)
        self._side.finish()
        row["first_seconds"] = round(time.perf_counter() - began, 4)  # from the text to the result
        share = self._side.lse_error(self._case, *self._tensors[:2], lse)
        if share is not None:
            row["lse_error"] = digits(share)
            if not share <= 1:
                raise ValueError(f"wrong: an LSE is {share:.3g} times as far off as docs/numerics.md allows")
        return lambda: launch(stream), output

    def _theirs(self, make, row):
        work, notes = make()
        row.update(notes)
        return work, work()

    def _compare(self):
        """Compares ours with every peer over the whole tensor: the rows sampled above are few."""
        for name in [name for name in self._works if "schedule" in self._rows[name]]:
            apart = {peer: digits(self._side.distance(self._outputs[peer], self._outputs[name]))
                     for peer in self._works if "schedule" not in self._rows[peer]}
            self._rows[name]["apart"] = apart
            if apart and not min(apart.values()) <= max(APART * self._honest, ROUNDING):
                self._rows[name]["error"] = f"wrong: apart from every peer, {apart}"
                del self._works[name]

    def _measure(self):
        before = {name: self._side.copy(self._outputs[name]) for name in self._works if "schedule" in self._rows[name]}
        found = protocol.measure(self._works, self._side, self._job["plan"], before=lambda name: self._say(name, 60))
        for name, modes in found.items():
            self._rows[name].update({mode: protocol.summary(rounds, self._case.flops)
                                     for mode, rounds in modes.items()})
        for name, copy in before.items():  # still the same bits after hundreds of launches?
            self._rows[name]["same_bits"] = self._side.same(copy, self._outputs[name])


def digits(x):
    return float(f"{x:.3g}")
