"""The GPU side, through PyTorch: inputs, peers, references, and the clock. Has the same methods as side_host.py."""
import ctypes
import importlib.metadata
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, bias, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import cudnn_graph
import fa3
import rule_parameters
import tolerance
import triton_mma
from kinds import KINDS
from rules import RULES

DEVICE = "cuda"
SAME = 0.01  # largest distance between two correct results, a few roundings of a 16-bit type
ROWS = 64  # rows of each sampled head that are compared with double precision
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LOAD = 8192  # rows and columns of the matrices that the load before every turn multiplies
FLUSH_BYTES = 256 << 20  # several times the L2 cache


class Side:
    def __init__(self, session, fa3_path=None):
        self._fa3_path = fa3_path
        torch.backends.cuda.matmul.allow_tf32 = False
        self._flush = torch.zeros(FLUSH_BYTES // 4, device=DEVICE)
        self._flushed = torch.zeros((), device=DEVICE)
        self._monitor = Monitor()
        self._state, self._rule, self._factors = {}, None, None

    @property
    def stream(self):
        return torch.cuda.current_stream().cuda_stream

    def machine(self):
        properties = torch.cuda.get_device_properties(0)
        return {"gpu": properties.name, "multiprocessors": properties.multi_processor_count,
                "driver": self._monitor.driver(), "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version(), "torch": torch.__version__, **versions()}

    def ceilings(self):
        """Measures this machine's speed with the simplest work: a matrix product and a copy."""
        source = torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)
        target = torch.empty_like(source)

        def median(work):
            self.times(work, 20, True)
            return sorted(self.times(work, 51, True))[25]

        return {"cublas_tflops": round(2 * LOAD**3 / median(self.load) / 1e9, 1),
                "copy_tbps": round(2 * (1 << 30) / median(lambda: target.copy_(source)) / 1e9, 2)}

    def inputs(self, case, kind="normal"):
        """Returns q, k and v of a kind (kinds.py)."""
        torch.manual_seed(1)
        query = (case.batch, case.heads, case.len_q, case.head_dim)
        key = (case.batch, case.kv_heads, case.len_kv, case.head_dim)
        tensors = {name: torch.randn(shape, dtype=TYPES[case.dtype], device=DEVICE)
                   for name, shape in (("q", query), ("k", key), ("v", key))}
        for name, what, *values in KINDS[kind]:
            _edit(tensors[name], case, what, *values)
        return tuple(tensors.values())

    def parameters(self, case):
        """Returns {name: number or tensor} for att_launch; later calls take the case's rule from them."""
        self._rule = None
        if not hasattr(case, "rule"):
            return {}
        found = rule_parameters.parameters(case, DEVICE)
        self._rule = RULES[case.rule].functions(found, torch.tanh)
        return found

    def output(self, case):
        shape = (case.batch, case.heads, case.len_q, case.head_dim)
        return torch.full(shape, torch.nan, dtype=TYPES[case.dtype], device=DEVICE)

    def lse(self, case):
        return torch.full((case.batch, case.heads, case.len_q), torch.nan, device=DEVICE)

    def workspace(self, size):
        """Allocates a workspace. Returns (owner of the memory, address)."""
        memory = torch.empty(size, dtype=torch.uint8, device=DEVICE)
        return memory, memory.data_ptr()

    # --- peers

    def peers(self, case, q, k, v, names):
        """Returns {name: maker of (callable that computes O, notes for its row)}; a maker compiles, and may fail."""
        makers = {"cudnn": lambda: self._cudnn(case, q, k, v),
                  "fa2": lambda: self._sdpa(SDPBackend.FLASH_ATTENTION, case, q, k, v),
                  "fa3": lambda: self.fa3(case, q, k, v),
                  "flashinfer": lambda: self._flashinfer(case, q, k, v),
                  "flex": lambda: self._compiled_flex(case, q, k, v),
                  "flex_mma": lambda: self._flex_by_mma(case, q, k, v)}
        return {name: makers[name] for name in makers if name in names}

    def _cudnn(self, case, q, k, v):
        """cuDNN through PyTorch; causal with different lengths through cuDNN's frontend, if the results agree."""
        work, notes = self._sdpa(SDPBackend.CUDNN_ATTENTION, case, q, k, v)
        if not case.causal or case.len_q == case.len_kv:
            return work, notes
        try:
            direct = cudnn_graph.causal_attention(q, k, v, self.stream)
            apart = self.distance(work(), direct())
            self.finish()
            if not apart <= SAME:
                raise ValueError(f"its answer is {apart:.3g} from PyTorch's")
            return direct, {"path": cudnn_graph.PATH}
        except ImportError:
            why = "cudnn frontend not installed"
        except Exception as error:
            why = f"cudnn frontend failed: {type(error).__name__}: {error}"
        return work, {"path": f"mask tensor, {why}"}

    def _sdpa(self, backend, case, q, k, v):
        """A backend of PyTorch, whose is_causal aligns the first query and key, so non-square cases take a mask."""
        grouped, mask, aligned = case.kv_heads != case.heads, None, case.causal and case.len_q == case.len_kv
        if case.causal and not aligned:
            mask = bias.causal_lower_right(case.len_q, case.len_kv)
            if backend == SDPBackend.CUDNN_ATTENTION:  # takes that mask only as a tensor
                mask = torch.ones(case.len_q, case.len_kv, dtype=torch.bool, device=DEVICE)
                mask = mask.tril(case.len_kv - case.len_q)[None, None]

        def work():
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=aligned, enable_gqa=grouped)

        return work, {}

    def fa3(self, case, q, k, v, splits=fa3.SPLITS):
        """FlashAttention-3 in its own layout, which is prepared outside of the timing; the fastest number of splits."""
        q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (q, k, v))
        if self._fa3_path:
            library, o, stream = fa3.Library(self._fa3_path), torch.empty_like(q), self.stream
            lse = torch.empty(case.batch, case.heads, case.len_q, device=DEVICE)
            forward = lambda n: library.forward(q, k, v, o, lse, case.causal, n, stream)
        else:
            forward = lambda n: fa3.module_forward(q, k, v, case.causal, n)
        return self._fastest({f"num_splits {n}": lambda n=n: forward(n).transpose(1, 2) for n in splits})

    def _flashinfer(self, case, q, k, v):
        """FlashInfer's prefill over packed sequences."""
        import flashinfer
        flat = [tensor.transpose(1, 2).reshape(-1, tensor.shape[1], tensor.shape[3]) for tensor in (q, k, v)]
        starts = [torch.arange(0, case.batch * length + 1, length, dtype=torch.int32, device=DEVICE)
                  for length in (case.len_q, case.len_kv)]
        wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
            torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=DEVICE), "NHD")
        wrapper.plan(*starts, case.heads, case.kv_heads, case.head_dim, causal=case.causal, q_data_type=q.dtype)
        shape = (case.batch, case.len_q, case.heads, case.head_dim)
        return lambda: wrapper.run(*flat).reshape(shape).transpose(1, 2), {}

    def _fastest(self, works):
        """Returns (fastest work, notes with its name) of those that run and agree with the first, which must run."""
        first, found = self.copy(next(iter(works.values()))()), {}
        for name, work in works.items():
            try:
                if found and not self.distance(first, work()) <= SAME:
                    continue
                found[name] = min(self.times(work, 5, True))
            except RuntimeError:
                if not found:
                    raise
            except TypeError:  # an option that this version does not have
                pass
        name = min(found, key=found.get)
        return works[name], {"path": name}

    def _compiled_flex(self, case, q, k, v):
        make, notes = self._flex(case, q, k, v)
        return make(), notes

    def _flex_by_mma(self, case, q, k, v):
        """The faster of PyTorch's default tile and its tuner's choice; the tuner tries the defaults of sm_80 and sm_90
        among others, but with its own block mask."""
        make, notes = self._flex(case, q, k, v)
        modes = {"default": make(), "max-autotune": make(mode="max-autotune-no-cudagraphs")}
        work, chosen = self._fastest(modes)
        return work, {**notes, "compiled": chosen["path"], **triton_mma.instructions()}

    def _flex(self, case, q, k, v):
        """Returns (function: options of torch.compile -> FlexAttention compiled with them, notes)."""
        torch.compiler.reset()  # one compiled function for each shape; old ones only slow down the call
        shift, block_mask, notes = case.len_kv - case.len_q, None, {}
        mask, score = self._rule or ((lambda b, h, i, j: j <= i + shift) if case.causal else None, None)
        if mask and self._rule:
            block_mask, seconds = self._block_mask(mask, case.batch if RULES[case.rule].by_batch else None, case)
            notes["block_mask_ms"] = round(1000 * seconds, 4)
        elif mask:
            block_mask = create_block_mask(mask, None, None, case.len_q, case.len_kv, device=DEVICE)
        grouped = case.kv_heads != case.heads

        def make(**options):
            compiled = torch.compile(flex_attention, dynamic=False, **options)
            return lambda: compiled(q, k, v, score_mod=score, block_mask=block_mask, enable_gqa=grouped)

        return make, notes

    def _block_mask(self, mask, batches, case):
        """Returns FlexAttention's block mask, and the seconds to make it once that is compiled: the median of 5."""
        make, seconds = torch.compile(create_block_mask), []
        for _ in range(7):
            self.finish()
            start = time.perf_counter()
            found = make(mask, batches, None, case.len_q, case.len_kv, device=DEVICE)
            self.finish()
            seconds.append(time.perf_counter() - start)
        return found, statistics.median(seconds[2:])

    def finish(self):
        torch.cuda.synchronize()

    # --- is it right?

    def reference(self, case, q, k, v, thorough=False):
        """Returns [(batch, head, rows, O there in double precision)] for the first and the last head, or all heads."""
        return [(b, h, rows, self._rows(case, q, k, v, b, h, rows, torch.float64))
                for b, h, rows in self._sampled(case, thorough)]

    def honest(self, case, q, k, v, reference):
        """The error of a straightforward computation that rounds what tensor cores require to be rounded: P and O."""
        return _compare([(self._rows(case, q, k, v, b, h, rows, torch.float32).to(q.dtype).double(), exact)
                         for b, h, rows, exact in reference])

    def lse_error(self, case, q, k, lse):
        """The largest error of LSE in sampled rows, relative to its bound; None if the score is an expression."""
        if self._rule and self._rule[1]:
            return None
        shares = []
        for b, h, rows in self._sampled(case):
            score, seen = self._scores(case, q, k, b, h, rows, torch.float64)
            size = self._scores(case, q.abs(), k.abs(), b, h, rows, torch.float64)[0].abs()
            score = score.masked_fill(~seen, -torch.inf)
            highest, exact = score.amax(-1, keepdim=True), score.logsumexp(-1, keepdim=True)
            errors = (score - exact).exp() * tolerance.weight(score, size, highest, case.head_dim)
            of_rows = (lse[b, h, rows], exact, torch.where(seen, errors, 0).sum(-1), seen.sum(-1), highest)
            for found, right, error, keys, top in zip(*(one.flatten().tolist() for one in of_rows)):
                shares.append(tolerance.share(found, right, tolerance.lse(error, keys, right, top)))
        return max(shares)

    def _sampled(self, case, thorough=False):
        every = [(b, h) for b in range(case.batch) for h in range(case.heads)]
        rows = torch.linspace(0, case.len_q - 1, min(ROWS, case.len_q)).long().tolist()
        return [(b, h, rows) for b, h in (every if thorough else [every[0], every[-1]])]

    def _scores(self, case, q, k, b, h, rows, precision):
        """Returns (the scores of these rows, a column for each key; a mask of those that are seen)."""
        queries, keys = q[b, h, rows].to(precision), k[b, h // (case.heads // case.kv_heads)].to(precision)
        (mask, modify), places = self._rule or (None, None), torch.arange(case.len_kv, device=DEVICE)
        at, score = torch.tensor(rows, device=DEVICE)[:, None], queries @ keys.T * case.factor
        if modify:
            score = modify(score, b, h, at, places).to(precision)
        if mask:
            seen = mask(b, h, at, places)
        else:
            seen = places <= (at + case.len_kv - case.len_q if case.causal else case.len_kv)
        return score, seen.expand_as(score)

    def _rows(self, case, q, k, v, b, h, rows, precision):
        """Rows of O by the definition: nothing that a row does not see reaches it, not even a NaN."""
        score, seen = self._scores(case, q, k, b, h, rows, precision)
        score, some = score.masked_fill(~seen, -torch.inf), seen.any(-1, keepdim=True)
        weights = torch.where(some, (score - score.amax(-1, keepdim=True)).exp(), 0)
        total = torch.where(some, weights.sum(-1, keepdim=True), 1)
        if precision == torch.float32:
            weights = weights.to(q.dtype).float()
        values = v[b, h // (case.heads // case.kv_heads)].to(precision)
        finite = values.isfinite()
        o, odd = weights @ torch.where(finite, values, 0), ~finite.all(-1)
        if odd.any():  # 0 times NaN is NaN, but only for keys that are seen
            parts = weights[:, odd, None] * torch.where(finite, 0, values)[odd]
            o = o + torch.where(seen[:, odd, None], parts, 0).sum(1)
        return o / total

    def error(self, reference, o):
        """Returns (Frobenius norm of the difference relative to that of the reference, largest difference)."""
        return _compare([(o[b, h, rows].double(), exact) for b, h, rows, exact in reference])

    def distance(self, a, b):
        return ((a.float() - b.float()).norm() / a.float().norm()).item()

    def copy(self, o):
        return o.clone()

    def same(self, copy, o):
        return torch.equal(copy.view(torch.uint8), o.view(torch.uint8))

    # --- the clock

    def load(self):
        """The load, the same for all kernels: a matrix product that uses all available power."""
        if self._factors is None:
            a, b = (torch.randn(LOAD, LOAD, dtype=torch.bfloat16, device=DEVICE) for _ in range(2))
            self._factors = a, b, torch.empty_like(a)
        a, b, product = self._factors
        torch.mm(a, b, out=product)

    def times(self, work, count, cold):
        """Milliseconds of each launch, by events. The sleep lets the queue fill, so that no launch waits for Python."""
        starts, stops = ([torch.cuda.Event(enable_timing=True) for _ in range(count)] for _ in range(2))
        torch.cuda._sleep(1_000_000)
        for start, stop in zip(starts, stops):
            if cold:  # flush by reading: a flush that writes leaves lines that the next kernel has to write back
                torch.sum(self._flush, 0, out=self._flushed)
            start.record()
            work()
            stop.record()
        self._state = self._monitor.read()  # while the last of them still run
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) for start, stop in zip(starts, stops)]

    def state(self):
        """Clock, power and temperature near the end of the last `times`."""
        return self._state


def _edit(tensor, case, what, *values):
    """Applies an edit of kinds.py to tensor, in place."""
    length, along = tensor.shape[2], torch.arange(tensor.shape[2], device=DEVICE)
    if what == "times":
        tensor *= values[0]
    elif what == "every":
        tensor.view(-1)[::values[0]] *= values[1]
    elif what == "abs":
        tensor.abs_()
    elif what == "grow":
        tensor.copy_(tensor * (along * values[0] / length)[:, None])
    elif what == "repeat":
        tensor.copy_(tensor[:, :, :1].clone().expand_as(tensor))
    elif what == "column":
        tensor[..., 0] = torch.tensor([float(values[0](place, case)) for place in range(length)], device=DEVICE)
    elif what == "one" and values[0] < tensor.shape[1]:
        tensor[0, values[0], length // 2 + 5, 3] = values[1]
    elif what == "row" and values[0] < tensor.shape[1]:
        tensor[0, values[0], length // 2 + 5] = values[1]
    elif what == "channel":
        tensor[..., 5] = values[0]
    elif what == "all":
        tensor.fill_(values[0])


def versions():
    """The versions of the peers' packages that are installed."""
    found = {}
    for package in ("nvidia-cudnn-frontend", "flash-attn-3", "flashinfer-python", "triton"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def _compare(parts):
    """Compares parts, pairs (found, exact), as Side.error does; infinite if NaN and infinity differ between the two."""
    wrong, right, largest = 0.0, 0.0, 0.0
    for found, exact in parts:
        finite = found.isfinite() & exact.isfinite()
        same = finite | (found == exact) | (found.isnan() & exact.isnan())
        if not same.all():
            return float("inf"), float("inf")
        difference = torch.where(finite, found - exact, 0)
        wrong += difference.square().sum().item()
        right += torch.where(finite, exact, 0).square().sum().item()
        largest = max(largest, difference.abs().max().item())
    return (wrong / (right or 1))**0.5, largest


class Monitor:
    """Reads NVML; returns empty values if it is missing."""

    def __init__(self):
        self._device = ctypes.c_void_p()
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            index = torch.cuda.current_device()
            found = self._nvml.nvmlInit_v2() == 0 and \
                self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self._device)) == 0
        except OSError:
            found = False
        if not found:
            self._nvml = None

    def driver(self):
        text = ctypes.create_string_buffer(80)
        if self._nvml and self._nvml.nvmlSystemGetDriverVersion(text, 80) == 0:
            return text.value.decode()
        return None

    def read(self):
        if not self._nvml:
            return {}
        clock, power, heat = (ctypes.c_uint() for _ in range(3))
        self._nvml.nvmlDeviceGetClockInfo(self._device, 1, ctypes.byref(clock))  # 1: SM clock
        self._nvml.nvmlDeviceGetPowerUsage(self._device, ctypes.byref(power))
        self._nvml.nvmlDeviceGetTemperature(self._device, 0, ctypes.byref(heat))
        return {"mhz": clock.value, "watts": round(power.value / 1000), "celsius": heat.value}
