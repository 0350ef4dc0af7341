"""Converts rows of a run to a Markdown table: TFLOP/s of every kernel, and ours relative to the peers'."""
import json
import math
import pathlib

import protocol

GOAL = 0.95  # cells below it are marked
# The columns that matter to users: the library's choice, with and without hints of sizes and alignment.
CHOICES = {"attile": "", "attile without hints": "unhinted"}

_TITLES = {"cudnn": "cuDNN", "fa2": "FA2", "flex": "Flex", "flex_mma": "Flex by mma.sync", "fa3": "FA3",
           "flashinfer": "FlashInfer"}


def published():
    """Returns {case: {peer: TFLOP/s}} measured before, including the peer that this benchmark cannot run itself."""
    path = pathlib.Path(__file__).with_name("peers_h200.json")
    return {cell["case"]: cell for cell in json.loads(path.read_text())["cells"]}


def title(kernel):
    return _TITLES.get(kernel, kernel)


def tflops(row, mode="cold"):
    return row.get(mode, {}).get("tflops") if row and "error" not in row and "refused" not in row else None


def by_case(rows):
    """Returns {case: {kernel: row}} in the order of the rows; the last row of a kernel counts."""
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["kernel"]] = row
    return cases


def refusals(rows):
    """Returns {case: reason} for the cases whose figures are not published."""
    found = {}
    for case, kernels in by_case(rows).items():
        for mode in ("cold", "warm"):
            measured = {name: row[mode] for name, row in kernels.items() if tflops(row, mode)}
            for reason in protocol.objections(measured):
                found.setdefault(case, []).append(reason)
    return {case: "; ".join(dict.fromkeys(reasons)) for case, reasons in found.items()}


def admitted(rows):
    """Returns the rows; those of an unpublished case have the reason under "refused", and count as without figures."""
    why = refusals(rows)
    return [{**row, "refused": why[row["case"]]} if row["case"] in why else row for row in rows]


def warnings(rows):
    """Returns what the report will refuse, for the person who measures."""
    return "".join(f"The report will refuse {case}: {why}.\n" for case, why in refusals(rows).items())


def ours(kernels):
    """Returns the row of the library's choice, or of the fastest of our schedules in runs without it, or None."""
    if "attile" in kernels:
        return kernels["attile"] if tflops(kernels["attile"]) else None
    return max((row for row in kernels.values() if "schedule" in row and tflops(row)), key=tflops, default=None)


def against_now(kernels, mode="cold"):
    """Our TFLOP/s relative to the best peer of this run."""
    peers = [tflops(row, mode) for row in kernels.values() if "schedule" not in row and tflops(row, mode)]
    mine = tflops(ours(kernels), mode)
    return mine / max(peers) if mine and peers else None


def against_published(case, kernels, table):
    """(ours / cuDNN now) / (the better of FA3 and cuDNN / cuDNN then), since machines of one kind differ by a few
    percent. None if FA3 was measured beside ours."""
    then, mine, cudnn = table.get(case, {}), tflops(ours(kernels)), tflops(kernels.get("cudnn"))
    if not mine or not cudnn or "cudnn" not in then or tflops(kernels.get("fa3")):
        return None
    return mine / cudnn / (max(then.get("fa3", 0), then["cudnn"]) / then["cudnn"])


def geometric_mean(values):
    values = [value for value in values if value]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def markdown(rows, mode="cold"):
    """Returns the table, one line per case, then the geometric means for each head dimension, and the errors."""
    cases, table = by_case(rows), published()
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    head = ["case"] + [title(name) for name in names] + ["/ best here", "/ best published, by cuDNN"]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    for case, kernels in cases.items():
        best = ours(kernels)
        figures = [_figure(kernels.get(name), mode, kernels.get(name) is best) for name in names]
        normal = against_published(case, kernels, table) if mode == "cold" else None
        scaled = "measured" if tflops(kernels.get("fa3"), mode) else _ratio(normal)
        lines.append(_line([case] + figures + [_ratio(against_now(kernels, mode)), scaled]))
    return "\n".join(lines + ["", *means(cases, table, mode)] + faults(rows)) + "\n"


def means(cases, table, mode="cold"):
    """Returns the geometric mean and the minimum of both ratios, for each head dimension and mask."""
    groups = {}
    for case, kernels in cases.items():
        words = case.split()
        ratios = groups.setdefault((int(words[0][1:]), words[-1]), ([], []))
        ratios[0].append(against_now(kernels, mode))
        ratios[1].append(against_published(case, kernels, table) if mode == "cold" else None)
    lines = [_line(["head_dim", "mask", "mean / best here", "least", "mean / best published, by cuDNN", "least"]),
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
        return "failed" if row and "error" in row else "refused" if row and "refused" in row else "-"
    return f"**{value:.0f}**" if best else f"{value:.0f}"


def _ratio(value):
    return "-" if value is None else f"{value:.2f}" + (" ◀" if value < GOAL else "")


def faults(rows):
    """Returns one line for each failure or refusal, peer's path, spill and result that is not reproducible."""
    refused = {row["case"]: row["refused"] for row in rows if "refused" in row}
    lines = [f"- {case}, refused: {why}" for case, why in refused.items()]
    lines += [f"- {row['case']}, {row['kernel']}: {row['error'].strip().splitlines()[0]}" for row in rows
             if "error" in row]
    lines += [f"- {row['case']}, {title(row['kernel'])}: {row['path']}" for row in rows
              if row.get("path", "num_splits 1") != "num_splits 1"]
    lines += [f"- {row['case']}, {row['kernel']}: {row['spill_bytes']} bytes spilled" for row in rows
              if row.get("spill_bytes", 0) > 0]
    lines += [f"- {row['case']}, {row['kernel']}: not the same bits after the last launch" for row in rows
              if row.get("same_bits") is False]
    return ["", *lines] if lines else []
