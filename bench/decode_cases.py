"""The decoding problems that are measured, and the number of caches that they rotate over."""
import dataclasses
import random

ROTATED_BYTES = 300 << 20  # all caches together, so that no launch finds data of an earlier one in L2
LEAST_CACHES, LEAST_LAUNCHES = 3, 12


@dataclasses.dataclass(frozen=True)
class Case:
    batch: int
    len_kv: int
    heads: int = 64
    kv_heads: int = 8
    len_q: int = 1
    head_dim: int = 128
    order: str = "hnd"  # order of a cache in memory: "hnd" heads before tokens, "nhd" tokens before heads
    goal_us: float = 0  # 0 = no goal is set
    dtype_kv: str = ""  # type of a cache of 8 bits; "" = the type of q
    kv_scale: str = "none"
    head_dim_v: int = 0  # for latent attention, where V is the first columns of K; 0 = V is a tensor of its own
    page_size: int = 0  # 0 = no pages
    append: str = ""  # "" or, if the launch writes new tokens to the cache, the rotation: a value of rope, or "none"
    varied: bool = False  # lengths are drawn between 1 and 2 len_kv - 1, with mean len_kv

    @property
    def name(self):
        queries = f" q{self.len_q}" if self.len_q > 1 else ""
        stored = f" {self.dtype_kv} scale-{self.kv_scale}" if self.dtype_kv else ""
        wide = f"/{self.head_dim_v}" if self.head_dim_v else ""
        paged = f" page-{self.page_size}" if self.page_size else ""
        new = f" append {self.append}" if self.append else ""
        return (f"d{self.head_dim}{wide} b{self.batch} h{self.heads}/{self.kv_heads} s{self.len_kv}{queries} {self.order}{stored}"
                f"{paged}{' varied' if self.varied else ''}{new}")

    def matches(self, wanted):
        """True if all words of one of the texts in `wanted` are in the name, or if `wanted` is empty."""
        return not wanted or any(set(text.split()) <= set(self.name.split()) for text in wanted)

    @property
    def rows(self):
        """The number of rows of Q that share a K/V head."""
        return self.len_q * self.heads // self.kv_heads

    @property
    def lengths(self):
        """The number of keys of each sequence."""
        if not self.varied:
            return [self.len_kv] * self.batch
        draw = random.Random(1)
        half = [draw.randrange(1, self.len_kv) for _ in range(self.batch // 2)]
        return half + [2 * self.len_kv - length for length in half] + [self.len_kv] * (self.batch % 2)

    @property
    def room(self):
        """The number of keys that a sequence has room for."""
        return 2 * self.len_kv if self.varied else self.len_kv

    @property
    def is_dense(self):
        return not self.page_size and not self.varied and not self.append

    @property
    def suits_pages(self):
        """True if FlashInfer can run the case: every sequence fills whole pages, with at most one scale."""
        return not self.append and not self.head_dim_v and not self.varied and self.kv_scale == "none" and self.dtype_kv != "int8"

    @property
    def cache_bytes(self):
        """Bytes of K and V of all sequences, including scales of tokens."""
        row = self.head_dim * (1 if self.dtype_kv else 2) + (4 if self.kv_scale == "token" else 0)
        return (1 if self.head_dim_v else 2) * sum(self.lengths) * self.kv_heads * row

    @property
    def bytes(self):
        """Bytes that a launch has to move."""
        return self.cache_bytes + 2 * self.batch * self.heads * self.len_q * (
            self.head_dim + (self.head_dim_v or self.head_dim))

    @property
    def caches(self):
        return max(LEAST_CACHES, -(-ROTATED_BYTES // self.cache_bytes))

    @property
    def launches(self):
        """Number of launches in a graph: whole rounds over the caches."""
        return self.caches * max(1, -(-LEAST_LAUNCHES // self.caches))

    @property
    def rope(self):
        """Knobs of the rotation."""
        return f"rope={self.append}" if self.append not in ("", "none") else ""

    @property
    def problem(self):
        return f"{self.problem_alone} append=1 {self.rope}" if self.append else self.problem_alone

    @property
    def problem_alone(self):
        """The problem without new tokens."""
        mask = "causal" if self.len_q > 1 else "none"
        stored = f"dtype_kv={self.dtype_kv} kv_scale={self.kv_scale} " if self.dtype_kv else ""
        stored += f"head_dim_v={self.head_dim_v} shared_kv=1 " if self.head_dim_v else ""
        stored += "" if self.is_dense else "layout=padded "
        stored += f"page_size={self.page_size} " if self.page_size else ""
        return (f"family=attention_forward dtype=bf16 {stored}head_dim={self.head_dim} mask={mask} batch={self.batch} "
                f"heads={self.heads} kv_heads={self.kv_heads} len_q={self.len_q} len_kv={self.room} alignment=16")


def cases():
    return _in_16_bits() + _of_sequences() + _in_8_bits() + _latent() + _with_new_tokens()


def _with_new_tokens():
    return [Case(batch, len_kv, page_size=page_size, append=rope) for batch, len_kv in ((1, 1024), (1, 8192), (8, 8192), (64, 8192))
            for page_size, rope in ((0, "halves"), (16, "halves"), (16, "none"))]


def _latent():
    """On 132 SMs, Q tiles are not split with 128 sequences, split in two with 100, and in 32 with one."""
    return [Case(batch, 4096, heads=heads, kv_heads=1, head_dim=576, head_dim_v=512, goal_us=goal)
            for batch, heads, goal in ((128, 128, 221), (128, 16, 0), (100, 128, 0), (8, 128, 0), (1, 128, 0))]


def _of_sequences():
    return [Case(64, 8192, page_size=page_size, goal_us=goal) for page_size, goal in ((128, 0), (16, 490), (1, 500))] + [
        Case(256, 1024, varied=True, goal_us=252), Case(256, 1024, varied=True, page_size=16),
        Case(64, 8192, page_size=16, dtype_kv="e4m3", kv_scale="token")]


def _in_8_bits():
    large = {("e4m3", "none"): 242}  # goals
    return [Case(64, 8192, dtype_kv=dtype_kv, kv_scale=kv_scale, goal_us=large.get((dtype_kv, kv_scale), 0))
            for dtype_kv in ("e4m3", "int8") for kv_scale in ("none", "head", "token")] + [
        Case(64, 8192, order="nhd", dtype_kv="e4m3"), Case(1, 8192, dtype_kv="e4m3", goal_us=8.5),
        Case(1, 8192, dtype_kv="e4m3", kv_scale="token"), Case(1, 8192, dtype_kv="int8", kv_scale="token")]


def _in_16_bits():
    return [Case(64, 8192, goal_us=475), Case(64, 8192, order="nhd"), Case(64, 8192, len_q=2),
            Case(64, 8192, len_q=4, goal_us=485), Case(64, 8192, len_q=8, goal_us=500), Case(8, 8192, len_q=8),
            Case(1, 8192, len_q=8), Case(8, 8192, len_q=16, heads=32),
            Case(64, 8192, heads=16, kv_heads=16), Case(256, 1024, goal_us=248), Case(16, 32768),
            Case(8, 8192, goal_us=66), Case(1, 131072, goal_us=123), Case(1, 32768, heads=32, kv_heads=4),
            Case(1, 8192, goal_us=12), Case(1, 1024, goal_us=5.5), Case(1, 32768, heads=8, kv_heads=1, goal_us=10),
            Case(64, 8192, head_dim=64), Case(64, 4096, head_dim=256)] + _of_more_rows()


def _of_more_rows():
    """Cases with few and with many bytes, with groups of 8, 16 and 32 rows."""
    return [Case(64, 1024), Case(16, 1024), Case(64, 1024, head_dim=96), Case(16, 1024, head_dim=256),
            Case(1, 1024, len_q=4), Case(1, 8192, len_q=2), Case(64, 1024, len_q=4), Case(64, 8192, head_dim=64, len_q=4),
            Case(64, 4096, head_dim=256, len_q=4), Case(1, 8192, heads=32, kv_heads=2), Case(64, 4096, heads=32, kv_heads=2),
            Case(64, 1024, heads=16, kv_heads=1), Case(1, 32768, heads=32, kv_heads=1)]


def markdown(rows):
    """Returns a table with one line per case: microseconds of each kernel, and ours relative to fetching alone and to
    the best peer."""
    kernels = sorted({name for row in rows for name in row["us"]}, key=lambda name: (name != "attile", name))
    head = ["case", *kernels, "share of fetching", "best peer / ours", "goal"]
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for row in rows:
        us = row["us"]
        ours, fetch = us.get("attile"), us.get("fetch")
        peers = [us[name] for name in us if name not in ("attile", "fetch", "decode alone")]
        cells = [_number(us.get(name)) for name in kernels]
        cells += [_number(fetch and ours and fetch / ours, 3), _number(ours and peers and min(peers) / ours, 2),
                  _number(row.get("goal_us"))]
        lines.append(f"| {row['case']} | " + " | ".join(cells) + " |")
    faults = [f"{row['case']}, {name}: {what}" for row in rows for name, what in row.get("faults", {}).items()]
    return "\n".join(lines + [""] * bool(faults) + faults) + "\n"


def _number(value, places=1):
    return f"{value:.{places}f}" if value else "-"
