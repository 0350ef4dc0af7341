"""Converts results/matrix.jsonl, masks.jsonl and masks_mma.jsonl to docs/benchmarks.md and .svg:
python3 bench/report.py [--run WORD]

For every case the newest fair run counts, and only runs that measured the library's own choice of schedule: the best of
many schedules, picked afterwards, is not what a user gets. Losing cells are included. A case without a fair run is
refused, with the reason that protocol.py gives, such as only two rounds, or kernels that began at different clocks.
"""
import argparse
import json
import pathlib

import bench_masks
import chart
import protocol
import table

ROOT = pathlib.Path(__file__).parents[1]
CEILING = 900  # top of the chart, TFLOP/s
WHAT = """The forward kernel in bf16 as the library chooses it, on random normal input, beside its peers in the same
process. TFLOP/s count 4 B H Sq Sk d flops, half of that for causal; medians; L2 flushed before every launch.
"attile without hints" is what the library chooses when the problem says nothing of sizes and alignment. Shapes that its
table was tuned on stand apart from those where it predicts from neighbours ([tuned.md](tuned.md)). A case that was not
measured fairly is refused. How: [bench/README.md](../bench/README.md)."""
RATIOS = f"""`/ best here`: ours in proportion to the best peer of the run. `/ best published, by cuDNN`, where FA3
was not measured in the run: (ours / cuDNN now) in proportion to (the better of FA3 and cuDNN / cuDNN) as published
in `bench/peers_h200.json`, since machines of one kind differ by a few percent. ◀ marks cells below {table.GOAL}."""
MASKS = """The same masks and scores, as text for attile and as functions for FlexAttention (`bench/rules.py`).
Neither side's compile time counts; FlexAttention's block mask is made beforehand and its time given apart, and again
within "with block mask"; attile needs nothing beforehand. "First answer": from the text to the result of its first
launch, with empty caches, while PyTorch's compiler keeps the processors busy; attile alone is in
`bench/results/runtime.jsonl`. "Causal / this": this in proportion to our own plain causal kernel."""
MASKS_MMA = """The same without wgmma on either side: `flash_mma` for sm_80, and FlexAttention as Triton compiles it for compute
capability 8.0 (`bench/triton_mma.py`), with the faster of its default tile and the one that PyTorch's tuner finds."""


def read(path, word=""):
    """Returns ({run: its machine}, the rows that count) for the runs with that word in their names."""
    machines, rows = {}, []
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        if word not in row["run"]:
            continue
        if "bench" in row:
            machines[row["run"]] = row
        else:
            rows.append(row)
    ours = [row for row in rows if row["kernel"] in table.CHOICES or "schedule" not in row]
    newest = newest_runs(ours)
    kept = [row for row in ours if newest.get(row["case"]) == row["run"]]
    return {run: machine for run, machine in machines.items() if run in newest.values()}, kept


def newest_runs(rows):
    """Returns {case: its newest run that is not refused, else its newest}, among runs with the library's choice."""
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {}).setdefault(row["run"], []).append(row)
    newest = {}
    for case, runs in cases.items():
        runs = {run: some for run, some in runs.items() if any(row["kernel"] == "attile" for row in some)}
        fair = [run for run, some in runs.items() if not table.refusals(some)]
        if runs:
            newest[case] = (fair or list(runs))[-1]
    return newest


def expected(kernels, then):
    """The result that the best published peer would have here: its lead over cuDNN then, times cuDNN now. None if FA3
    was measured."""
    if table.tflops(kernels.get("fa3")):
        return None
    cudnn = table.tflops(kernels.get("cudnn"))
    return cudnn * max(then.get("fa3", 0), then["cudnn"]) / then["cudnn"] if cudnn and "cudnn" in then else None


def panels(rows):
    """Returns [(heading, [(length, {kernel: TFLOP/s}, expected)])] of the grid, for chart.svg."""
    found, published = {}, table.published()
    for case, kernels in table.by_case([row for row in rows if row["group"] == "grid"]).items():
        head_dim, _, _, length, mask = case.split()
        values = {table.title(name): table.tflops(row) for name, row in kernels.items() if table.tflops(row)}
        if values:
            found.setdefault((int(head_dim[1:]), mask != "full"), []).append(
                (int(length[1:]), values, expected(kernels, published.get(case, {}))))
    return [(f"head_dim {head_dim}, {'causal' if causal else 'no mask'}",
             [(str(length), values, line) for length, values, line in sorted(groups, key=lambda group: group[0])])
            for (head_dim, causal), groups in sorted(found.items())]


def left_out(rows):
    """Returns one line for each refused case, with the reason; cases with too few rounds share a line."""
    why = {row["case"]: row["refused"] for row in rows if "refused" in row}
    few = [case for case, reason in why.items() if reason.startswith("fewer rounds")]
    lines = [f"- {case}, refused: {reason}" for case, reason in why.items() if case not in few]
    return "\n".join(lines + [f"- fewer rounds than {protocol.ROUNDS} so far: {', '.join(few)}"] * bool(few))


def page(machines, rows, masks, masks_mma):
    """Returns the text of the page. machines: those of all runs; masks and masks_mma: rows of bench_masks.py."""
    refused = left_out(rows + masks + masks_mma)
    rows, masks, masks_mma = ([row for row in some if "refused" not in row] for some in (rows, masks, masks_mma))
    parts = ["# Benchmarks", "<!-- Printed by bench/report.py from bench/results/. -->",
             WHAT, "![TFLOP/s by length](benchmarks.svg)", RATIOS]
    for heading, tuned in (("## Shapes of the tuned table", True), ("## Other shapes", False)):
        some = [row for row in rows if row.get("tuned", False) == tuned]
        if some:
            parts += [heading, table.markdown(some)]
        if any("warm" in row for row in some):
            parts += [f"{heading}, without flushing L2", table.markdown(some, "warm")]
    if masks:
        parts += ["## Masks and scores, beside FlexAttention", MASKS, bench_masks.markdown(masks, "flex")]
    if masks_mma:
        parts += ["## Masks and scores by mma.sync", MASKS_MMA, bench_masks.markdown(masks_mma, "flex_mma")]
    if refused:
        parts += ["## Left out", refused]
    parts += ["## Machines", *(f"- {run}: " + ", ".join(f"{name} {machine[name]}" for name in machine
                                                         if name not in ("run", "bench") and machine[name])
                               for run, machine in machines.items())]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="", metavar="WORD", help="only runs with this in their names")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results", help="the folder")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs", help="where the page and the chart go")
    chosen = parser.parse_args()
    machines, rows = read(chosen.results / "matrix.jsonl", chosen.run)
    gpu = ", ".join(sorted({str(machine.get("gpu")) for machine in machines.values()}))
    others, masks = read(chosen.results / "masks.jsonl", chosen.run)
    more, masks_mma = read(chosen.results / "masks_mma.jsonl", chosen.run)
    rows, masks, masks_mma = map(table.admitted, (rows, masks, masks_mma))
    (chosen.docs / "benchmarks.md").write_text(page({**machines, **others, **more}, rows, masks, masks_mma))
    drawn = chart.svg(panels(rows), f"Attention forward, bf16, {gpu}, TFLOP/s", CEILING)
    (chosen.docs / "benchmarks.svg").write_text(drawn)


if __name__ == "__main__":
    main()
