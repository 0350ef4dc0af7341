"""The side of a dry run: this CPU, with tensors of the standard library. Has the same methods as side_cuda.py.

A dry run proves that the program works, not how fast anything is: shapes are tiny and the arithmetic is Python's.
"""
import ctypes
import itertools
import math
import platform
import random
import struct
import time
import types

import tolerance
from kinds import KINDS
from rules import RULES, documents, shape


def to_bf16(x):
    """Returns the bits of the nearest bf16 number, ties to even."""
    bits = struct.unpack("I", struct.pack("f", x))[0]
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16 & 0xFFFF


def from_bf16(bits):
    return struct.unpack("f", struct.pack("I", bits << 16))[0]


CPU = types.SimpleNamespace(type="cpu")  # the part of a tensor's device that attile reads


class Tensor:
    """Contiguous bf16, (batch, heads, length, head_dim); with a session, in its memory, whose bounds are checked."""

    dtype, device = "bfloat16", CPU

    def __init__(self, shape, values, session=None):
        self.shape, kind = shape, ctypes.c_uint16 * math.prod(shape)
        self.bits = kind.from_address(session.alloc(ctypes.sizeof(kind))) if session else kind()
        self.bits[:] = [to_bf16(x) for x in values]

    def data_ptr(self):
        return ctypes.addressof(self.bits)

    def stride(self):
        return tuple(math.prod(self.shape[i + 1:]) for i in range(4))

    def get_device(self):
        return -1

    def row(self, batch, head, index):
        at = ((batch * self.shape[1] + head) * self.shape[2] + index) * self.shape[3]
        return [from_bf16(bits) for bits in self.bits[at:at + self.shape[3]]]


class Parameter:
    """A tensor that a rule reads by indices: contiguous, of type int32, float32 or bfloat16."""

    device = CPU
    KINDS = {"int32": (ctypes.c_int32, int, int), "float32": (ctypes.c_float, float, float),
             "bfloat16": (ctypes.c_uint16, to_bf16, from_bf16)}

    def __init__(self, session, size, dtype, values):
        self.shape, self.dtype, (kind, self._write, self._read) = size, dtype, self.KINDS[dtype]
        kind *= math.prod(size)
        self._values = kind.from_address(session.alloc(ctypes.sizeof(kind)))
        self.fill(values)

    def fill(self, values):
        self._values[:] = [self._write(x) for x in values]

    def data_ptr(self):
        return ctypes.addressof(self._values)

    def stride(self):
        return tuple(math.prod(self.shape[i + 1:]) for i in range(len(self.shape)))

    def get_device(self):
        return -1

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        return self._read(self._values[sum(i * step for i, step in zip(index, self.stride()))])


class Side:
    stream = None

    def __init__(self, session, fa3_path=None):  # fa3_path is unused: FlashAttention-3 needs a GPU
        self._session, self._rule = session, None

    def machine(self):
        return {"gpu": None, "cpu": platform.machine(), "python": platform.python_version()}

    def ceilings(self):
        return {}

    def inputs(self, case, kind="normal"):
        """Returns q, k and v of a kind (kinds.py)."""
        source = random.Random(1)
        query = (case.batch, case.heads, case.len_q, case.head_dim)
        key = (case.batch, case.kv_heads, case.len_kv, case.head_dim)
        return [Tensor(shape, spoil(kind, name, case, shape, [source.gauss(0, 1) for _ in range(math.prod(shape))]),
                       self._session) for name, shape in (("q", query), ("k", key), ("v", key))]

    def parameters(self, case):
        """Returns {name: number or tensor} for att_launch; later calls take the case's rule from them."""
        self._rule = None
        if not hasattr(case, "rule"):
            return {}
        rule, source = RULES[case.rule], random.Random(2)
        found = rule.number(case)
        for name, dtype, what in rule.tensors:
            size = shape(what, case)
            values = {"documents": lambda: documents(case.len_kv) * case.batch,
                      "slopes": lambda: [2 ** (-8 * (h + 1) / case.heads) for h in range(case.heads)],
                      "normal": lambda: [source.gauss(0, 1) for _ in range(math.prod(size))]}[what]()
            found[name] = Parameter(self._session, size, dtype, values)
        self._rule = RULES[case.rule].functions(found, math.tanh)
        return found

    def output(self, case):
        shape = (case.batch, case.heads, case.len_q, case.head_dim)
        return Tensor(shape, itertools.repeat(math.nan, math.prod(shape)), self._session)

    def lse(self, case):
        size = (case.batch, case.heads, case.len_q)
        return Parameter(self._session, size, "float32", [math.nan] * math.prod(size))

    def workspace(self, size):
        """Allocates a workspace. Returns (None, since the session owns the memory; address)."""
        return None, self._session.alloc(size)

    def peers(self, case, q, k, v, names):
        """Returns {name: maker of (callable that computes O, notes for its row)}; a maker may fail."""
        return {"plain": lambda: (lambda: plain(case, q, k, v, self._rule), {})} if "plain" in names else {}

    def finish(self):
        pass

    def reference(self, case, q, k, v, thorough=False):
        return plain(case, q, k, v, self._rule, keep=True)

    def honest(self, case, q, k, v, reference):
        return self.error(reference, plain(case, q, k, v, self._rule))

    def error(self, reference, o):
        """Returns (Frobenius norm of the difference relative to that of the reference, largest difference)."""
        right, wrong, largest = 0.0, 0.0, 0.0
        for x, y in zip(reference, map(from_bf16, o.bits)):
            if math.isfinite(x) and math.isfinite(y):
                right, wrong, largest = right + x * x, wrong + (x - y)**2, max(largest, abs(x - y))
            elif x != y and not (math.isnan(x) and math.isnan(y)):
                return math.inf, math.inf
        return math.sqrt(wrong / (right or 1)), largest

    def lse_error(self, case, q, k, lse):
        """The largest error of LSE relative to its bound; None if the score is an expression."""
        mask, score = self._rule or (None, None)
        if score:
            return None
        shares = []
        for b, h, i in itertools.product(range(case.batch), range(case.heads), range(case.len_q)):
            query, kv_head = q.row(b, h, i), h // (case.heads // case.kv_heads)
            products = [[x * y * case.factor for x, y in zip(query, k.row(b, kv_head, j))]
                        for j in range(case.seen(i)) if not mask or mask(b, h, i, j)]
            scores, sizes = [sum(one) for one in products], [sum(map(abs, one)) for one in products]
            highest = max(scores, default=-math.inf)
            total = sum(math.exp(s - highest) for s in scores)
            exact = highest + math.log(total) if scores else -math.inf
            error = sum(math.exp(s - exact) * tolerance.weight(s, size, highest, case.head_dim)
                        for s, size in zip(scores, sizes))
            shares.append(tolerance.share(lse[b, h, i], exact, tolerance.lse(error, len(scores), exact, highest)))
        return max(shares)

    def distance(self, a, b):
        return self.error([from_bf16(bits) for bits in a.bits], b)[0]

    def copy(self, o):
        return bytes(o.bits)

    def same(self, copy, o):
        return copy == bytes(o.bits)

    def load(self):
        pass

    def times(self, work, count, cold):
        times = []
        for _ in range(min(count, 2)):
            start = time.perf_counter()
            work()
            times.append(1000 * (time.perf_counter() - start))
        return times

    def state(self):
        return {}


def spoil(kind, name, case, shape, values):
    """Applies the edits of a kind to normal values of the tensor with that name."""
    _, heads, length, width = shape
    row = lambda i: i // width % length
    for what, *given in (edit[1:] for edit in KINDS[kind] if edit[0] == name):
        if what == "times":
            values = [x * given[0] for x in values]
        elif what == "every":
            values = [x * (1 if i % given[0] else given[1]) for i, x in enumerate(values)]
        elif what == "abs":
            values = [abs(x) for x in values]
        elif what == "grow":
            values = [x * given[0] * row(i) / length for i, x in enumerate(values)]
        elif what == "repeat":
            values = [values[i - row(i) * width] for i in range(len(values))]
        elif what == "column":
            values = [x if i % width else given[0](row(i), case) for i, x in enumerate(values)]
        elif what == "one" and given[0] < heads:
            values[given[0] * length * width + (length // 2 + 5) * width + 3] = given[1]
        elif what == "row" and given[0] < heads:
            first = given[0] * length * width + (length // 2 + 5) * width
            values[first:first + width] = [given[1]] * width
        elif what == "channel":
            values = [given[0] if i % width == 5 else x for i, x in enumerate(values)]
        elif what == "all":
            values = [given[0]] * len(values)
    return values


def plain(case, q, k, v, rule=None, keep=False):
    """Computes O by the definition, in double precision; rounds it to bf16 unless `keep`, which returns a flat list.

    rule: (mask, score), each a function or None; without it, the case's own causal mask or no mask.
    """
    result, (mask, score) = [], rule or (None, None)
    for b, h, i in itertools.product(range(case.batch), range(case.heads), range(case.len_q)):
        kv_head, query = h // (case.heads // case.kv_heads), q.row(b, h, i)
        seen = [j for j in range(case.seen(i)) if not mask or mask(b, h, i, j)]
        scores = [sum(x * y for x, y in zip(query, k.row(b, kv_head, j))) * case.factor for j in seen]
        if score:
            scores = [score(s, b, h, i, j) for s, j in zip(scores, seen)]
        weights = [math.exp(s - max(scores)) for s in scores]
        total, row = sum(weights) or 1, [0.0] * case.head_dim
        for j, weight in zip(seen, weights):
            row = [x + weight / total * y for x, y in zip(row, v.row(b, kv_head, j))]
        result += row
    return result if keep else Tensor((case.batch, case.heads, case.len_q, case.head_dim), result)
