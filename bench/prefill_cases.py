"""The problems of bench_prefill.py: prompts as dense tensors, packed, padded, and with K and V in pages."""
import dataclasses
import random

TOKENS, COLUMNS = 16384, 2048  # tokens of all sequences; columns of all heads


@dataclasses.dataclass(frozen=True)
class Case:
    """Sequences of `length` tokens each, or on average."""
    head_dim: int
    length: int
    causal: bool

    @property
    def name(self):
        return f"d{self.head_dim} S{self.length} {'causal' if self.causal else 'full'}"

    @property
    def heads(self):
        return COLUMNS // self.head_dim

    @property
    def batch(self):
        return TOKENS // self.length

    @property
    def equal(self):
        return [self.length] * self.batch

    @property
    def varied(self):
        """Lengths of sequences with as many tokens in total, from 1 to 2 length - 1 each."""
        draw = random.Random(self.length)
        half = [draw.randrange(1, self.length) for _ in range(self.batch // 2)]
        return half + [2 * self.length - length for length in half]

    def matches(self, wanted):
        """True if all of these words are in the name."""
        return set(wanted) <= set(self.name.split())

    def flops(self, lengths):
        """Flops of the visible query-key pairs: two products, each of head_dim multiplications and additions."""
        pairs = sum(length * (length + 1) // 2 if self.causal else length * length for length in lengths)
        return 4 * self.head_dim * self.heads * pairs

    def problem(self, side):
        longest = max(side.lengths(self))
        return (f"family=attention_forward dtype=bf16 head_dim={self.head_dim} mask={'causal' if self.causal else 'none'} "
                f"{side.knobs} batch={self.batch} heads={self.heads} kv_heads={self.heads} len_q={longest} "
                f"len_kv={longest} alignment=16")


@dataclasses.dataclass(frozen=True)
class Side:
    """One way to store the sequences in memory."""
    name: str
    layout: str = "ragged"
    order: str = "nhd"  # "nhd" tokens before heads, "hnd" heads before tokens; with pages, the order within a page
    page_size: int = 0
    is_varied: bool = False
    goal: float = 0  # largest acceptable time relative to dense; 0 = no goal is set

    def lengths(self, case):
        return case.varied if self.is_varied else case.equal

    @property
    def knobs(self):
        return f"layout={self.layout}" + (f" page_size={self.page_size}" if self.page_size else "")


SIDES = (
    Side("dense", "dense", "hnd"),
    Side("dense nhd", "dense"),
    Side("padded", "padded", "hnd"),
    Side("ragged", goal=1.03),
    Side("pages of 128", order="hnd", page_size=128, goal=1.03),
    Side("pages of 128 nhd", page_size=128, goal=1.03),
    Side("pages of 16", order="hnd", page_size=16, goal=1.10),
    Side("pages of 16 nhd", page_size=16, goal=1.10),
    Side("varied", is_varied=True),
    Side("varied, pages of 16", order="hnd", page_size=16, is_varied=True),
)


def cases():
    return [Case(head_dim, length, causal) for head_dim, lengths in (
        (64, (1024, 2048, 4096, 8192)), (128, (1024, 2048, 4096, 8192)), (256, (4096,))) for length in lengths
        for causal in (False, True)]


def ratios(tflops):
    """Returns {side: its time relative to the faster one of the dense sides, for the same work}."""
    dense = max((tflops[name] for name in ("dense", "dense nhd") if name in tflops), default=0)
    return {name: round(dense / speed, 3) for name, speed in tflops.items()}


def markdown(rows):
    """Returns a table with one line per case: TFLOP/s of dense tensors, then the relative times of the sides; times
    above a goal are marked."""
    sides = [side for side in SIDES if any(side.name in row["tflops"] for row in rows)]
    lines = ["| case | " + " | ".join(f"{side.name}{f' ({side.goal})' if side.goal else ''}" for side in sides) + " |",
             "| --- |" + " ---: |" * len(sides)]
    for row in rows:
        found, cells = ratios(row["tflops"]), []
        for side in sides:
            ratio = found.get(side.name)
            if side.layout == "dense" and ratio:
                cells.append(f"{row['tflops'][side.name]:.0f}")
            else:
                cells.append(f"{ratio:.2f}{' !' if side.goal and ratio > side.goal else ''}" if ratio else "-")
        lines.append(f"| {row['case']} | " + " | ".join(cells) + " |")
    faults = [f"{row['case']}, {name}: {what}" for row in rows for name, what in row.get("faults", {}).items()]
    return "\n".join(lines + [""] * bool(faults) + faults) + "\n"
