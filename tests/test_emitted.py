#!/usr/bin/env python3
"""An emitted kernel contains only what its case needs: no function, type, field or constant that it does not use, and
no comment about a file or a name that it lacks. Checks every variant of specs/ and every recipe of the cookbook on the
four kernels.

    tests/test_emitted.py build/release/cli/attile
"""

import collections
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ATTILE = sys.argv.pop(1) if len(sys.argv) > 1 else f"{ROOT}/build/release/cli/attile"

# Structs that may have unused fields: the runtime fills all but the last two, and expressions fill those.
WHOLE = {"attention_params", "attention_tma_params", "attention_param", "tensor_map", "softmax_params", "merge_params",
         "attention_backward_params", "attention_backward_tma_params", "param_gradient", "append_kv_params", "Where", "Keys"}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
NAME = re.compile(r"[A-Za-z_]\w*")
FILE = re.compile(r"\b[\w/]+\.(?:cuh|cu|h)\b")
DEFINITION = re.compile(r"^(?:template <[^\n]*>\s)?__device__ [^;{}=\n]*?\b(\w+)\(", re.M)
FIELDS = re.compile(r"    [A-Za-z_][\w<>:, *&]*\s[*&]?\w+(\[[^\]]*\])*(,\s*[*&]?\w+(\[[^\]]*\])*)*;\s*")


def fields(code):
    """Yields (struct, field) of all structs at the left margin, except those in WHOLE."""
    for struct in re.finditer(r"\nstruct\s+(?:alignas\(\w+\)\s+)?(\w+)[^{;]*\{(.*?)\n\};", code, re.S):
        for line in struct.group(2).split("\n"):
            if struct.group(1) not in WHOLE and FIELDS.fullmatch(line):
                plain = re.sub(r"\[[^\]]*\]|<[^>]*>", "", line).strip().rstrip(";")
                yield from ((struct.group(1), NAME.findall(part)[-1]) for part in plain.split(","))


def arguments(code, begin):
    """Returns how many arguments stand between the parenthesis before `begin` and its end."""
    depth, count = 1, 0 if code[begin] == ")" else 1
    for i in range(begin, len(code)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[i], 0)
        if depth == 0:
            return count
        count += depth == 1 and code[i] == ","
    raise ValueError(code[begin : begin + 80])


def unused_overloads(code):
    """Yields (function, number of parameters) where a name is defined several times, and no call has so many arguments."""
    defined, called = collections.defaultdict(set), collections.defaultdict(set)
    for _ in range(3):  # arguments of templates, which have commas too; comparisons have a space before the sign
        code = re.sub(r"(?<=\w)<[^<>()]*>", "", code)
    places = {match.end(1): match.group(1) for match in DEFINITION.finditer(code)}
    for place, name in places.items():
        defined[name].add(arguments(code, place + 1))
    for name in (name for name, counts in defined.items() if len(counts) > 1):
        for call in re.finditer(rf"(?<!\.)\b{name}\(", code):
            if call.start() + len(name) not in places:
                called[name].add(arguments(code, call.end()))
        yield from ((name, count) for count in defined[name] - called[name])


def unused(source):
    """Returns descriptions of everything in a source that is not used."""
    end = source.index("*/") + 2
    header, body = source[:end], source[end:]
    code = re.sub(r'"[^"\n]*"', '""', COMMENT.sub("", body))
    count = collections.Counter(NAME.findall(code))
    defined = [("function", name) for name in re.findall(r"__device__ [^;{}=]*?\b(\w+)\(", code)]
    defined += [("type", name) for name in re.findall(r"\bstruct\s+(?:alignas\(\w+\)\s+)?(\w+)", code) if name not in WHOLE]
    defined += [("type", name) for name in re.findall(r"\busing (\w+) =", code)]
    defined += [("constant", name) for text in re.findall(r"\bconstexpr [^;]*;", code) for name in re.findall(r"(\w+) = ", text)]
    defined += [(f"field of {struct}", name) for struct, name in fields(code)]
    found = [f"{what} {name} is not used" for what, name in defined if count[name] < 2]
    found += [f"function {name} of {count} parameters is not used" for name, count in unused_overloads(code)]
    known, files = set(NAME.findall(code + header)), set(FILE.findall(header))
    for comment in COMMENT.findall(body):
        found += [f"a comment names {name}, which is not spliced" for name in FILE.findall(comment) if name not in files]
        rest = FILE.sub("", comment)
        names = re.findall(r"\b[A-Za-z]\w*_\w+\b", rest) + re.findall(r"`(\w+)`", rest)
        found += [f"a comment names {name}, which is not there" for name in names
                  if name not in known and not re.fullmatch(r"[a-z]+_[a-z]", name)]  # except mathematics: m_a, o_i
    return found


def sources():
    """Yields (name, source) of all variants."""
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(glob.glob(f"{ROOT}/specs/*.yaml") + glob.glob(f"{ROOT}/specs/cookbook/*.yaml")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            texts = [text]
            if "/cookbook/" in path:
                for kernel in ("flash_async\ntarget: sm_90a", "flash_mma\ntarget: sm_80", "decode\ntarget: sm_80"):
                    texts.append(text.replace("head_dim: 16", "head_dim: 64\n  dtype: bf16")
                                 .replace("algorithm: flash_tiled", f"algorithm: {kernel}"))
            for number, text in enumerate(texts):
                spec, out = f"{folder}/spec.yaml", f"{folder}/{os.path.basename(path)}{number}"
                with open(spec, "w", encoding="utf-8") as file:
                    file.write(text)
                subprocess.run([ATTILE, "generate", "-q", "-o", out, spec], check=True)
                for name in sorted(glob.glob(f"{out}/*.cu")):
                    with open(name, encoding="utf-8") as file:
                        yield os.path.basename(name), file.read()


class Emitted(unittest.TestCase):
    maxDiff = None

    def test_holds_nothing_that_it_does_not_use(self):
        wrong, variants = {}, 0
        for name, source in sources():
            variants += 1
            for what in unused(source):
                wrong.setdefault(what, name)
        self.assertGreater(variants, 100)
        self.assertEqual(wrong, {})

    def test_notices_what_is_not_used(self):
        head = "/* k\n   x/part.cuh\n*/\n"
        for body, what in [
            ("__device__ int lonely(int x) { return x; }", "function lonely is not used"),
            ("__device__ int f(int a) { return a; }\n__device__ int f(S<1, 2> a, int b) { return b; }\nint x = f(1);",
             "function f of 2 parameters is not used"),
            ("struct Lonely {};", "type Lonely is not used"),
            ("using Lonely = int;", "type Lonely is not used"),
            ("constexpr int LONELY = 1;", "constant LONELY is not used"),
            ("\nstruct S {\n    int first, lonely[4];\n};\nint f(S s) { return s.first; }", "field of S lonely is not used"),
            ("// as in x/other.cuh", "a comment names x/other.cuh, which is not spliced"),
            ("// as next_keys does", "a comment names next_keys, which is not there"),
            ("// `other`: of a row", "a comment names other, which is not there"),
        ]:
            self.assertIn(what, unused(head + body))
        self.assertEqual(unused(head + "// x/part.cuh\nconstexpr int ONE = 1;\nint x = ONE;"), [])


if __name__ == "__main__":
    unittest.main()
