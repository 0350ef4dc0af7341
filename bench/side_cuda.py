"""The GPU through PyTorch: inputs, peers, references, and the clock. The same methods as side_host.py."""
import ctypes
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, bias, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from cases import SPECIAL
from rules import RULES, documents, shape

DEVICE = "cuda"
ROWS = 64  # of each sampled head are compared with double precision
FLUSH_BYTES = 256 << 20  # several times the L2 cache


class Side:
    def __init__(self, session):
        torch.backends.cuda.matmul.allow_tf32 = False
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=DEVICE)
        self._monitor = Monitor()
        self._state, self._rule = {}, None

    @property
    def stream(self):
        return torch.cuda.current_stream().cuda_stream

    def machine(self):
        properties = torch.cuda.get_device_properties(0)
        return {"gpu": properties.name, "multiprocessors": properties.multi_processor_count,
                "driver": self._monitor.driver(), "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version(), "torch": torch.__version__}

    def ceilings(self):
        """What this machine does today with the simplest work: a product of 8192^3 and a copy."""
        a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device=DEVICE) for _ in range(2))
        product, source = torch.empty_like(a), torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)
        target = torch.empty_like(source)

        def median(work):
            self.times(work, 20, True)
            return sorted(self.times(work, 51, True))[25]

        return {"cublas_tflops": round(2 * 8192**3 / median(lambda: torch.mm(a, b, out=product)) / 1e9, 1),
                "copy_tbps": round(2 * (1 << 30) / median(lambda: target.copy_(source)) / 1e9, 2)}

    def inputs(self, case, kind="normal"):
        """q, k and v of a kind; gpu_checks.py says which there are."""
        torch.manual_seed(1)
        query = (case.batch, case.heads, case.len_q, case.head_dim)
        key = (case.batch, case.kv_heads, case.len_kv, case.head_dim)
        q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device=DEVICE) for shape in (query, key, key))
        if kind == "outliers":
            for tensor in (q, k, v):
                tensor.view(-1)[::997] *= 50
        elif kind == "growing":
            growth = torch.arange(case.len_kv, device=DEVICE) * 4 / case.len_kv
            q, k = q.abs(), (k.abs() * growth[:, None]).bfloat16()
        elif kind == "equal":
            k = k[:, :, :1].expand(key).contiguous()
        elif kind == "special":
            for head, (name, what) in enumerate(SPECIAL):
                tensor = {"q": q, "k": k, "v": v}[name]
                if head < tensor.shape[1]:
                    tensor[0, head, tensor.shape[2] // 2, 3] = what
        return q, k, v

    def parameters(self, case):
        """{name: number or tensor} for att_launch; what follows knows the case's rule by them."""
        self._rule = None
        if not hasattr(case, "rule"):
            return {}
        rule, found = RULES[case.rule], RULES[case.rule].number(case)
        for name, dtype, what in rule.tensors:
            size = shape(what, case)
            if what == "normal":
                found[name] = torch.randn(size, dtype=getattr(torch, dtype), device=DEVICE)
            elif what == "documents":
                one = torch.tensor(documents(case.len_kv), dtype=torch.int32, device=DEVICE)
                found[name] = one.repeat(case.batch, 1)
            else:
                found[name] = torch.exp2(-8 * torch.arange(1, case.heads + 1, device=DEVICE) / case.heads)
        self._rule = RULES[case.rule].functions(found, torch.tanh)
        return found

    def output(self, case):
        shape = (case.batch, case.heads, case.len_q, case.head_dim)
        return torch.full(shape, torch.nan, dtype=torch.bfloat16, device=DEVICE)

    def workspace(self, size):
        """(what keeps it alive, its address)"""
        memory = torch.empty(size, dtype=torch.uint8, device=DEVICE)
        return memory, memory.data_ptr()

    # --- peers

    def peers(self, case, q, k, v, names):
        """{name: how to make (the callable that computes O, notes for its row)}; making it may fail, and compiles."""
        makers = {"cudnn": lambda: self._sdpa(SDPBackend.CUDNN_ATTENTION, case, q, k, v),
                  "fa2": lambda: self._sdpa(SDPBackend.FLASH_ATTENTION, case, q, k, v),
                  "flex": lambda: self._compiled_flex(case, q, k, v)}
        return {name: makers[name] for name in makers if name in names}

    def _sdpa(self, backend, case, q, k, v):
        """PyTorch's is_causal aligns the first query and key, so other than square cases take a mask."""
        grouped, mask, aligned = case.kv_heads != case.heads, None, case.causal and case.len_q == case.len_kv
        if case.causal and not aligned:
            mask = bias.causal_lower_right(case.len_q, case.len_kv)
            if backend == SDPBackend.CUDNN_ATTENTION:  # knows that mask only as a tensor
                mask = torch.ones(case.len_q, case.len_kv, dtype=torch.bool, device=DEVICE)
                mask = mask.tril(case.len_kv - case.len_q)[None, None]

        def work():
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=aligned, enable_gqa=grouped)

        return work, {}

    def _compiled_flex(self, case, q, k, v):
        torch.compiler.reset()  # one compiled function a shape; old ones only slow down the call
        shift, block_mask, notes = case.len_kv - case.len_q, None, {}
        mask, score = self._rule or ((lambda b, h, i, j: j <= i + shift) if case.causal else None, None)
        if mask and self._rule:
            block_mask, seconds = self._block_mask(mask, case.batch if RULES[case.rule].by_batch else None, case)
            notes["block_mask_ms"] = round(1000 * seconds, 4)
        elif mask:
            block_mask = create_block_mask(mask, None, None, case.len_q, case.len_kv, device=DEVICE)
        compiled, grouped = torch.compile(flex_attention, dynamic=False), case.kv_heads != case.heads
        return lambda: compiled(q, k, v, score_mod=score, block_mask=block_mask, enable_gqa=grouped), notes

    def _block_mask(self, mask, batches, case):
        """FlexAttention's list of blocks, and the seconds that making it takes once it is compiled: the median of 5."""
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
        """[(batch, head, rows, O there in double precision)] for the first and the last head, or for all heads."""
        every = [(b, h) for b in range(case.batch) for h in range(case.heads)]
        rows = torch.linspace(0, case.len_q - 1, min(ROWS, case.len_q)).long().tolist()
        return [(b, h, rows, self._rows(case, q, k, v, b, h, rows, torch.float64))
                for b, h in (every if thorough else [every[0], every[-1]])]

    def honest(self, case, q, k, v, reference):
        """The error of a straightforward computation that rounds what a matrix unit must have rounded: P and O."""
        return _compare([(self._rows(case, q, k, v, b, h, rows, torch.float32).bfloat16().double(), exact)
                         for b, h, rows, exact in reference])

    def _rows(self, case, q, k, v, b, h, rows, precision):
        """Rows of O by the definition: of what a row does not see, not even a NaN reaches it."""
        kv_head, result = h // (case.heads // case.kv_heads), []
        keys, values = k[b, kv_head].to(precision), v[b, kv_head].to(precision)
        (mask, modify), places = self._rule or (None, None), torch.arange(case.len_kv, device=DEVICE)
        for row in rows:
            seen = slice(0, case.seen(row)) if not mask else mask(b, h, row, places)
            score = keys[seen] @ q[b, h, row].to(precision) / case.head_dim**0.5
            if modify:
                score = modify(score, b, h, row, places[seen]).to(precision)
            weights = (score - score.max()).exp() if len(score) else score
            total = weights.sum() if len(score) else 1
            if precision == torch.float32:
                weights = weights.bfloat16().float()
            result.append(weights @ values[seen] / total)
        return torch.stack(result)

    def error(self, reference, o):
        """(Frobenius norm of the difference in proportion to the reference's, largest difference)"""
        return _compare([(o[b, h, rows].double(), exact) for b, h, rows, exact in reference])

    def distance(self, a, b):
        return ((a.float() - b.float()).norm() / a.float().norm()).item()

    def copy(self, o):
        return o.clone()

    def same(self, copy, o):
        return torch.equal(copy.view(torch.int16), o.view(torch.int16))

    # --- the clock

    def times(self, work, count, cold):
        """Milliseconds by events. The sleep lets the queue fill, so that no launch waits for Python."""
        starts, stops = ([torch.cuda.Event(enable_timing=True) for _ in range(count)] for _ in range(2))
        torch.cuda._sleep(1_000_000)
        for start, stop in zip(starts, stops):
            if cold:
                self._flush.zero_()
            start.record()
            work()
            stop.record()
        self._state = self._monitor.read()  # while the last of them still run
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) for start, stop in zip(starts, stops)]

    def state(self):
        """Clock, power and temperature near the end of the last `times`."""
        return self._state


def _compare(parts):
    """Infinite where NaN and infinity are not the same in both."""
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
    """NVML, or nothing where it is missing."""

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
        self._nvml.nvmlDeviceGetClockInfo(self._device, 1, ctypes.byref(clock))  # 1: of the multiprocessors
        self._nvml.nvmlDeviceGetPowerUsage(self._device, ctypes.byref(power))
        self._nvml.nvmlDeviceGetTemperature(self._device, 0, ctypes.byref(heat))
        return {"mhz": clock.value, "watts": round(power.value / 1000), "celsius": heat.value}
