"""attile/_library.py repeats the structs of runtime/attile.h; the compiler knows where their members are.

As a program it prints where the two differ, and fails if they do: the build runs it.
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

from attile import _library

HEADER = pathlib.Path(__file__).parents[2] / "runtime" / "attile.h"
STRUCTS = {
    "att_options": _library.Options,
    "att_param": _library.Param,
    "att_args": _library.Args,
    "att_kernel_info": _library.KernelInfo,
    "att_session_info": _library.SessionInfo,
    "att_counters": _library.Counters,
}


def spelled(struct, member):
    """As C has it: `from` is a keyword of Python, and Args is flat."""
    if member == "origin":
        return "from"
    if struct != "att_args" or member in ("size", "family", "workspace_size", "workspace"):
        return member
    tensor = re.fullmatch("([qkvo])(?:_(batch_stride|head_stride|row_stride))?", member)
    return f"attention.{tensor[1]}.{tensor[2] or 'data'}" if tensor else f"attention.{member}"


def expectations():
    """[(an expression of C, what it is in Python)]"""
    for name, struct in STRUCTS.items():
        yield f"sizeof(struct {name})", ctypes.sizeof(struct)
        for member, *_ in struct._fields_:
            yield f"offsetof(struct {name}, {spelled(name, member)})", getattr(struct, member).offset
    yield "ATT_ATTENTION_FORWARD", _library.ATTENTION_FORWARD
    yield "ATT_REPEAT", _library.REPEAT


def differences():
    """What is not the same, a line each."""
    expected = list(expectations())
    lines = "\n".join(f'printf("%lld\\n", (long long){what});' for what, _ in expected)
    source = f'#include "attile.h"\n#include <stdio.h>\nint main(void) {{\n{lines}\n}}\n'
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/layout"
        subprocess.run(["cc", "-x", "c", "-I", HEADER.parent, "-o", program, "-"], input=source, text=True, check=True)
        found = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    return [
        f"{what} is {there} in attile.h and {here} in attile/_library.py"
        for (what, here), there in zip(expected, map(int, found))
        if here != there
    ]


if __name__ == "__main__":
    sys.exit("\n".join(differences()) or 0)
