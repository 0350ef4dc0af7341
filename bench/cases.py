"""The attention problems that are measured: their shapes and names.

The name of a case consists of words, for example "d128 b4 h16 s4096 causal"; `--only "d128 causal"` selects by words.
"""
import dataclasses

TOKENS, HIDDEN = 16384, 2048
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


@dataclasses.dataclass(frozen=True)
class Case:
    group: str  # grid, llama, odd_dim, off_grid, heads, chunked, untuned
    head_dim: int
    batch: int
    heads: int
    len_q: int
    causal: bool  # with the last query and key aligned
    kv_heads: int = 0  # 0: the same as heads
    len_kv: int = 0  # 0: the same as len_q
    dtype: str = "bf16"
    scale: float = 0  # 0: 1 / sqrt(head_dim)

    def __post_init__(self):
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "len_kv", self.len_kv or self.len_q)

    @property
    def name(self):
        heads = f"h{self.heads}" + (f"/{self.kv_heads}" if self.kv_heads != self.heads else "")
        length = f"s{self.len_q}" + (f"x{self.len_kv}" if self.len_kv != self.len_q else "")
        return f"d{self.head_dim} b{self.batch} {heads} {length} {self.rule_name()}{self._odd_words()}"

    def rule_name(self):
        return "causal" if self.causal else "full"

    def _odd_words(self):
        return (f" {self.dtype}" if self.dtype != "bf16" else "") + (f" scale={self.scale}" if self.scale else "")

    @property
    def factor(self):
        """The scale of the scores."""
        return self.scale or self.head_dim**-0.5

    @property
    def flops(self):
        """Flops of both products. Causal counts half of the square, as is customary, without half of the diagonal."""
        seen = min(self.len_q, self.len_kv)
        pairs = seen * self.len_kv - seen**2 / 2 if self.causal else self.len_q * self.len_kv
        return 4 * self.batch * self.heads * pairs * self.head_dim

    def seen(self, query):
        """The number of keys, from the first, that `query` sees."""
        return max(0, min(self.len_kv, query + 1 + self.len_kv - self.len_q)) if self.causal else self.len_kv

    def problem(self, knobs):
        """The problem without hints, as known before any launch."""
        return f"family=attention_forward dtype={self.dtype} head_dim={self.head_dim} {self.rule_knobs()} {knobs}"

    def hints(self):
        """Hints about future launches. A promised alignment implies a positive scale."""
        return (f"batch={self.batch} heads={self.heads} kv_heads={self.kv_heads} len_q={self.len_q} "
                f"len_kv={self.len_kv}" + ("" if self.scale < 0 else " alignment=16"))

    def fixed_knobs(self):
        """Knobs of a kernel for these sizes only."""
        return (f"fixed_heads={self.heads} fixed_kv_heads={self.kv_heads} fixed_len_q={self.len_q} "
                f"fixed_len_kv={self.len_kv}")

    def rule_knobs(self):
        return "mask=causal" if self.causal else "mask=none"

    def matches(self, selections):
        """True if all words of one of the selections are in the name or the group; an empty list selects all."""
        words = set(self.name.split()) | {self.group}
        return not selections or any(set(selection.split()) <= words for selection in selections)


def _square(group, head_dim, length, heads=None, kv_heads=0):
    batch = max(1, TOKENS // length)
    return [Case(group, head_dim, batch, heads or HIDDEN // head_dim, length, causal, kv_heads)
            for causal in (False, True)]


def _untuned():
    """Sizes that no tuning used. Every pair of values of head dimension, length, heads and batch occurs."""
    return [Case("untuned", head_dim, (1, 3)[turn % 2], (12, 40, 28)[turn % 3], length, causal)
            for i, head_dim in enumerate((64, 128, 256)) for j, length in enumerate((777, 1500, 3000, 6000))
            for causal in (False, True) for turn in [i + j + causal]]


def _few_heads():
    """One sequence of few heads, whose Q tiles are some for each multiprocessor."""
    sizes = ((64, 8, 5000), (64, 4, 8192), (96, 6, 3500), (128, 8, 3000), (128, 6, 7000), (128, 4, 8192),
             (128, 2, 16384), (192, 4, 6000), (256, 6, 6000))
    return [Case("few_heads", head_dim, 1, heads, length, True) for head_dim, heads, length in sizes] + [
        Case("few_heads", 64, 1, 8, 4096, True, 1), Case("few_heads", 64, 1, 4, 4096, False)]


def matrix():
    cases = [case for d in (64, 96, 128, 192, 256) for length in LENGTHS for case in _square("grid", d, length)]
    cases += [Case("llama", 128, 1, 32, 8192, True, 8), Case("llama", 128, 2, 64, 4096, True, 8)]
    cases += [case for d in (40, 80, 112) for length in (1024, 4096) for case in _square("odd_dim", d, length)]
    cases += [case for d, length in ((128, 1000), (128, 4100), (64, 2047)) for case in _square("off_grid", d, length)]
    cases += _square("heads", 128, 4096, 40) + _square("heads", 128, 4096, 28, 4)
    cases += [Case("chunked", 128, 1, 32, len_q, causal, 8, 32768) for len_q in (64, 512) for causal in (False, True)]
    return cases + _untuned() + _few_heads()


def quick(case):
    """True for a subset that shows the effect of a kernel change within about a minute."""
    return case.group == "llama" or (case.group == "grid" and case.head_dim in (64, 128, 256)
                                     and case.len_q in (512, 4096, 16384))


def tiny():
    """Cases small enough for the host device: for a dry run of the program, not for measurements."""
    square = [Case("grid", 64, 1, 2, 70, causal) for causal in (False, True)]
    return square + [Case("chunked", 32, 1, 2, 20, True, 1, 33)]
