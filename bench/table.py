"""Rows of a run become a Markdown table: TFLOP/s of every kernel, and ours in proportion to the peers'."""
import json
import math
import pathlib

import protocol

GOAL = 0.95  # cells below it are marked
# The columns of a user's own: the library chooses, with and without being told of sizes and alignment.
CHOICES = {"attile": "", "attile without hints": "unhinted"}

_TITLES = {"cudnn": "cuDNN", "fa2": "FA2", "flex": "Flex", "flex_mma": "Flex by mma.sync", "fa3": "FA3",
           "flashinfer": "FlashInfer"}


def published():
    """{case: {peer: TFLOP/s}} measured before, with the peer that this benchmark cannot run itself."""
    path = pathlib.Path(__file__).with_name("peers_h200.json")
    return {cell["case"]: cell for cell in json.loads(path.read_text())["cells"]}


def title(kernel):
    return _TITLES.get(kernel, kernel)


def tflops(row, mode="cold"):
    return row.get(mode, {}).get("tflops") if row and "error" not in row and "refused" not in row else None


def by_case(rows):
    """{case: {kernel: row}} in the order of the rows; the last row of a kernel counts."""
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["kernel"]] = row
    return cases


def refusals(rows):
    """{case: why its figures are not published}, of the cases where that is so."""
    found = {}
    for case, kernels in by_case(rows).items():
        for mode in ("cold", "warm"):
            measured = {name: row[mode] for name, row in kernels.items() if tflops(row, mode)}
            for reason in protocol.objections(measured):
                found.setdefault(case, []).append(reason)
    return {case: "; ".join(dict.fromkeys(reasons)) for case, reasons in found.items()}


def admitted(rows):
    """The rows; those of a case that is not published say why under "refused", and have no figures for what follows."""
    why = refusals(rows)
    return [{**row, "refused": why[row["case"]]} if row["case"] in why else row for row in rows]


def warnings(rows):
    """For who measures: what the report will refuse."""
    return "".join(f"The report will refuse {case}: {why}.\n" for case, why in refusals(rows).items())


def ours(kernels):
    """The library's choice; in runs that did not measure it the fastest of our schedules; or None."""
    if "attile" in kernels:
        return kernels["attile"] if tflops(kernels["attile"]) else None
    return max((row for row in kernels.values() if "schedule" in row and tflops(row)), key=tflops, default=None)


def against_now(kernels, mode="cold"):
    """Ours in proportion to the best peer of this run."""
    peers = [tflops(row, mode) for row in kernels.values() if "schedule" not in row and tflops(row, mode)]
    mine = tflops(ours(kernels), mode)
    return mine / max(peers) if mine and peers else None


def against_published(case, kernels, table):
    """(ours / cuDNN now) / (the better of FA3 and cuDNN / cuDNN then): machines of one kind differ by a few percent.
    None where FA3 was measured beside ours."""
    then, mine, cudnn = table.get(case, {}), tflops(ours(kernels)), tflops(kernels.get("cudnn"))
    if not mine or not cudnn or "cudnn" not in then or tflops(kernels.get("fa3")):
        return None
    return mine / cudnn / (max(then.get("fa3", 0), then["cudnn"]) / then["cudnn"])


def geometric_mean(values):
    values = [value for value in values if value]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def markdown(rows, mode="cold"):
    """The table, a line a case, then the geometric means a head dimension and the errors."""
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
    """Geometric means of both ratios, and the least of them, for each head dimension and mask."""
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
    """What failed or was refused, one line each; by what path a peer came; what was spilled or not repeatable."""
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
