"""The command line program from Python: `build`, `cache`, `doctor`, and `python -m attile`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from . import errors
from ._library import command_path
from ._nvrtc import wheel_path


def _environment() -> dict[str, str]:
    """The environment of this process, with the NVRTC of an installed wheel unless ATTILE_NVRTC names one."""
    path = wheel_path()
    return {**({"ATTILE_NVRTC": str(path)} if path else {}), **os.environ}


def main() -> NoReturn:
    """Replaces this process by the `attile` program, with the words of this command line."""
    path = str(command_path())
    os.execve(path, ["attile", *sys.argv[1:]], _environment())


def command(*words: str, accept: Sequence[int] = (0,)) -> str:
    """Returns the output of `attile WORDS`. Raises CommandFailed, with its message, for exit statuses not accepted."""
    done = subprocess.run([command_path(), *words], env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode not in accept:
        raise errors.CommandFailed(f"attile {' '.join(words)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def build(spec: str, out: str, *, arch: str | None = None, symbol: str | None = None) -> str:
    """Compiles the kernels of a spec, a file or knobs, ahead of time into the folder `out` (docs/cli.md, build).

    arch: "sm_80,sm_90a", "host", ...; symbol: the bundle's name in kernels.c. Returns the path of kernels.c.
    """
    words = ["build", spec, "-o", out]
    for option, value in (("--arch", arch), ("--symbol", symbol)):
        words += [option, value] if value else []
    command(*words)
    return os.path.join(out, "kernels.c")


def cache(verb: str = "stat") -> str:
    """Returns the output of `attile cache VERB`: the kernels on disk, or what became of them."""
    return command("cache", verb)


# Exit status of `doctor` if a compiler is missing.
_MISSING = 4


def doctor() -> dict[str, Any]:
    """Lists what this machine has, and advice for what is missing: {part: {"state", "found", "advice"}}."""
    found: dict[str, Any] = json.loads(command("doctor", "--json", accept=(0, _MISSING)))
    return found
