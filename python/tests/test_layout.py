"""attile/_library.py repeats the structs of runtime/attile.h; the compiler knows where their members are."""

import ctypes
import pathlib
import re
import shutil
import subprocess

import pytest
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


@pytest.mark.skipif(not (HEADER.exists() and shutil.which("cc")), reason="needs the header and a C compiler")
def test_members_are_where_the_header_has_them(tmp_path):
    lines, expected = [], []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        for member, *_ in struct._fields_:
            there = spelled(name, member)
            lines.append(f'printf("{name}.{there} %zu\\n", offsetof(struct {name}, {there}));')
            expected.append(f"{name}.{there} {getattr(struct, member).offset}")
    for word, value in (("ATT_ATTENTION_FORWARD", _library.ATTENTION_FORWARD), ("ATT_REPEAT", _library.REPEAT)):
        lines.append(f'printf("{word} %lld\\n", (long long){word});')
        expected.append(f"{word} {value}")
    source = '#include "attile.h"\n#include <stdio.h>\nint main(void) {\n' + "\n".join(lines) + "\n}\n"
    program = tmp_path / "layout"
    subprocess.run(["cc", "-x", "c", "-I", HEADER.parent, "-o", program, "-"], input=source, text=True, check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines() == expected


@pytest.mark.skipif(not HEADER.exists(), reason="needs the header")
def test_every_function_of_the_header_is_there():
    declared = set(re.findall(r"^ATT_API .*?(att_\w+)\(", HEADER.read_text(), re.M))
    assert declared == set(_library._FUNCTIONS)
