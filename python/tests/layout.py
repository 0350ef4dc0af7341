"""Compares the structs of attile/_library.py with those of runtime/attile.h, whose offsets come from the compiler.

As a program it prints the differences, and fails if there are any: the build runs it.
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
    "att_param_gradient": _library.ParamGradient,
    "att_tensor": _library.Tensor,
    "att_shared_prefix": _library.SharedPrefix,
    "att_kernel_info": _library.KernelInfo,
    "att_session_info": _library.SessionInfo,
    "att_counters": _library.Counters,
}
# Flattened in Python: struct att_args up to the end of one member of its union.
ARGS = {"attention": _library.Args, "attention_backward": _library.BackwardArgs, "append": _library.AppendArgs}
TENSOR = re.compile("([qkvo]|d_o|d[qkv]|q_out|[kv]_cache|[kv]_new)(?:_(batch_stride|head_stride|row_stride))?")


def spelled(union, member):
    """The C name of a member of a flattened struct."""
    if member in ("size", "family", "workspace_size", "workspace"):
        return member
    backward = union == "attention_backward" and member.startswith(("d", "param_gradient"))
    backward = backward and not member.startswith("dropout")
    within = f"{union}.forward" if union == "attention_backward" and not backward else union
    tensor = TENSOR.fullmatch(member)
    return f"{within}.{tensor[1]}.{tensor[2] or 'data'}" if tensor else f"{within}.{member}"


def expectations():
    """Yields (C expression, its value in Python)."""
    for name, struct in STRUCTS.items():
        # Args covers attention only; other families may have larger arguments.
        whole = "offsetof(struct att_args, attention) + sizeof(struct att_attention_args)"
        yield whole if name == "att_args" else f"sizeof(struct {name})", ctypes.sizeof(struct)
        for member, *_ in struct._fields_:
            in_c = "from" if member == "origin" else member  # `from` is a keyword in Python
            yield f"offsetof(struct {name}, {in_c})", getattr(struct, member).offset
    for union, struct in ARGS.items():
        yield f"offsetof(struct att_args, {union}) + sizeof(((struct att_args *)0)->{union})", ctypes.sizeof(struct)
        for member, *_ in struct._fields_:
            yield f"offsetof(struct att_args, {spelled(union, member)})", getattr(struct, member).offset
    yield "ATT_ATTENTION_FORWARD", _library.ATTENTION_FORWARD
    yield "ATT_ATTENTION_BACKWARD", _library.ATTENTION_BACKWARD
    yield "ATT_APPEND_KV", _library.APPEND_KV
    yield "ATT_REPEAT", _library.REPEAT


def differences():
    """Returns one line for each difference."""
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
