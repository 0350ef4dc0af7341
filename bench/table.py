"""Rows of a run become a Markdown table: TFLOP/s of every kernel, and ours in proportion to the peers'."""
import json
import math
import pathlib

GOAL = 0.95  # cells below it are marked

_TITLES = {"cudnn": "cuDNN", "fa2": "FA2", "flex": "Flex", "fa3": "FA3"}


def published():
    """{case: {peer: TFLOP/s}} measured before, with the peer that this benchmark cannot run itself."""
    path = pathlib.Path(__file__).with_name("peers_h200.json")
    return {cell["case"]: cell for cell in json.loads(path.read_text())["cells"]}


def title(kernel):
    return _TITLES.get(kernel, kernel)


def tflops(row, mode="cold"):
    return row.get(mode, {}).get("tflops") if row and "error" not in row else None


def by_case(rows):
    """{case: {kernel: row}} in the order of the rows; the last row of a kernel counts."""
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["kernel"]] = row
    return cases


def ours(kernels):
    """The fastest of our schedules, or None."""
    return max((row for row in kernels.values() if "schedule" in row and tflops(row)), key=tflops, default=None)


def against_now(kernels, mode="cold"):
    """Ours in proportion to the best peer of this run."""
    peers = [tflops(row, mode) for row in kernels.values() if "schedule" not in row and tflops(row, mode)]
    mine = tflops(ours(kernels), mode)
    return mine / max(peers) if mine and peers else None


def against_published(case, kernels, table):
    """(ours / cuDNN now) / (the better of FA3 and cuDNN / cuDNN then): machines of one kind differ by a few percent."""
    then, mine, cudnn = table.get(case, {}), tflops(ours(kernels)), tflops(kernels.get("cudnn"))
    if not mine or not cudnn or "cudnn" not in then:
        return None
    return mine / cudnn / (max(then.get("fa3", 0), then["cudnn"]) / then["cudnn"])


def geometric_mean(values):
    values = [value for value in values if value]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def markdown(rows, mode="cold"):
    """The table, a line a case, then the geometric means a head dimension and the errors."""
    cases, table = by_case(rows), published()
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    head = ["case"] + [title(name) for name in names] + ["/ best here", "/ best published"]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    for case, kernels in cases.items():
        best = ours(kernels)
        figures = [_figure(kernels.get(name), mode, kernels.get(name) is best) for name in names]
        normal = against_published(case, kernels, table) if mode == "cold" else None
        lines.append(_line([case] + figures + [_ratio(against_now(kernels, mode)), _ratio(normal)]))
    return "\n".join(lines + ["", *means(cases, table, mode)] + faults(rows)) + "\n"


def means(cases, table, mode="cold"):
    """Geometric means of both ratios, and the least of them, for each head dimension and mask."""
    groups = {}
    for case, kernels in cases.items():
        words = case.split()
        ratios = groups.setdefault((int(words[0][1:]), words[-1]), ([], []))
        ratios[0].append(against_now(kernels, mode))
        ratios[1].append(against_published(case, kernels, table) if mode == "cold" else None)
    lines = [_line(["head_dim", "mask", "mean / best here", "least", "mean / best published", "least"]),
             _line(["---", "---"] + ["---:"] * 4)]
    for (head_dim, mask), ratios in sorted(groups.items()):
        cells = [cell for one in ratios
                 for cell in (_ratio(geometric_mean(one)), _ratio(min(filter(None, one), default=None)))]
        lines.append(_line([str(head_dim), mask] + cells))
    return lines


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _figure(row, mode, best):
    value = tflops(row, mode)
    if not value:
        return "failed" if row and "error" in row else "-"
    return f"**{value:.0f}**" if best else f"{value:.0f}"


def _ratio(value):
    return "-" if value is None else f"{value:.2f}" + (" ◀" if value < GOAL else "")


def faults(rows):
    """What failed, one line each; and what was spilled or not repeatable."""
    lines = [f"- {row['case']}, {row['kernel']}: {row['error'].strip().splitlines()[0]}" for row in rows
             if "error" in row]
    lines += [f"- {row['case']}, {row['kernel']}: {row['spill_bytes']} bytes spilled" for row in rows
              if row.get("spill_bytes", 0) > 0]
    lines += [f"- {row['case']}, {row['kernel']}: not the same bits after the last launch" for row in rows
              if row.get("same_bits") is False]
    return ["", *lines] if lines else []
