#!/usr/bin/env python3
"""Checks whether a change to the templates leaves the machine code unchanged. Needs NVRTC but no GPU.

    python3 bench/sass.py save before.json          # before the change
    python3 bench/sass.py compare before.json       # after the change: names each kernel whose code differs

NVRTC compiles every variant of specs/attention_*hopper*.yaml and every recipe of the cookbook on `flash_async`, with
the options of the library; --spec FILE takes the variants of another spec, and --arch compiles for another
architecture. The code of each entry is compared byte for byte. --only WORD selects kernels by name, --limit N takes
every Nth. `compare` exits with 1 if any code differs, and prints the numbers of instructions.
"""

import argparse
import concurrent.futures
import ctypes
import glob
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ARCH = "sm_90a"
OPTIONS = [b"--std=c++17", b"--ptxas-options=-v", b"-no-cache"]
INSTRUCTION_BYTES = 16


def sources(attile, specs, only, limit):
    """Returns [(name, CUDA source)] of the kernels to compare, sorted by name."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in specs or sorted(glob.glob(f"{ROOT}/specs/attention_*hopper*.yaml") + glob.glob(f"{ROOT}/specs/cookbook/*.yaml")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            recipe = os.path.basename(path)[:-5] + " " if "cookbook" in path else ""
            if recipe:  # recipes name the portable kernel
                text = text.replace("head_dim: 16", "head_dim: 64\n  dtype: bf16")
                text = text.replace("algorithm: flash_tiled", "algorithm: flash_async\ntarget: sm_90a")
            spec, out = os.path.join(folder, "spec.yaml"), os.path.join(folder, recipe.strip() or os.path.basename(path))
            with open(spec, "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run([attile, "generate", "-q", "-o", out, spec], check=True)
            for source in glob.glob(f"{out}/*.cu"):
                with open(source, encoding="utf-8") as file:
                    found[recipe + os.path.basename(source)[:-3]] = file.read()
    names = [name for name in sorted(found) if not only or any(word in name for word in only)]
    return [(name, found[name]) for name in names[::limit]]


def text_hash(source):
    """Hash of the source without comments and whitespace: sources with equal hashes have equal code."""
    return hashlib.sha256(" ".join(re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.S).split()).encode()).hexdigest()[:16]


def code_of(cubin):
    """Returns {entry: machine code} of a 64-bit ELF file: its sections .text.ENTRY."""
    table, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    names = sections[names_at][4]
    code = {}
    for name, _, _, _, offset, length in sections:
        end = cubin.index(b"\0", names + name)
        word = cubin[names + name:end].decode()
        if word.startswith(".text."):
            code[word[len(".text."):]] = cubin[offset:offset + length]
    return code


def compile_one(job):
    """Compiles one kernel. Returns (name, {entry: [hash, instructions]}, bytes spilled)."""
    name, source, nvrtc, arch = job
    arguments = [f"-arch={arch}".encode(), *OPTIONS]
    lib = ctypes.CDLL(nvrtc)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    status = lib.nvrtcCompileProgram(program, len(arguments), (ctypes.c_char_p * len(arguments))(*arguments))
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetProgramLog(program, log)
    text = log.value.decode(errors="replace")
    if status:
        return name, {"error": [text[:2000], 0]}, 0
    lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetCUBIN(program, cubin)
    spilled = sum(int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", text))
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return name, {entry: [hashlib.sha256(code).hexdigest()[:16], len(code) // INSTRUCTION_BYTES]
                  for entry, code in code_of(cubin.raw).items()}, spilled


def compile_all(jobs, before):
    """Returns {name: code, bytes spilled, hash of the text}; takes kernels with unchanged text from `before`."""
    text = {name: text_hash(source) for name, source, _, _ in jobs}
    done = {name: before[name] for name in text if before.get(name, {}).get("text") == text[name]}
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for name, code, spilled in pool.map(compile_one, [job for job in jobs if job[0] not in done]):
            done[name] = {"code": code, "spilled": spilled, "text": text[name]}
            if sys.stderr.isatty():
                print(f"\r{len(done)} of {len(jobs)}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    return done


def compare(before, after):
    """Returns lines that describe the differences."""
    lines = []
    for name in sorted(after):
        old, new = before.get(name), after[name]
        if old is None:
            lines.append(f"{name}: is new")
        elif (old["code"], old["spilled"]) != (new["code"], new["spilled"]):
            parts = [f"{entry} {old['code'].get(entry, ['', 0])[1]} -> {new['code'].get(entry, ['', 0])[1]} instructions"
                     for entry in sorted(set(old["code"]) | set(new["code"])) if old["code"].get(entry) != new["code"].get(entry)]
            if old["spilled"] != new["spilled"]:
                parts.append(f"spilled bytes {old['spilled']} -> {new['spilled']}")
            if "error" in new["code"]:
                parts.append(new["code"]["error"][0])
            lines.append(f"{name}: {', '.join(parts)}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["save", "compare"])
    parser.add_argument("file")
    parser.add_argument("--attile", default=f"{ROOT}/build/release/cli/attile")
    parser.add_argument("--nvrtc", default=os.environ.get("ATTILE_NVRTC", "libnvrtc.so.13"), help="the library to compile with")
    parser.add_argument("--spec", action="append", help="a spec whose variants are compared instead; may be given several times")
    parser.add_argument("--arch", default=ARCH, help=f"the architecture to compile for; {ARCH} unless given")
    parser.add_argument("--only", action="append", help="kernels whose name has this word; may be given several times")
    parser.add_argument("--limit", type=int, default=1, help="take every Nth")
    options = parser.parse_args()
    found = sources(options.attile, options.spec, options.only, options.limit)
    jobs = [(name, source, options.nvrtc, options.arch) for name, source in found]
    before = {}
    if options.verb == "compare":
        with open(options.file, encoding="utf-8") as file:
            before = json.load(file)
    code = compile_all(jobs, before)
    if options.verb == "save":
        with open(options.file, "w", encoding="utf-8") as file:
            json.dump(code, file, indent=1)
        print(f"{len(code)} kernels")
        return 0
    lines = compare(before, code)
    print("\n".join(lines + [f"{len(code)} kernels, {len(lines)} differ"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
