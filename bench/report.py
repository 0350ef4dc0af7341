"""results/matrix.jsonl and masks.jsonl become docs/benchmarks.md and .svg: python3 bench/report.py [--run WORD]

Of every case the newest run counts, and of runs only those that measured the library's own choice of schedule: picking
the best of many schedules afterwards would not be what a user gets. Losing cells are in it.
"""
import argparse
import json
import pathlib

import bench_masks
import chart
import table

ROOT = pathlib.Path(__file__).parents[1]
CEILING = 900  # of the chart, TFLOP/s
WHAT = """The forward kernel in bf16 as the library chooses it, on random normal input, beside its peers in the same
process. TFLOP/s count 4 B H Sq Sk d flops, half of that for causal; medians; L2 flushed before every launch. How:
[bench/README.md](../bench/README.md)."""
RATIOS = f"""`/ best here`: ours in proportion to the best peer of the run. `/ best published`: (ours / cuDNN now) in
proportion to (the better of FA3 and cuDNN / cuDNN) as published in `bench/peers_h200.json`, since FA3 is not part of
PyTorch and machines of one kind differ by a few percent. ◀ marks cells below {table.GOAL}."""
MASKS = """The same masks and scores, as text for attile and as functions for FlexAttention (`bench/rules.py`).
Neither side's compile time counts; FlexAttention's block mask is made beforehand and its time given apart, and again
within "with block mask"; attile needs nothing beforehand. "First answer": from the text to the result of its first
launch, with empty caches, while PyTorch's compiler keeps the processors busy; attile alone is in
`bench/results/runtime.jsonl`. "Causal / this": this in proportion to our own plain causal kernel."""


def read(path, word=""):
    """({run: its machine}, the rows that count) of the runs with that word in their names."""
    machines, rows = {}, []
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        if word not in row["run"]:
            continue
        if "bench" in row:
            machines[row["run"]] = row
        else:
            rows.append(row)
    newest = {row["case"]: row["run"] for row in rows if row["kernel"] == "attile"}
    kept = [row for row in rows if newest.get(row["case"]) == row["run"]
            and (row["kernel"] == "attile" or "schedule" not in row)]
    return {run: machine for run, machine in machines.items() if run in newest.values()}, kept


def expected(kernels, then):
    """What the best published peer would have given here: its lead over cuDNN then, times cuDNN now."""
    cudnn = table.tflops(kernels.get("cudnn"))
    return cudnn * max(then.get("fa3", 0), then["cudnn"]) / then["cudnn"] if cudnn and "cudnn" in then else None


def panels(rows):
    """Of the grid: [(heading, [(length, {kernel: TFLOP/s}, expected)])] for chart.svg."""
    found, published = {}, table.published()
    for case, kernels in table.by_case([row for row in rows if row["group"] == "grid"]).items():
        head_dim, _, _, length, mask = case.split()
        values = {table.title(name): table.tflops(row) for name, row in kernels.items() if table.tflops(row)}
        found.setdefault((int(head_dim[1:]), mask != "full"), []).append(
            (int(length[1:]), values, expected(kernels, published.get(case, {}))))
    return [(f"head_dim {head_dim}, {'causal' if causal else 'no mask'}",
             [(str(length), values, line) for length, values, line in sorted(groups, key=lambda group: group[0])])
            for (head_dim, causal), groups in sorted(found.items())]


def page(machines, rows, masks):
    """machines: of all runs; masks: rows of bench_masks.py."""
    parts = ["# Benchmarks", "<!-- Printed by bench/report.py from bench/results/. -->",
             WHAT, "![TFLOP/s by length](benchmarks.svg)", RATIOS, table.markdown(rows)]
    if any("warm" in row for row in rows):
        parts += ["## Without flushing L2", table.markdown(rows, "warm")]
    if masks:
        parts += ["## Masks and scores, beside FlexAttention", MASKS, bench_masks.markdown(masks, "flex")]
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
    (chosen.docs / "benchmarks.md").write_text(page({**machines, **others}, rows, masks))
    drawn = chart.svg(panels(rows), f"Attention forward, bf16, {gpu}, TFLOP/s", CEILING)
    (chosen.docs / "benchmarks.svg").write_text(drawn)


if __name__ == "__main__":
    main()
