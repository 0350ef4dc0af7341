"""The cases that the tuned table was made with: there the library knows the best schedule; elsewhere it predicts."""
import pathlib
import re

FOLDER = pathlib.Path(__file__).parents[1] / "tuned"


def table(gpu):
    """The file of that GPU, which need not exist; docs/tuned.md gives the rule for its name."""
    return FOLDER / (re.sub("[^a-z0-9]", "_", (gpu or "").lower()) + ".yaml")


def shapes(path):
    """Returns {(head_dim, mask, batch, heads, kv_heads, len_q, len_kv)} of the rows in bf16. The table is in the format
    that the library writes, one row per line."""
    found, problem = set(), {}
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, _, rest = line.strip().removeprefix("- ").partition(": ")
        words = dict(re.findall(r"(\w+): (\w+)", rest))
        if kind == "problem":
            problem = words
        elif kind == "shape" and problem.get("dtype") == "bf16" and "head_dim_v" not in problem:
            sizes = [int(words[name]) for name in ("batch", "heads", "kv_heads", "len_q", "len_kv")]
            found.add((int(problem["head_dim"]), problem.get("mask", "none"), *sizes))
    return found


def has(known, case):
    return (case.head_dim, case.rule_knobs().removeprefix("mask="), case.batch, case.heads, case.kv_heads, case.len_q,
            case.len_kv) in known
