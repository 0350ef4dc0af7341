"""A separate process for work that may hang or die: jobs in, rows out.

A kernel under development can hang the device or lose its context for good. So cases run in a child process that
announces each step; when it falls silent or ends, the parent knows what it was doing and starts another.

The child's side is a function serve(job, say) -> rows, where say(what, patience) names the next step and how many
seconds it may take.
"""
import importlib
import multiprocessing
import time


class Lost(Exception):
    """The child ended or fell silent. what: the step that it was doing; reason: why it is lost."""

    def __init__(self, what, reason):
        super().__init__(f"{what}: {reason}")
        self.what, self.reason = what, reason


class Worker:
    """module:function is looked up in the child, called once with `setup`, and must return serve."""

    def __init__(self, where, setup):
        self._where, self._setup, self._process = where, setup, None

    def run(self, job, listen=lambda what: None, patience=300):
        """Returns the result of serve, or raises Lost. The first wait includes the child's start."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_child, args=(theirs, self._where, self._setup))
            self._process.start()
            theirs.close()
        what, deadline = "start", time.monotonic() + patience
        try:
            self._pipe.send(job)
            while self._pipe.poll(max(0, deadline - time.monotonic())):
                kind, *message = self._pipe.recv()
                if kind == "done":
                    return message[0]
                if kind == "failed":
                    self.stop()
                    raise Lost(what, message[0])
                what, deadline = message[0], time.monotonic() + message[1]
                listen(what)
            reason = "no answer in time"
        except (EOFError, OSError):
            self._process.join(5)
            reason = f"the process ended with {self._process.exitcode}"
        self.stop()
        raise Lost(what, reason)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.join(10)
            self._pipe.close()
            self._process = None


def _child(pipe, where, setup):
    try:
        module, function = where.split(":")
        serve = getattr(importlib.import_module(module), function)(setup)
        while True:
            job = pipe.recv()
            pipe.send(("done", serve(job, lambda what, patience=60: pipe.send(("say", what, patience)))))
    except EOFError:  # the parent is gone
        pass
    except Exception as error:  # the parent decides what to do about it
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
