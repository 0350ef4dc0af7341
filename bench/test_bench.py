"""Tests that need no GPU: python3 bench/test_bench.py. Needs the library (ATTILE_LIBRARY)."""
import ctypes
import importlib.util
import itertools
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.dom.minidom

import checkout  # noqa: F401
import attile
import bench_masks
import bench_matrix
import cases
import contest
import decode_cases
import fa3
import gpu_checks
import kinds
import prefill_cases
import protocol
import report
import rules
import runner
import side_host
import table
import triton_mma
import tuned
import unkind
from worker import Lost, Worker


class FakeClock:
    """Every kernel takes the time that it states; records which kernels run and how often. The load takes 5 ms, or the
    given times, burst by burst."""
    load = 5.0

    def __init__(self, loads=()):
        self.calls, self._loads = [], iter(loads)

    def times(self, work, count, cold):
        self.calls.append((work, count, cold))
        return [next(self._loads, work) if work == self.load else work] * count

    def state(self):
        return {"mhz": 1500}


class Cases(unittest.TestCase):
    def test_the_matrix_has_every_published_shape(self):
        names = [case.name for case in cases.matrix()]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(set(table.published()), set(names))

    def test_cases_that_the_table_was_tuned_on_are_known(self):
        known = tuned.shapes(tuned.table("NVIDIA H200"))
        every = {case.name: tuned.has(known, case) for case in cases.matrix()}
        self.assertTrue(every["d128 b4 h16 s4096 causal"] and every["d128 b4 h16 s4096 full"])
        self.assertFalse(every["d64 b4 h32 s4096 full"] or every["d128 b1 h32/8 s8192 causal"])
        self.assertFalse(any(every[case.name] for case in cases.matrix() if case.group == "untuned"))
        self.assertFalse(any(tuned.has(known, case) for case in rules.cases()))
        self.assertEqual(tuned.shapes(tuned.table("NVIDIA A100")), set())

    def test_untuned_cases_have_every_pair_of_sizes(self):
        sizes = [(case.head_dim, case.len_q, case.heads, case.batch) for case in cases.matrix()
                 if case.group == "untuned"]
        for a, b in itertools.combinations(range(4), 2):
            pairs = {(one[a], one[b]) for one in sizes}
            self.assertEqual(len(pairs), len({one[a] for one in sizes}) * len({one[b] for one in sizes}))

    def test_causal_counts_the_half_of_a_square_that_is_seen(self):
        square, causal = (cases.Case("grid", 64, 2, 3, 100, causal) for causal in (False, True))
        self.assertEqual(square.flops, 4 * 2 * 3 * 100 * 100 * 64)
        self.assertEqual(causal.flops, square.flops / 2)
        for len_q, len_kv in ((50, 400), (400, 50)):
            case = cases.Case("chunked", 64, 1, 1, len_q, True, 0, len_kv)
            exact = sum(max(0, min(len_kv, i + 1 + len_kv - len_q)) for i in range(len_q))
            self.assertAlmostEqual(case.flops / 256, exact, delta=max(len_q, len_kv) / 2)

    def test_words_select(self):
        case = cases.Case("llama", 128, 1, 32, 8192, True, 8)
        self.assertEqual(case.name, "d128 b1 h32/8 s8192 causal")
        self.assertTrue(case.matches([]) and case.matches(["d64", "causal d128"]) and case.matches(["llama"]))
        self.assertFalse(case.matches(["d12"]) or case.matches(["d128 full"]))


class Protocol(unittest.TestCase):
    def measure(self, clock, **more):
        order, works = [], {"a": 1.0, "b": 2.0, "c": 0.5}
        return protocol.measure(works, clock, protocol.Plan(**more), before=order.append), "".join(order)

    def test_every_kernel_gets_the_same_time_and_the_same_load_before(self):
        clock = FakeClock()
        found, order = self.measure(clock, warm_too=True)
        self.assertEqual([sorted(order[at:at + 3]) for at in (0, 3, 6)], [list("abc")] * 3)
        counts = {name: len(one["cold"][0]["samples"]) for name, one in found.items()}
        self.assertEqual(counts, {"a": 100, "b": 50, "c": 200})
        self.assertEqual({name: len(one["warm"]) for name, one in found.items()}, {"a": 3, "b": 3, "c": 3})
        self.assertIn((1.0, 25, True), clock.calls)
        self.assertEqual(clock.calls[1], (FakeClock.load, 200, False))  # first, a second of the load
        works = [work for work, _, _ in clock.calls]
        turns = [at for at, work in enumerate(works) if work != FakeClock.load and works[at - 1] == FakeClock.load]
        self.assertEqual(len(turns), 3 * 3 * 2)

    def test_the_order_is_random_recorded_and_the_seed_repeats_it(self):
        drawn = {seed: self.measure(FakeClock(), seed=seed)[1] for seed in range(20)}
        self.assertGreater(len(set(drawn.values())), 10)
        found, order = self.measure(FakeClock(), seed=7)
        self.assertEqual(order, drawn[7])
        for name, one in found.items():
            places = [order[at:at + 3].index(name) + 1 for at in (0, 3, 6)]
            self.assertEqual([each["place"] for each in one["cold"]], places)

    def test_nobody_leads_all_rounds(self):
        for seed in range(50):
            self.assertEqual(len({order[0] for order in protocol.orders(["a", "b"], 3, seed)}), 2)
        self.assertEqual(protocol.orders(["a"], 2, 0), [["a"], ["a"]])

    def test_the_load_runs_until_its_time_stands_still(self):
        for loads, bursts, mean in (([], 4, 5), ([4, 4.3, 4.6] + [5, 5.1] * 9, 7, 5.05),
                                    ([5, 5.5] * 99, protocol.BURSTS, 5.25)):
            clock = FakeClock(load for one in loads for load in (one, one))
            state = protocol.settle(clock, protocol.Plan())
            self.assertEqual((len(clock.calls) / 2, state), (bursts, {"mhz": 1500, "load_ms": mean}), loads[:6])

    def test_the_load_runs_until_it_takes_as_long_as_the_first_time(self):
        for like, bursts, mean in ((None, 4, 5.5), (5.4, 4, 5.5), (5.0, 10, 5), (4.0, protocol.BURSTS, 5)):
            clock = FakeClock(load for one in [5.5] * 6 + [5] * 99 for load in (one, one))
            state = protocol.settle(clock, protocol.Plan(), like)
            self.assertEqual((len(clock.calls) / 2, state["load_ms"]), (bursts, mean), like)

    def test_summary_is_of_all_samples_and_keeps_the_states(self):
        rounds = [{"samples": samples, "place": place, "start": {"mhz": 1500}, "end": {"mhz": 1600, "watts": 700}}
                  for samples, place in (([1, 2, 3], 2), ([4, 5], 1))]
        found = protocol.summary(rounds, 6e9)
        self.assertEqual([found[key] for key in ("q1", "ms", "q3", "samples", "tflops")], [2, 3, 4, 5, 2.0])
        self.assertEqual([one["ms"] for one in found["rounds"]], [2, 4.5])
        self.assertEqual(found["rounds"][0], {"ms": 2, "place": 2, "start": {"mhz": 1500},
                                              "end": {"mhz": 1600, "watts": 700}})

    def test_what_nobody_should_believe(self):
        fair = [(5, 1), (5.1, 2), (5, 2)]
        reasons = lambda **kernels: "; ".join(protocol.objections(
            {name: {"rounds": [{"place": place, "start": {"load_ms": load}} for load, place in rounds]}
             for name, rounds in kernels.items()}))
        self.assertEqual(reasons(a=fair, b=fair), "")
        self.assertEqual(reasons(a=fair[:2], b=fair, c=fair[:1]), "fewer rounds than 3: a 2, c 1")
        self.assertIn("before a the load took 4.5 ms and before b 5 ms", reasons(a=[(4.5, 1), (4.5, 2), (5, 2)], b=fair))
        self.assertEqual(reasons(a=[(5, 1)] * 3, b=fair), "a came first in every round")
        self.assertEqual(reasons(a=fair[:2] + [(None, 1)], b=fair), "no load was timed before a")
        self.assertIn("fewer rounds than 3: a 2", protocol.objections({"a": {"rounds": [0.96, 0.97]}})[0])

    def test_a_plan_shrinks_to_its_time(self):
        plan = protocol.Plan(rounds=2)
        self.assertEqual(plan.within(1e9, 4).repeat_ms, 100)
        self.assertAlmostEqual(plan.within(2.6, 4).repeat_ms, 200 - 37.5 - 100)
        self.assertEqual(plan.within(0.01, 4).repeat_ms, 15)


def row(kernel, tflops, case="d128 b4 h16 s4096 full", loads=(5, 5, 5.1), **more):
    rounds = [{"ms": 1, "place": 1 + (kernel == "attile") ^ turn % 2, "start": {"load_ms": load}}
              for turn, load in enumerate(loads)]
    return {"case": case, "kernel": kernel, "cold": {"tflops": tflops, "ms": 1, "rounds": rounds}, **more}


class Table(unittest.TestCase):
    def test_ratios(self):
        either = {"attile": row("attile", 1, schedule=""), "attile b": row("attile b", 2, schedule="b")}
        self.assertIs(table.ours(either), either["attile"])
        rows = [row("attile a", 500, schedule="a"), row("attile b", 660, schedule="b"), row("cudnn", 600),
                row("fa2", 400)]
        kernels = table.by_case(rows)[rows[0]["case"]]
        self.assertEqual(table.ours(kernels)["kernel"], "attile b")
        self.assertAlmostEqual(table.against_now(kernels), 1.1)
        # in the published figures, cuDNN has 603 and FA3 650
        self.assertAlmostEqual(table.against_published(rows[0]["case"], kernels, table.published()), 1.1 / (650 / 603))

    def test_losing_and_failing_cells_are_shown(self):
        text = table.markdown([row("attile", 300, schedule="a", spill_bytes=8), row("cudnn", 600),
                               row("fa2", 0, error="Error: no\nmore")])
        self.assertIn("| **300** | 600 | failed | 0.50 ◀ | 0.46 ◀ |", text)
        self.assertIn("fa2: Error: no\n", text)
        self.assertIn("8 bytes spilled", text)

    def test_a_wrong_kernel_has_no_ratio(self):
        kernels = {"attile": row("attile", 900, schedule="", error="wrong"), "cudnn": row("cudnn", 600)}
        self.assertIsNone(table.against_now(kernels))

    def test_what_was_not_measured_fairly_is_refused_and_says_why(self):
        fair, other = row("attile", 700, schedule=""), "d64 b4 h32 s4096 full"
        rows = table.admitted([fair, row("cudnn", 600), row("fa2", 500, error="Error: no", loads=[]),
                               row("attile", 700, other, loads=[4] * 3, schedule=""), row("cudnn", 600, other)])
        text = table.markdown(rows)
        self.assertIn("| d128 b4 h16 s4096 full | **700** | 600 | failed | 1.17 |", text)
        self.assertIn(f"| {other} | refused | refused | - | - | - |", text)
        self.assertIn(f"- {other}, refused: before attile the load took 4 ms and before cudnn 5 ms, more than 3% apart", text)
        self.assertEqual(table.admitted([fair]), [fair])
        one = [row("attile", 700, loads=[5], schedule="")]
        self.assertIn("fewer rounds than 3: attile 1", table.markdown(table.admitted(one)))
        self.assertIn("will refuse d128 b4 h16 s4096 full: fewer rounds than 3: attile 1.", table.warnings(one))

    def test_a_peers_path_is_told(self):
        case = "d128 b1 h32/8 s512x32768 causal"
        self.assertIn(f"- {case}, cuDNN: mask tensor", table.markdown([row("cudnn", 200, case, path="mask tensor")]))

    def test_geometric_mean(self):
        self.assertAlmostEqual(table.geometric_mean([0.5, 2, None]), 1)
        self.assertIsNone(table.geometric_mean([None]))


class Fa3(unittest.TestCase):
    """A C library that records its arguments, in place of the real one."""

    SOURCE = """
    int fa3_forward(const void *q, const void *k, const void *v, void *o, float *lse, int batch, int heads,
                    int kv_heads, int len_q, int len_kv, int head_dim, int causal, float scale, int num_splits,
                    void *stream) {
        int asked[] = {batch, heads, kv_heads, len_q, len_kv, head_dim, causal, (int)(1 / scale), num_splits,
                       stream == (void *)7, q != k, v != q};
        for (int i = 0; i < 12; i++)
            lse[i] = asked[i];
        return num_splits == 8;
    }"""

    def program(self, path):
        bench = pathlib.Path(__file__).with_name("bench_matrix.py")
        return subprocess.run([sys.executable, bench, "--fa3", path], capture_output=True, text=True)

    def test_a_missing_library_is_a_clear_error(self):
        done = self.program("/nowhere/fa3.so")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/fa3.so: expected a shared library with the entry fa3_forward, found: ", done.stderr)

    @unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
    def test_a_library_is_called_as_its_entry_says(self):
        with tempfile.TemporaryDirectory() as folder:
            compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o"]
            for name, source in (("fa3.so", self.SOURCE), ("other.so", "int other;")):
                subprocess.run([*compiler, f"{folder}/{name}"], input=source, text=True, check=True)
            self.assertIn("fa3_forward", self.program(f"{folder}/other.so").stderr)
            q, k, v = (side_host.Tensor((2, length, heads, 4), [0.0] * 8 * length * heads)
                       for length, heads in ((3, 6), (5, 2), (5, 2)))
            lse = side_host.Tensor((1, 1, 1, 24), [0.0] * 24)
            library = fa3.Library(f"{folder}/fa3.so")
            library.forward(q, k, v, q, lse, True, 4, 7)
            asked = ctypes.cast(lse.data_ptr(), ctypes.POINTER(ctypes.c_float))
            self.assertEqual([asked[i] for i in range(12)], [2, 6, 2, 3, 5, 4, 1, 2, 4, 1, 1, 1])
            with self.assertRaisesRegex(RuntimeError, "returned 1 .* num_splits 8"):
                library.forward(q, k, v, q, lse, True, 8, 7)

    def test_where_it_was_measured_nothing_is_scaled(self):
        rows = [row("attile", 650, schedule=""), row("cudnn", 600), row("fa3", 700)]
        self.assertIn("| **650** | 600 | 700 | 0.93 ◀ | measured |", table.markdown(rows))
        self.assertIn("/ best published, by cuDNN |", table.markdown(rows))
        self.assertIsNone(report.expected(table.by_case(rows)[rows[0]["case"]], {"cudnn": 600, "fa3": 660}))


class Report(unittest.TestCase):
    def rows(self, run, ours, case="d128 b4 h16 s4096 full", kernel="attile"):
        more = {"run": run, "group": "grid"}
        return [row(kernel, ours, case, schedule="x", **more), row("cudnn", 603, case, **more)]

    def test_the_newest_run_of_the_librarys_choice_counts(self):
        lines = [{"run": run, "bench": "matrix", "gpu": "G"} for run in "123"]
        lines += self.rows("1", 500) + self.rows("1", 400, "d64 b4 h32 s4096 full") + self.rows("2", 600)
        lines += self.rows("3", 900, kernel="attile block_n=8") + self.rows("2", 900, kernel="attile block_n=8")
        lines += [row("attile", 888, "d64 b4 h32 s4096 full", run="3", group="grid", schedule="", loads=[5])]
        lines += [row("attile without hints", 555, run="2", group="grid", schedule="unhinted")]
        lines += [row("attile", 431, "d128 b8 h16 s2048 full", run="2", group="heads", tuned=True, schedule="")]
        lines += [row("attile", 812, "d64 b2 h32 s8192 full", run="2", group="grid", schedule="", loads=[5, 5])]
        with tempfile.TemporaryDirectory() as folder:
            masks = [{"run": "4", "bench": "masks", "gpu": "G"},
                     row("attile", 5, "d64 b1 h1 s8192 alibi", run="4", schedule="", group="masks")]
            mma = [{"run": "5", "bench": "masks", "gpu": "G", "target": "sm_80"},
                   *(row(kernel, 5, "d64 b1 h1 s8192 bias", run="5", group="masks", **more)
                     for kernel, more in (("attile", {"schedule": "algorithm=flash_mma"}), ("flex_mma", {})))]
            for name, which in (("matrix", lines), ("masks", masks), ("masks_mma", mma)):
                text = "".join(json.dumps(line) + "\n" for line in which)
                pathlib.Path(folder, f"{name}.jsonl").write_text(text)
            program = pathlib.Path(__file__).with_name("report.py")
            subprocess.run([sys.executable, program, "--results", folder, "--docs", folder], check=True)
            page, drawn = (pathlib.Path(folder, f"benchmarks.{kind}").read_text() for kind in ("md", "svg"))
        apart, others = page.index("## Shapes of the tuned table"), page.index("## Other shapes")
        self.assertTrue(apart < page.index("| d128 b8 h16 s2048 full | **431** |") < others)
        self.assertGreater(page.index("| d128 b4 h16 s4096 full | **600** | 603 | 555 | 1.00 | 0.92 ◀ |"), others)
        self.assertIn("| d64 b4 h32 s4096 full | **400** |", page)
        self.assertNotIn("900", page)
        self.assertNotIn("812", page + drawn)  # a run of two rounds
        self.assertNotIn("888", page + drawn)  # a later run of one round does not displace a fair one
        self.assertIn("- fewer rounds than 3 so far: d64 b2 h32 s8192 full", page)
        self.assertLess(page.index("| d64 b1 h1 s8192 alibi |"), page.index("## Masks and scores by mma.sync"))
        self.assertIn("| d64 b1 h1 s8192 bias | 1.000 | 1.000 | - | 1.00 |", page)
        self.assertIn("target sm_80", page)
        picture = xml.dom.minidom.parseString(drawn)
        bars = [title.firstChild.data for title in picture.getElementsByTagName("title")]
        self.assertEqual(bars, ["attile 400", "cuDNN 603", "attile 600", "cuDNN 603"])

    def test_what_the_published_peer_would_give_here(self):
        self.assertAlmostEqual(report.expected({"cudnn": row("cudnn", 300)}, {"cudnn": 600, "fa3": 660}), 330)
        self.assertIsNone(report.expected({"cudnn": row("cudnn", 300)}, {}))


def fragile(setup):
    """A substitute for contest.start whose kernels do what their names say."""

    def serve(job, say):
        rows = []
        for name in [*job["schedules"], *job["peers"]]:
            if name in job["without"]:
                continue
            say(name, 0.5)
            if name == "hangs":
                time.sleep(60)
            if name == "dies":
                os._exit(7)
            if name == "raises":
                raise ValueError("lost the device")
            rows.append({"kernel": name})
        return rows

    return serve


class Losses(unittest.TestCase):
    def test_the_others_are_measured_whatever_one_does(self):
        with Worker("test_bench:fragile", None) as worker:
            for name, reason in (("hangs", "no answer"), ("dies", "ended with 7"), ("raises", "lost the device")):
                losses, job = {}, {"schedules": {name: "", "good": ""}, "peers": ["peer"]}
                for _ in range(runner.LOSSES):
                    rows = {row["kernel"]: row for row in runner.contest(worker, job, losses, lambda what: None)}
                    self.assertIn(reason, rows[name]["error"])
                    self.assertEqual(set(rows), {name, "good", "peer"})
                rows = runner.contest(worker, job, losses, lambda what: None)  # the kernel is not run a third time
                self.assertEqual([row["kernel"] for row in rows], ["good", "peer"])

    def test_a_child_that_cannot_start_says_why(self):
        with Worker("test_bench:missing", None) as worker, self.assertRaisesRegex(Lost, "missing"):
            worker.run("job")


class DryRun(unittest.TestCase):
    def test_the_whole_program_on_the_host_device(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("bench_matrix.py"), "--dry-run",
                                   "--rounds", "2", "--only", "chunked", "--results", results, "--cache-dir", folder,
                                   "--seed", "5",
                                   "--schedule", "block_n=32", "--schedule", "block_n=33", "--schedule", "choice",
                                   "--schedule", "fixed block_n=32", "--schedule", "unhinted"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            machine, good, bad, choice, fixed, unhinted, plain = map(json.loads, results.read_text().splitlines())
        self.assertEqual((machine["bench"], machine["seed"], machine["rounds"]), ("matrix", 5, 2))
        self.assertEqual(sorted(row["cold"]["rounds"][0]["place"] for row in (good, choice, fixed, unhinted, plain)),
                         [1, 2, 3, 4, 5])
        self.assertTrue({machine["run"]} == {good["run"], bad["run"], plain["run"]})
        self.assertIn("_n32_", good["variant"])
        self.assertEqual((choice["kernel"], choice["schedule"]), ("attile", ""))
        self.assertNotEqual(fixed["variant"], good["variant"])
        self.assertEqual(fixed["relative_error"], good["relative_error"])
        self.assertLess(good["relative_error"], 2 * good["honest_error"])
        self.assertTrue(all(0 < row["lse_error"] < 0.5 for row in (good, choice, fixed, unhinted)))
        self.assertTrue(0 < good["apart"]["plain"] < 0.01 and good["same_bits"] and math.isfinite(good["cold"]["ms"]))
        self.assertIn("block_n", bad["error"])
        self.assertIn("| d32 b1 h2/1 s20x33 causal |", done.stdout)

    def test_a_target_is_for_all_kernels(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            subprocess.run([sys.executable, pathlib.Path(__file__).with_name("bench_matrix.py"), "--dry-run", "--only", "grid full",
                            "--results", results, "--cache-dir", folder, "--target", "sm_80", "--schedule", "choice",
                            "--schedule", "algorithm=flash_mma block_m=64 block_n=32"], check=True, capture_output=True)
            _, choice, given, _ = map(json.loads, results.read_text().splitlines())
        self.assertRegex(choice["variant"], "_sm_80$")
        self.assertRegex(given["variant"], "_flash_mma_m64_n32_.*_sm_80$")

    def test_kernels_are_compiled_ahead_once_each(self):
        asked = []

        class Session:
            def compile(self, problem, schedule):
                asked.append((problem, schedule))
                if "block_n=33" in (schedule or ""):
                    raise ValueError("block_n")

        todo = [case for case in cases.tiny() if case.group == "grid"]
        job = {"problem": "", "target": "target=any", "ahead": todo + todo,
               "schedules": {"attile": "", "without hints": "unhinted", "bad": "block_n=33"}}
        self.assertEqual(contest.compile_ahead(Session(), job), 2 * len(todo))
        self.assertEqual(len(asked), len(set(asked)))
        self.assertEqual(set(asked), {contest.request(job, case, text) for case in todo for text in job["schedules"].values()})

    def test_columns_are_the_choices_unless_told_otherwise(self):
        chosen = lambda *schedule: unittest.mock.Mock(schedule=schedule, variants=None)
        self.assertEqual(bench_matrix.schedules(chosen()), {"attile": "", "attile without hints": "unhinted"})
        self.assertEqual(bench_matrix.schedules(chosen("choice", "unhinted", "fixed stages=3")),
                         {"attile": "", "attile unhinted": "unhinted",
                          "attile fixed stages=3": "algorithm=flash_async fixed stages=3"})


class Masks(unittest.TestCase):
    def dry_run(self, *words):
        """Returns (the first line of the results, the rows, the table)."""
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            program = pathlib.Path(__file__).with_name("bench_masks.py")
            done = subprocess.run([sys.executable, program, "--dry-run", "--rounds", "1", "--results", results, *words],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            machine, *rows = map(json.loads, results.read_text().splitlines())
        for row in rows:
            self.assertNotIn("error", row)
            self.assertLess(row["relative_error"], 2 * row["honest_error"])
        return machine, rows, done.stdout

    def test_text_and_functions_say_the_same(self):
        _, rows, printed = self.dry_run("--only", "document", "--only", "softcap_window", "--only", "bias")
        self.assertEqual(len(rows), 6)
        self.assertIn("s40 bias |", printed)

    def test_a_target_is_for_flash_mma(self):
        machine, (ours, _), _ = self.dry_run("--target", "sm_80", "--only", "alibi")
        self.assertEqual((machine["target"], ours["schedule"]), ("sm_80", "algorithm=flash_mma"))
        self.assertRegex(ours["variant"], "_flash_mma_.*_sm_80$")

    def test_a_peer_that_has_wgmma_does_not_count_as_mma(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ):
            triton_mma.prepare(folder)
            self.assertEqual(os.environ["TRITON_OVERRIDE_ARCH"], "sm80")

            def kernel(name, code):
                path = pathlib.Path(os.environ["TRITON_CACHE_DIR"], name, "kernel.ptx")
                path.parent.mkdir(parents=True)
                path.write_text(code)

            kernel("mask", "add.s32 %r1, %r2, %r3;")
            with self.assertRaisesRegex(ValueError, "of 1 kernels, 0 have mma.sync"):
                triton_mma.instructions()
            kernel("attention", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};")
            self.assertEqual(triton_mma.instructions()["kernels"], {"mma.sync": 1, "wgmma": 0})
            kernel("other", "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, %p1, 1, 1, 0, 1;")
            with self.assertRaisesRegex(ValueError, "1 have wgmma"):
                triton_mma.instructions()

    def test_every_rule_changes_the_answer(self):
        case, side = rules.tiny()[0], side_host.Side(attile.Session("host", host_mode="check"))
        tensors, seen = side.inputs(case), {}
        for case in [*rules.tiny(), cases.Case("check", case.head_dim, case.batch, case.heads, case.len_q, False)]:
            side.parameters(case)
            seen[case.name] = tuple(side.reference(case, *tensors))
        self.assertEqual(len(set(seen.values())), len(rules.RULES) + 1)

    def test_documents_cover_the_sequence(self):
        ids = rules.documents(1000)
        self.assertEqual((ids, set(ids)), (sorted(ids), set(range(rules.DOCUMENTS))))

    def test_ratios(self):
        rows = [{"case": "d64 b1 h1 s8 alibi", "kernel": "attile", "schedule": "", "cold": {"ms": 2, "tflops": 1}},
                {"case": "d64 b1 h1 s8 alibi", "kernel": "flex", "cold": {"ms": 3, "tflops": 1}, "block_mask_ms": 5},
                {"case": "d64 b1 h1 s8 causal", "kernel": "attile", "schedule": "", "cold": {"ms": 1, "tflops": 1}}]
        self.assertIn("| d64 b1 h1 s8 alibi | 2.000 | 3.000 | 5.000 | 1.50 | 4.00 | - | 0.50 |",
                      bench_masks.markdown(rows, "flex"))


@unittest.skipUnless(importlib.util.find_spec("triton"), "needs Triton; no GPU")
class Triton(unittest.TestCase):
    SOURCE = """
import triton
import triton.language as tl
@triton.jit
def product(a, c):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    x = tl.load(a + at)
    tl.store(c + at, tl.dot(x, x))
"""

    def test_products_for_hopper_are_by_mma_sync(self):
        import triton
        from triton.backends.compiler import GPUTarget
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ):
            triton_mma.prepare(folder)
            path = pathlib.Path(folder, "product.py")
            path.write_text(self.SOURCE)
            spec = importlib.util.spec_from_file_location("product", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            source = triton.compiler.ASTSource(module.product, {"a": "*bf16", "c": "*fp32"}, {})
            kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32))
            self.assertIn(".target sm_90a", kernel.asm["ptx"])
            self.assertEqual(triton_mma.instructions()["kernels"], {"mma.sync": 1, "wgmma": 0})
            del os.environ["TRITON_OVERRIDE_ARCH"]
            triton.compile(source, target=GPUTarget("cuda", 90, 32))
            with self.assertRaisesRegex(ValueError, "of 2 kernels, 1 have mma.sync and 1 have wgmma"):
                triton_mma.instructions()


class Checks(unittest.TestCase):
    def run_checks(self, *words, part="numbers"):
        program = pathlib.Path(__file__).with_name("gpu_checks.py")
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            done = subprocess.run([sys.executable, program, "--dry-run", "--part", part, "--results", results,
                                   "--cache-dir", folder, *words], capture_output=True, text=True)
            return done.returncode, [json.loads(line) for line in results.read_text().splitlines()]

    def test_unkind_data_is_computed_honestly(self):
        status, rows = self.run_checks()
        self.assertEqual((status, [row["kind"] for row in rows]), (0, list(gpu_checks.KINDS)))
        self.assertTrue(all(row["ok"] and row["same_bits"] == 2 and row["relative_error"] > 0 for row in rows))

    def test_what_cannot_run_is_wrong(self):
        status, rows = self.run_checks("--schedule", "algorithm=flash_async block_n=33")
        self.assertEqual(status, 1)
        self.assertTrue(rows and all(not row["ok"] and "block_n" in row["error"] for row in rows))

    def test_every_kind_is_right_under_every_mask(self):
        status, rows = self.run_checks(part="unkind")
        self.assertEqual([row.get("error") for row in rows if not row["ok"]], [])
        self.assertEqual((status, len(rows)), (0, len(unkind.EVERY) + len(unkind.MASKS) * len(unkind.FEW)))
        for row in rows:
            self.assertTrue(row["ms"] > 0 and row["normal_ms"] > 0 and row["same_bits"], row)
            self.assertAlmostEqual(row["ratio"] * row["normal_ms"] / row["ms"], 1, 1)
        errors = {row["kind"]: (row["relative_error"], row["honest_error"]) for row in rows}
        self.assertEqual((errors["all_nan"], errors["hot_first"]), ((0, 0), (0, 0)))
        self.assertGreater(errors["deviation_4"][0], 1e-4)

    def test_commands_end_in_time_with_what_they_started(self):
        began = time.monotonic()
        status, _, errors = gpu_checks.command(["sh", "-c", "sleep 60 | cat"], 0.2)
        self.assertIsNone(status)
        self.assertIn("not finished", errors)
        self.assertLess(time.monotonic() - began, 20)


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch; its CPU will do")
class Torch(unittest.TestCase):
    """The arithmetic of side_cuda.py, run on the CPU, agrees with that of side_host.py."""

    def setUp(self):
        import side_cuda
        import torch
        side_cuda.DEVICE = "cpu"
        self.torch, self.side = torch, side_cuda.Side(None)
        self.host = side_host.Side(attile.Session("host", host_mode="check"))

    def host_tensor(self, tensor):
        return side_host.Tensor(tuple(tensor.shape), tensor.float().flatten().tolist())

    def test_references_agree(self):
        plain = [(cases.Case("check", 16, 1, len(kinds.SPECIAL), 20, causal, 3, len_kv), kind)
                 for causal, len_kv in ((True, 17), (True, 30), (False, 30))
                 for kind in (kinds.KINDS if len_kv == 17 else gpu_checks.KINDS)]
        for case, kind in plain + [(case, "normal") for case in rules.tiny()]:
            with self.subTest(case=case.name, kind=kind):
                tensors = self.side.inputs(case, kind)
                copies = [self.host_tensor(tensor) for tensor in tensors]
                parameters, same = self.side.parameters(case), self.host.parameters(case)
                self.assertEqual(list(parameters), list(same))
                if "values" in same:  # drawn at random on each side
                    same["values"].fill(parameters["values"].flatten().tolist())
                reference = self.side.reference(case, *tensors, thorough=True)
                o = self.host.reference(case, *copies)
                o = self.torch.tensor(o).reshape(case.batch, case.heads, case.len_q, case.head_dim)
                self.assertLess(self.side.error(reference, o)[0], 1e-5)
                honest = self.side.honest(case, *tensors, reference)[0]
                self.assertTrue((5e-4 if kind in gpu_checks.KINDS else 0) <= honest < 5e-3, honest)

    def kernel(self, case):
        """Returns a session whose kernels compute correctly, and a side whose clock needs no GPU."""
        torch, side = self.torch, self.side

        def launch(q, k, v, o, lse):
            for b, h in itertools.product(range(case.batch), range(case.heads)):
                rows = list(range(case.len_q))
                score, seen = side._scores(case, q, k, b, h, rows, torch.float64)
                o[b, h] = side._rows(case, q, k, v, b, h, rows, torch.float32)
                if lse is not None:
                    lse[b, h] = score.masked_fill(~seen, -torch.inf).logsumexp(-1)

        found = unittest.mock.Mock(**{"workspace_size.return_value": 0})
        found.name = "fake"
        found.info = unittest.mock.Mock(registers=1, spill_bytes=0, shared_bytes=0, compile_seconds=0.1, origin="disk")
        found.bind = lambda *tensors, **_: unittest.mock.Mock(side_effect=lambda stream: launch(*tensors))

        def times(work, count, cold):
            work()
            return [1.0, 1.0]

        for where, name, value in ((side, "times", times), (side, "finish", lambda: None), (type(side), "stream", 0)):
            patch = unittest.mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        side._factors = (torch.ones(2, 2),) * 2 + (torch.empty(2, 2),)
        return unittest.mock.Mock(**{"compile.return_value": found})

    def test_a_contest_and_unkind_data_on_this_side(self):
        case = cases.Case("check", 16, 1, 4, 20, True, 2, 30)
        session, module = self.kernel(case), unittest.mock.MagicMock()
        answer = lambda q, k, v, causal, num_splits=1: self.side._sdpa(
            None, case, *(x.transpose(1, 2) for x in (q, k, v)))[0]().transpose(1, 2)
        module.flash_attn_func.side_effect = answer
        backend = lambda _: self.torch.nn.attention.sdpa_kernel(self.torch.nn.attention.SDPBackend.MATH)
        job = {"case": case, "schedules": table.CHOICES, "peers": ["cudnn", "fa2", "fa3"], "without": [], "problem": "",
               "target": "", "plan": protocol.Plan()}
        with unittest.mock.patch.dict(sys.modules, {fa3.MODULE: module, "cudnn": None}), \
             unittest.mock.patch("side_cuda.sdpa_kernel", backend):
            rows = {row["kernel"]: row for row in contest.Contest(session, self.side, job, lambda *_: None).rows()}
            self.assertEqual([row.get("error") for row in rows.values()], [None] * 5)
            self.assertTrue(rows["attile"]["lse_error"] < 0.1 and rows["attile"]["same_bits"])
            self.assertEqual(rows["cudnn"]["path"], "mask tensor, cudnn frontend not installed")
            bench = unkind.Bench(session, self.side, True)
            for kind in unkind.FEW:
                row = bench.row(unkind.Trial(case), kind, lambda *_: None)
                self.assertEqual(unkind.faults(row, kinds.finite(kind)), [], kind)
                self.assertTrue({"ms", "normal_ms", "ratio", "fa3_ms", "fa3_ratio", "fa3_error"} <= set(row), row)

    def test_errors_of_lse_agree(self):
        window, capped = (rules.RuleCase("masks", 16, 1, 2, 30, False, rule=rule) for rule in ("window", "softcap"))
        for case in (window, cases.Case("check", 16, 1, 2, 20, True, 1, 30), cases.Case("check", 16, 1, 2, 20, True)):
            tensors, lse = self.side.inputs(case), self.host.lse(case)
            self.side.parameters(case), self.host.parameters(case)
            lse.fill(math.sin(i) for i in range(2 * case.len_q))
            found = self.torch.tensor([[[lse[0, h, i] for i in range(case.len_q)] for h in range(2)]])
            host = self.host.lse_error(case, *map(self.host_tensor, tensors[:2]), lse)
            self.assertTrue(host > 1e3)
            self.assertAlmostEqual(self.side.lse_error(case, *tensors[:2], found) / host, 1, 3)
        self.side.parameters(capped)
        self.assertIsNone(self.side.lse_error(capped, *tensors[:2], found))

    def test_cudnn_comes_by_its_frontend_only_where_that_agrees(self):
        import side_cuda
        case = cases.Case("check", 16, 1, 4, 20, True, 2, 30)
        tensors, enum = self.side.inputs(case), unittest.mock.MagicMock
        right = self.side._sdpa(side_cuda.SDPBackend.MATH, case, *tensors)

        def path(frontend, case=case):
            with unittest.mock.patch.dict(sys.modules, {"cudnn": frontend}), \
                 unittest.mock.patch.object(self.side, "_sdpa", lambda *_: right), \
                 unittest.mock.patch.object(side_cuda.Side, "stream", 7), \
                 unittest.mock.patch.object(self.side, "finish", lambda: None):
                return self.side._cudnn(case, *tensors)

        def frontend(answer):
            """Returns a frontend whose graph writes `answer` to the output."""
            module, output = enum(), enum()
            graph = module.pygraph.return_value
            graph.get_workspace_size.return_value, graph.sdpa.return_value = 0, [output, None]
            for setter in ("set_output", "set_dim", "set_stride", "set_data_type"):
                getattr(output, setter).return_value = output
            graph.execute.side_effect = lambda buffers, workspace, handle: buffers[output].copy_(answer)
            return module

        module = frontend(right[0]())
        work, notes = path(module)
        self.assertEqual(notes, {"path": side_cuda.cudnn_graph.PATH})
        self.assertIsNot(work, right[0])
        asked = module.pygraph.return_value.sdpa.call_args.kwargs
        self.assertEqual((asked["diagonal_alignment"], asked["diagonal_band_right_bound"], asked["attn_scale"]),
                         (module.diagonal_alignment.BOTTOM_RIGHT, 0, 0.25))
        self.assertEqual(path(None)[1], {"path": "mask tensor, cudnn frontend not installed"})
        for module, reason in ((frontend(right[0]() * 0), "its answer is"), (enum(), "failed")):
            work, notes = path(module)
            self.assertIs(work, right[0])
            self.assertIn(reason, notes["path"])
        self.assertEqual(path(module, cases.Case("check", 16, 1, 4, 20, True, 2)), right)

    def test_the_fastest_of_what_is_right_counts(self):
        one, times = self.torch.ones(4), {"a": 3.0, "b": 1.0, "c": 2.0, "d": 0.5}
        works = {"a": lambda: one, "b": lambda: 2 * one, "c": lambda: one.clone(), "d": lambda: one.view(5)}
        clock = lambda work, count, cold: [times[name] for name in works if works[name] is work]
        with unittest.mock.patch.object(self.side, "times", clock):
            self.assertEqual(self.side._fastest(works), (works["c"], {"path": "c"}))  # b is wrong, d fails
            with self.assertRaises(RuntimeError):
                self.side._fastest({"d": works["d"], "a": works["a"]})

    def test_peers_in_layouts_of_their_own(self):
        case = cases.Case("check", 16, 2, 4, 20, True, 2, 30)
        tensors = self.side.inputs(case)
        self.side.parameters(case)
        answer = lambda *native: self.side._sdpa(None, case, *(x.transpose(1, 2) for x in native))[0]().transpose(1, 2)
        flat = lambda *native: answer(*(x.view(2, -1, *x.shape[1:]) for x in native)).reshape(-1, 4, 16)
        modules = {name: unittest.mock.MagicMock() for name in (fa3.MODULE, "flashinfer")}
        modules[fa3.MODULE].flash_attn_func.side_effect = lambda *native, causal, num_splits=1: (answer(*native), None)
        wrapper = modules["flashinfer"].BatchPrefillWithRaggedKVCacheWrapper.return_value
        wrapper.run.side_effect = flat
        backend = lambda _: self.torch.nn.attention.sdpa_kernel(self.torch.nn.attention.SDPBackend.MATH)
        with unittest.mock.patch.dict(sys.modules, modules), unittest.mock.patch("side_cuda.sdpa_kernel", backend), \
             unittest.mock.patch.object(self.side, "times", lambda *_: [1.0]):
            for name in ("fa3", "flashinfer"):
                work, _ = self.side.peers(case, *tensors, [name])[name]()
                self.assertLess(self.side.error(self.side.reference(case, *tensors), work())[0], 5e-3)
        self.assertEqual([bounds.tolist() for bounds in wrapper.plan.call_args.args[:2]], [[0, 20, 40], [0, 30, 60]])

    def test_peers_agree(self):
        """FlexAttention runs here without being compiled."""
        import side_cuda
        eager = lambda function, **_: function
        with unittest.mock.patch.object(self.torch, "compile", eager):
            for case in [cases.Case("check", 16, 1, 4, 20, True, 2, 30), *rules.tiny()]:
                with self.subTest(case=case.name):
                    tensors = self.side.inputs(case)
                    self.side.parameters(case)
                    with unittest.mock.patch.object(self.side, "finish", lambda: None):
                        work, notes = self.side.peers(case, *tensors, ["flex"])["flex"]()
                    self.assertEqual("block_mask_ms" in notes, hasattr(case, "rule") and case.rule != "bias")
                    self.assertLess(self.side.error(self.side.reference(case, *tensors), work())[0], 5e-3)
            with unittest.mock.patch.object(self.side, "finish", lambda: None), \
                 unittest.mock.patch.object(self.side, "times", lambda *_: [1.0]), \
                 unittest.mock.patch("side_cuda.triton_mma.instructions", lambda: {"triton_arch": "sm80"}):
                work, notes = self.side.peers(case, *tensors, ["flex_mma"])["flex_mma"]()
                self.assertEqual((notes["compiled"], notes["triton_arch"]), ("default", "sm80"))
                self.assertLess(self.side.error(self.side.reference(case, *tensors), work())[0], 5e-3)
        case = cases.Case("check", 16, 1, 4, 20, True, 2, 30)
        tensors = self.side.inputs(case)
        self.side.parameters(case)
        work, _ = self.side._sdpa(side_cuda.SDPBackend.MATH, case, *tensors)
        self.assertLess(self.side.error(self.side.reference(case, *tensors), work())[0], 5e-3)


class Unkind(unittest.TestCase):
    def test_what_is_wrong_with_a_row(self):
        row = {"relative_error": 3e-3, "honest_error": 2e-3, "ratio": 1.1, "same_bits": True}
        reasons = lambda finite=True, timed=True, **more: "; ".join(unkind.faults({**row, **more}, finite, timed))
        self.assertEqual(reasons(), "")
        self.assertIn("error 0.005", reasons(relative_error=5e-3))
        self.assertIn("error inf", reasons(relative_error=math.inf, honest_error=math.inf))
        self.assertEqual(reasons(relative_error=9e-7, honest_error=0.0), "")
        self.assertIn("error 2e-06", reasons(relative_error=2e-6, honest_error=0.0))
        self.assertIn("1.2 times the time", reasons(ratio=1.2))
        self.assertEqual(reasons(ratio=1.2, finite=False) + reasons(ratio=9, timed=False), "")
        self.assertIn("same bits", reasons(same_bits=False))

    def test_trials_cover_what_they_should(self):
        todo = unkind.todo(False)
        self.assertEqual(len(todo), len(set((trial.name, kind) for trial, kind in todo)))
        every = [(trial.case, kind) for trial, kind in todo if not trial.schedule and not trial.case.scale]
        for head_dim in (64, 128, 256):
            for mask in ("full", "causal", "window"):
                key = lambda case: (case.head_dim, case.rule_name(), case.dtype, case.len_q)
                kinds_at = lambda length: [kind for case, kind in every
                                           if key(case) == (head_dim, mask, "bf16", length)]
                self.assertEqual(kinds_at(4096), list(unkind.EVERY))
                self.assertGreater(len(kinds_at(512)), 5)
        self.assertEqual({kind for case, kind in every if case.len_q == 512}, set(unkind.EVERY))
        words = " ".join(trial.name for trial, _ in todo)
        for option in ("fp16", "fp32", "softcap", "alibi", "bias", "scale=-", "cluster=2", "pack_gqa=1"):
            self.assertIn(option, words)
        problem = next(trial for trial, _ in todo if trial.case.scale < 0).problem()
        self.assertNotIn("alignment", problem)

    def test_what_cannot_be_built_is_wrong_and_the_next_one_runs(self):
        serve = unkind.start({"device": "host", "cache_dir": None})
        good, = {trial for trial, _ in unkind.todo(True) if trial.case.causal}
        bad = unkind.Trial(good.case, "algorithm=flash_tiled block_n=1 thread_n=32")
        self.assertEqual(serve(("compile", [good, bad]), lambda *_: None), 1)
        row = serve((bad, "rising"), lambda *_: None)
        self.assertEqual((row["ok"], "block_n" in row["error"]), (False, True))
        self.assertTrue(serve((good, "rising"), lambda *_: None)["ok"])

    def test_a_much_slower_kind_is_not_measured_at_length(self):
        side, bench = unittest.mock.Mock(), unkind.Bench(None, None, False)
        bench._side, asked = side, []
        side.times.side_effect = lambda work, count, cold: asked.append(count) or [work] * count
        self.assertEqual(bench._times({"ms": 20.0, "normal_ms": 1.0}), {"ms": 20.0, "normal_ms": 1.0})
        self.assertLess(max(asked), 3)

    def test_kinds_are_what_they_are_called(self):
        case = cases.Case("check", 16, 1, 1, 200, False)
        side = side_host.Side(attile.Session("host", host_mode="check"))

        def scores(kind):
            q, k, v = side.inputs(case, kind)
            query = q.row(0, 0, 7)
            return [sum(x * y for x, y in zip(query, k.row(0, 0, j))) / 4 for j in range(200)], v

        deviation = lambda values: statistics.pstdev(values)
        normal = deviation(scores("normal")[0])
        self.assertAlmostEqual(deviation(scores("deviation_16")[0]) / normal, 16, 3)
        self.assertEqual(deviation(scores("equal")[0]), 0)
        rising, falling = scores("rising")[0], scores("falling")[0]
        self.assertGreater(sum(rising[150:]) - sum(rising[:50]), 50 * 40)
        self.assertGreater(sum(falling[:50]) - sum(falling[150:]), 50 * 40)
        for kind, place in (("hot_first", 0), ("hot_middle", 100), ("hot_last", 199)):
            found = scores(kind)[0]
            self.assertEqual(found.index(max(found)), place)
            self.assertGreater(max(found) - sorted(found)[-2], 100)
        self.assertGreater(abs(scores("outliers_v")[1].row(0, 0, 0)[0]), 100)
        self.assertEqual([kind for kind in kinds.KINDS if not kinds.finite(kind)],
                         ["special", "nan_k", "nan_v", "nan_row_v", "nan_spread_v", "nan_channel_v", "inf_k", "inf_v",
                          "all_nan"])


class Decode(unittest.TestCase):
    def test_caches_do_not_fit_l2_together(self):
        for case in decode_cases.cases():
            self.assertGreaterEqual(case.caches * case.cache_bytes, decode_cases.ROTATED_BYTES)
            self.assertGreaterEqual(case.caches, decode_cases.LEAST_CACHES)
            self.assertGreaterEqual(case.launches, decode_cases.LEAST_LAUNCHES)
            self.assertEqual(case.launches % case.caches, 0)

    def test_cases_are_selected_by_words(self):
        names = [case.name for case in decode_cases.cases()]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual([case.name for case in decode_cases.cases() if case.matches(["b1 s8192", "q4"])],
                         ["d128 b64 h64/8 s8192 q4 hnd", "d128 b1 h64/8 s8192 q8 hnd", "d128 b1 h64/8 s8192 hnd",
                          "d128 b1 h64/8 s1024 q4 hnd", "d128 b1 h64/8 s8192 q2 hnd", "d128 b64 h64/8 s1024 q4 hnd",
                          "d64 b64 h64/8 s8192 q4 hnd", "d256 b64 h64/8 s4096 q4 hnd", "d128 b1 h32/2 s8192 hnd",
                          *(f"d128 b1 h64/8 s8192 hnd {stored}"
                            for stored in ("e4m3 scale-none", "e4m3 scale-token", "int8 scale-token",
                                           "append halves", "page-16 append halves", "page-16 append none"))])

    def test_a_step_that_appends_is_one_launch_or_two(self):
        case = decode_cases.Case(2, 64, page_size=16, append="halves")
        self.assertFalse(case.is_dense)
        one, two = (attile.compile(f"{problem} target=sm_80", device="host").name for problem in (case.problem, case.problem_alone))
        self.assertIn("padded_page16_append1_rope_halves_decode", one)
        self.assertEqual(one.replace("_append1_rope_halves", ""), two)
        row = {"case": case.name, "us": {"attile": 2.0, "two launches": 3.0, "decode alone": 1.0}}
        self.assertIn("| 1.50 |", decode_cases.markdown([row]))

    def test_flashinfer_takes_whole_pages_and_one_scale(self):
        for words, expected in (({}, True), ({"page_size": 16}, True), ({"len_q": 4}, True), ({"dtype_kv": "e4m3"}, True),
                                ({"dtype_kv": "e4m3", "kv_scale": "head"}, False), ({"dtype_kv": "int8"}, False),
                                ({"varied": True}, False), ({"append": "none"}, False), ({"head_dim": 576, "head_dim_v": 512}, False)):
            self.assertEqual(decode_cases.Case(2, 64, **words).suits_pages, expected, words)

    def test_caches_of_8_bits_have_half_the_bytes_and_their_scales(self):
        whole, half, scaled = (decode_cases.Case(2, 64, **words).cache_bytes for words in (
            {}, {"dtype_kv": "e4m3", "kv_scale": "head"}, {"dtype_kv": "int8", "kv_scale": "token"}))
        self.assertEqual(whole, 2 * half)
        self.assertEqual(scaled - half, 2 * 2 * 8 * 64 * 4)  # K and V, sequences, heads, tokens, bytes of fp32
        case = decode_cases.Case(2, 64, heads=4, kv_heads=2, dtype_kv="int8", kv_scale="token")
        kernel = attile.compile(case.problem + " target=sm_80", "algorithm=decode block_m=8", device="host")
        self.assertIn("_kv_int8_scale_token_decode_m8_", kernel.name)

    def test_problems_are_those_of_the_kernel_for_few_queries(self):
        case = decode_cases.Case(2, 64, heads=4, kv_heads=2, len_q=3)
        kernel = attile.compile(case.problem + " target=sm_80", "algorithm=decode block_m=8", device="host")
        self.assertIn("_causal_decode_m8_", kernel.name)
        self.assertEqual(case.rows, 6)

    def test_sequences_have_their_mean_and_their_pages(self):
        case = decode_cases.Case(5, 64, kv_heads=2, varied=True, page_size=16)
        self.assertEqual(sum(case.lengths), 5 * 64)
        self.assertTrue(all(1 <= length < case.room for length in case.lengths))
        self.assertEqual(case.cache_bytes, decode_cases.Case(5, 64, kv_heads=2).cache_bytes)
        self.assertIn(" layout=padded page_size=16 ", case.problem)
        self.assertIn(" len_kv=128 ", case.problem)
        self.assertEqual(case.name, "d128 b5 h64/2 s64 hnd page-16 varied")

    def test_latent_attention_reads_a_row_once(self):
        case = decode_cases.Case(2, 64, heads=4, kv_heads=1, head_dim=576, head_dim_v=512)
        self.assertEqual(case.cache_bytes, 2 * 2 * 64 * 576)
        self.assertEqual(case.bytes, case.cache_bytes + 2 * 2 * 4 * (576 + 512))
        self.assertEqual(case.name, "d576/512 b2 h4/1 s64 hnd")

    def test_the_table_has_shares_and_faults(self):
        page = decode_cases.markdown([{"case": "x", "us": {"attile": 10.0, "fetch": 9.0, "cudnn": 12.0}, "goal_us": 9.5},
                                      {"case": "y", "us": {}, "faults": {"attile": "bad"}}])
        self.assertIn("| x | 10.0 | 12.0 | 9.0 | 0.900 | 1.20 | 9.5 |", page)
        self.assertIn("| y | - | - | - | - | - | - |", page)
        self.assertIn("y, attile: bad", page)


class Prefill(unittest.TestCase):
    def test_sequences_that_vary_have_as_many_tokens(self):
        for case in prefill_cases.cases():
            self.assertEqual(sum(case.varied), prefill_cases.TOKENS)
            self.assertEqual(len(case.varied), len(case.equal))
            self.assertTrue(all(1 <= length < 2 * case.length for length in case.varied))

    def test_a_causal_mask_leaves_a_little_over_half_of_the_work(self):
        full, causal = (prefill_cases.Case(64, 2048, causal) for causal in (False, True))
        self.assertEqual(full.flops([3, 2]), 4 * 64 * 32 * (9 + 4))
        self.assertEqual(causal.flops([3, 2]), 4 * 64 * 32 * (6 + 3))

    def test_every_side_has_a_kernel_of_its_layout(self):
        case = prefill_cases.Case(64, 1024, True)
        for side in prefill_cases.SIDES:
            name = attile.compile(case.problem(side) + " target=sm_80", "algorithm=flash_mma", device="host").name
            self.assertEqual("_ragged_" in name, side.layout == "ragged")
            self.assertEqual(f"_page{side.page_size}_" in name, side.page_size > 0)
        self.assertIn(f" len_q={max(case.varied)} ", case.problem(prefill_cases.SIDES[-1]))

    def test_times_are_compared_for_the_same_work_and_marked_above_a_goal(self):
        rows = [{"case": "x", "tflops": {"dense": 90.0, "dense nhd": 100.0, "ragged": 95.0, "pages of 16": 95.0, "varied": 80.0},
                 "faults": {"padded": "bad"}}]
        self.assertEqual(prefill_cases.ratios(rows[0]["tflops"])["varied"], 1.25)
        page = prefill_cases.markdown(rows)
        self.assertIn("| x | 90 | 100 | 1.05 ! | 1.05 | 1.25 |", page)
        self.assertIn("x, padded: bad", page)


class Lse(unittest.TestCase):
    """The bound accepts what a kernel computes and refuses larger errors than those of fp32."""

    def setUp(self):
        self.case, self.session = cases.Case("check", 16, 1, 1, 20, True, 0, 17), attile.Session("host", host_mode="check")
        self.side = side_host.Side(self.session)
        self.q, self.k, v = self.side.inputs(self.case)
        kernel = self.session.compile(self.case.problem(""))
        self.lse = self.side.lse(self.case)
        tensors = self.q, self.k, v, self.side.output(self.case)
        contest.bind(kernel, self.side, self.case, tensors, {}, self.lse)()

    def share_with(self, change):
        values = [change(self.lse[0, 0, i], i) for i in range(self.case.len_q)]
        changed = side_host.Parameter(self.session, (1, 1, 20), "float32", values)
        return self.side.lse_error(self.case, self.q, self.k, changed)

    def test_a_kernel_is_within_and_small_faults_are_not(self):
        self.assertLess(self.share_with(lambda x, i: x), 0.5)
        self.assertEqual([self.lse[0, 0, i] for i in range(3)], [-math.inf] * 3)  # these queries see no key
        for fault in (lambda x, i: x + 1e-4 * (i == 9), lambda x, i: 0 if i == 1 else x, lambda x, i: x / math.log(2),
                      lambda x, i: math.nan if i == 19 else x, lambda x, i: math.inf if i == 19 else x):
            self.assertGreater(self.share_with(fault), 1)

    def test_a_wrong_lse_is_an_error_of_its_row(self):
        job = {"case": self.case, "schedules": {"attile": ""}, "peers": [], "without": [], "problem": "",
               "plan": protocol.Plan(rounds=1)}
        with unittest.mock.patch.object(self.side, "lse_error", lambda *_: 1.5):
            row, = contest.Contest(self.session, self.side, job, lambda *_: None).rows()
        self.assertIn("an LSE is 1.5 times as far off", row["error"])


class Errors(unittest.TestCase):
    """Special values must match exactly; a wrong element is detected."""

    def setUp(self):
        self.case = cases.Case("check", 4, 1, 1, 3, False)
        q, k, v = (side_host.Tensor((1, 1, 3, 4), [math.sin(i + 3 * n) for i in range(12)]) for n in range(3))
        self.reference, self.o = side_host.plain(self.case, q, k, v, keep=True), side_host.plain(self.case, q, k, v)
        self.error = lambda: side_host.Side(None).error(self.reference, self.o)[0]

    def test_rounding_is_small_and_one_wrong_element_is_not(self):
        self.assertLess(self.error(), 0.004)
        self.o.bits[5] ^= 0x80
        self.assertGreater(self.error(), 0.02)

    def test_nan_and_infinity(self):
        nan, inf = math.nan, math.inf
        for here, there, finite in ((nan, nan, True), (inf, inf, True), (inf, -inf, False), (nan, inf, False),
                                    (1.0, nan, False), (inf, 1.0, False)):
            self.reference[5], self.o.bits[5] = here, side_host.to_bf16(there)
            self.assertEqual(math.isfinite(self.error()), finite, (here, there))

    def test_kinds_of_data(self):
        case = cases.Case("check", 2, 1, 1, 1000, False)
        spoiled = lambda kind, name: side_host.spoil(kind, name, case, (1, 1, 1000, 2), [1.0] * 1000 + [-1.0] * 1000)
        self.assertEqual(spoiled("outliers", "v").count(50), 2)
        self.assertEqual(len(set(zip(*[iter(spoiled("equal", "k"))] * 2))), 1)
        self.assertEqual(spoiled("growing", "k"), sorted(spoiled("growing", "k")))
        self.assertTrue(math.isnan(spoiled("special", "q")[1013]))


if __name__ == "__main__":
    unittest.main()
