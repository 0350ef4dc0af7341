"""The GPU part of bench_decode.py, through PyTorch: caches, kernels, graphs and times."""
import gc
import importlib.util

import torch
from torch.nn.attention import SDPBackend, bias, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import attile
import side_cuda
from attile import _append
from attile._tensor import view

DEVICE = "cuda"
PAGE = 16  # rows of the pages that dense caches are copied to for FlashInfer
HAS_FLASHINFER = importlib.util.find_spec("flashinfer") is not None
EIGHT_BITS = {"e4m3": (torch.float8_e4m3fn, 448), "int8": (torch.int8, 127)}  # (type, its largest value)


def machine():
    properties = torch.cuda.get_device_properties(0)
    return {"gpu": properties.name, "multiprocessors": properties.multi_processor_count,
            "driver": side_cuda.Monitor().driver(), "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "torch": torch.__version__}


class Side:
    """One case: its caches, and methods that make works. A work is a function of a cache number; it starts a launch."""

    def __init__(self, case):
        self.case, self.kernel_name, self.new, self._kept = case, None, None, []
        torch.manual_seed(1)
        self.q = torch.randn(case.batch, case.heads, case.len_q, case.head_dim, dtype=torch.bfloat16, device=DEVICE)
        self.out = torch.empty(*self.q.shape[:3], case.head_dim_v or case.head_dim, dtype=torch.bfloat16, device=DEVICE)
        stored = [self._pair() for _ in range(case.caches)]
        self.caches = [(k, v) for (k, _), (v, _) in stored]
        self.scales = [(of_k, of_v) for (_, of_k), (_, of_v) in stored]  # (None, None) without scales
        self.sequences = None if case.is_dense else self._sequences()

    def _pair(self):
        k = self._stored()
        return k, (k[0][..., :self.case.head_dim_v], None) if self.case.head_dim_v else self._stored()

    def _stored(self):
        """Returns a cache as the case stores it, and its scales: (kv_heads,), one for each row, (blocks, kv_heads,
        rows), or None."""
        cache = self._cache()
        if not self.case.dtype_kv:
            return cache, None
        dtype, most = EIGHT_BITS[self.case.dtype_kv]
        if self.case.kv_scale == "none":
            scale, numbers = None, cache.float()
        else:
            scale = cache.abs().amax((0, 2, 3) if self.case.kv_scale == "head" else 3).float() / most
            numbers = cache.float() / _spread(scale, cache)
        return (numbers.round() if dtype == torch.int8 else numbers).clamp(-most, most).to(dtype), scale

    def _cache(self):
        """Returns (blocks, kv_heads, rows, head_dim), in the case's memory order; a block is a sequence or a page."""
        case = self.case
        blocks, rows = (self._pages(), case.page_size) if case.page_size else (case.batch, case.room)
        shape = blocks, case.kv_heads, rows, case.head_dim
        if case.order == "hnd":
            return torch.randn(shape, dtype=torch.bfloat16, device=DEVICE)
        return torch.randn(shape[0], shape[2], shape[1], shape[3], dtype=torch.bfloat16, device=DEVICE).transpose(1, 2)

    def _pages(self):
        return sum(-(-length // self.case.page_size) for length in self.case.lengths)

    def _sequences(self):
        """Returns the lengths and, with pages, the page numbers in random order."""
        case = self.case
        found = attile.Sequences(lengths_kv=torch.tensor(case.lengths, dtype=torch.int32, device=DEVICE))
        if not case.page_size:
            return found
        table = torch.full((case.batch, -(-case.room // case.page_size)), -1, dtype=torch.int32)
        numbers = iter(torch.randperm(self._pages(), dtype=torch.int32).split(
            [-(-length // case.page_size) for length in case.lengths]))
        for row in table:
            own = next(numbers)
            row[: len(own)] = own
        return found._replace(page_table=table.to(DEVICE))

    def _first(self, cache):
        """Returns the rows of the first sequence, (kv_heads, length, head_dim), of a cache or of its scales."""
        length = self.case.lengths[0]
        if not self.case.page_size:
            return cache[0, :, :length]
        own = self.sequences.page_table[0, : -(-length // self.case.page_size)].long()
        return cache[own].transpose(0, 1).flatten(1, 2)[:, :length]

    def attile(self, schedule):
        return self._kernel(self.case.problem, schedule, self._new() if self.case.append else None, self.q)

    def alone(self):
        """Attention to a cache that already has the new tokens, written by another work; queries are not rotated."""
        work = self._kernel(self.case.problem_alone, None, None, self.q)
        work.rotates = False
        return work

    def in_turn(self):
        """append_kv and then attention, as two launches."""
        new, step = self._new(), self.sequences
        turned = torch.empty_like(self.q) if new.rope else self.q
        attend = self._kernel(self.case.problem_alone, None, None, turned)
        names = {"k": new.k, "v": new.v} | ({"q": self.q, "q_out": turned} if new.rope else {})
        arrays = {name: one for name, one in step._asdict().items() if isinstance(one, torch.Tensor)}
        asked = _append.Asked(new.rope, None, None, None, "bhsd")
        appends = [_append.prepare({name: view(one) for name, one in {**names, "k_cache": k, "v_cache": v}.items()}, step, view, asked)
                   for k, v in self.caches]

        def work(number):
            (k, v), stream = self.caches[number], torch.cuda.current_stream().cuda_stream
            addresses = {name: one.data_ptr() for name, one in {**names, **arrays, "k_cache": k, "v_cache": v}.items()}
            appends[number].launch(addresses, stream)
            return attend(number)

        return work

    def _new(self):
        case = self.case
        if self.new is None:
            shape = case.batch, case.kv_heads, case.len_q, case.head_dim
            self.new = [torch.randn(shape, dtype=torch.bfloat16, device=DEVICE) for _ in range(2)]
        return attile.NewTokens(*self.new, rope=None if case.append == "none" else case.append)

    def _kernel(self, problem, schedule, new, q):
        kernel = attile.compile(problem, schedule)
        self.kernel_name = self.kernel_name or kernel.name
        launches = [kernel.bind(q, k, v, self.out, sequences=self.sequences, k_scale=of_k, v_scale=of_v, new=new)
                    for (k, v), (of_k, of_v) in zip(self.caches, self.scales)]

        def work(number):
            launches[number](torch.cuda.current_stream().cuda_stream)
            return self.out

        return work

    def cudnn(self):
        return self._sdpa(SDPBackend.CUDNN_ATTENTION, None)

    def fa2(self):
        case = self.case
        return self._sdpa(SDPBackend.FLASH_ATTENTION,
                          bias.causal_lower_right(case.len_q, case.len_kv) if case.len_q > 1 else None)

    def flashinfer(self, backend="auto"):
        """FlashInfer on tensor cores, with its own plan of the launch made beforehand. Caches without pages are copied
        to pages, in order: FlashInfer splits keys at page borders. For several queries there is a choice of `backend`:
        fa2 packs the heads of a group, but auto does not select it."""
        import flashinfer

        case, rows = self.case, self.case.page_size or PAGE
        pages = case.room // rows
        numbers = torch.arange(case.batch * pages, dtype=torch.int32, device=DEVICE)
        caches = self.caches if case.page_size else [tuple(_in_pages(one) for one in cache) for cache in self.caches]
        if case.page_size:
            numbers = self.sequences.page_table.flatten()
        starts = torch.arange(case.batch + 1, dtype=torch.int32)
        last = torch.full((case.batch,), rows, dtype=torch.int32)
        workspace = torch.empty(512 << 20, dtype=torch.uint8, device=DEVICE)
        shape = case.heads, case.kv_heads, case.head_dim, rows
        types = {"q_data_type": self.q.dtype, "kv_data_type": self.caches[0][0].dtype}
        if case.len_q == 1:
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
            wrapper.plan(starts * pages, numbers, last, *shape, **types)
        else:
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "HND", backend=backend)
            wrapper.plan(starts * case.len_q, starts * pages, numbers, last, *shape, causal=True, **types)
        q = self.q.transpose(1, 2).reshape(case.batch * case.len_q, case.heads, case.head_dim)
        out = torch.empty_like(q)

        def work(number):
            wrapper.run(q, caches[number], out=out)
            return out.view(case.batch, case.len_q, case.heads, case.head_dim).transpose(1, 2)

        return work

    def _sdpa(self, backend, mask):
        def work(number):
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(self.q, *self.caches[number], attn_mask=mask, enable_gqa=True)

        work.masked = mask is not None or self.case.len_q == 1
        return work

    def fetch(self):
        """Reads K and V with as many bytes in flight as fit, and sums them."""
        import triton
        import triton.language as tl

        @triton.jit
        def read(k, v, to, blocks, BLOCK: tl.constexpr):
            total = tl.zeros((BLOCK,), tl.int32)
            for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
                at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
                total ^= tl.load(k + at) ^ tl.load(v + at)
            tl.store(to + tl.program_id(0), tl.sum(total))

        size, programs = 4096, 4 * torch.cuda.get_device_properties(0).multi_processor_count
        to = torch.empty(programs, dtype=torch.int32, device=DEVICE)
        flat = [tuple(one.as_strided((one.numel(),), (1,)).view(torch.int32) for one in self._memory(*cache))
                for cache in self.caches]

        def work(number):
            read[(programs,)](*flat[number], to, flat[number][0].numel() // size, BLOCK=size, num_warps=8)
            return to

        return work

    def _memory(self, k, v):
        """Returns two tensors that cover all that is read: K and V, or the halves of the tensor that holds both."""
        return k.flatten().chunk(2) if self.case.head_dim_v else (k, v)

    def error(self, work):
        """The relative error of the first sequence's O, in the Frobenius norm. For 8 bits, the reference uses the
        numbers that they stand for, which kernels multiply in fp16: rounding O to bf16 remains the largest error."""
        self.out.fill_(torch.nan)
        found = work(0)[0].float()  # it may write new tokens
        case, (k, v) = self.case, (self._first(one).float() * (1 if scale is None else self._first(_spread(scale, one)))
                                   for one, scale in zip(self.caches[0], self.scales[0]))
        group = case.heads // case.kv_heads
        q = self.q[0].float()
        if case.append and case.rope and getattr(work, "rotates", True):
            q = _turned(q, torch.arange(k.shape[1] - case.len_q, k.shape[1], device=DEVICE))
        scores = torch.matmul(q, k.repeat_interleave(group, 0).transpose(1, 2))
        scores *= case.head_dim**-0.5
        if case.len_q > 1 and getattr(work, "masked", True):
            last = torch.arange(case.len_q, device=DEVICE)[:, None] + k.shape[1] - case.len_q
            scores.masked_fill_(torch.arange(k.shape[1], device=DEVICE)[None] > last, -torch.inf)
        expected = torch.matmul(scores.softmax(-1), v.repeat_interleave(group, 0))
        return float((found - expected).norm() / expected.norm())

    def graph(self, work):
        """Returns a graph of launches over the caches in turn."""
        self._kept.append(work)  # with its workspace, which the graph writes to
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for number in range(len(self.caches)):
                work(number)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for number in range(self.case.launches):
                work(number % len(self.caches))
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
        return graph

    def microseconds(self, graph, milliseconds):
        """The microseconds of one launch, measured over `milliseconds` of launches."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def run(count):
            begin.record()
            for _ in range(count):
                graph.replay()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e3

        count = max(1, round(milliseconds * 1e3 / run(1)))
        return run(count) / count / self.case.launches

    def close(self):
        self.caches, self.scales, self._kept = None, None, []
        gc.collect()
        torch.cuda.empty_cache()


def _in_pages(cache):
    """(batch, kv_heads, length, head_dim) -> (batch * pages, kv_heads, PAGE, head_dim)."""
    return cache.unflatten(2, (-1, PAGE)).transpose(1, 2).flatten(0, 1).contiguous()


def _spread(scale, cache):
    """Expands scales to broadcast with (blocks, kv_heads, rows, head_dim)."""
    return scale[None, :, None, None].expand(*cache.shape[:3], 1) if scale.dim() == 1 else scale[..., None]


def _turned(x, positions):
    """Rotates (heads, tokens, dim) by RoPE of halves with base 10000."""
    half = x.shape[-1] // 2
    angle = positions[:, None].double() * 10000.0 ** (-torch.arange(half, device=DEVICE).double() / half)
    cosine, sine, one, other = angle.cos().float(), angle.sin().float(), x[..., :half], x[..., half:]
    return torch.cat((one * cosine - other * sine, other * cosine + one * sine), -1)
