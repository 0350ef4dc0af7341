"""What can be tested without a GPU: python3 bench/test_bench.py. Needs the library (ATTILE_LIBRARY)."""
import ctypes
import importlib.util
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.dom.minidom

import attile
import bench_masks
import cases
import gpu_checks
import protocol
import report
import rules
import runner
import side_host
import table
from worker import Lost, Worker


class FakeClock:
    """Every kernel takes as long as it says; records who ran how often."""

    def __init__(self):
        self.calls = []

    def times(self, work, count, cold):
        self.calls.append((work, count, cold))
        return [work] * count


class Cases(unittest.TestCase):
    def test_the_matrix_has_every_published_shape(self):
        names = [case.name for case in cases.matrix()]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(set(table.published()), set(names))

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
    def test_every_kernel_leads_a_round_and_gets_the_same_time(self):
        clock, order = FakeClock(), []
        works = {"a": 1.0, "b": 2.0, "c": 0.5}
        samples = protocol.measure(works, clock, protocol.Plan(rounds=3, warm_too=True), before=order.append)
        self.assertEqual(order, list("abcbcacab"))
        self.assertEqual({name: len(one["cold"][0]) for name, one in samples.items()}, {"a": 100, "b": 50, "c": 200})
        self.assertEqual({name: len(one["warm"]) for name, one in samples.items()}, {"a": 3, "b": 3, "c": 3})
        self.assertIn((1.0, 25, True), clock.calls)

    def test_summary_is_of_all_samples(self):
        found = protocol.summary([[1, 2, 3], [4, 5]], 6e9)
        self.assertEqual([found[key] for key in ("q1", "ms", "q3", "samples", "tflops")], [2, 3, 4, 5, 2.0])
        self.assertEqual(found["rounds"], [2, 4.5])

    def test_a_plan_shrinks_to_its_time(self):
        plan = protocol.Plan(rounds=2)
        self.assertEqual(plan.within(1e9, 4).repeat_ms, 100)
        self.assertAlmostEqual(plan.within(0.8, 4).repeat_ms, 100 - 37.5)
        self.assertEqual(plan.within(0.01, 4).repeat_ms, 15)


def row(kernel, tflops, case="d128 b4 h16 s4096 full", **more):
    return {"case": case, "kernel": kernel, "cold": {"tflops": tflops}, **more}


class Table(unittest.TestCase):
    def test_ratios(self):
        rows = [row("attile a", 500, schedule="a"), row("attile b", 660, schedule="b"), row("cudnn", 600),
                row("fa2", 400)]
        kernels = table.by_case(rows)[rows[0]["case"]]
        self.assertEqual(table.ours(kernels)["kernel"], "attile b")
        self.assertAlmostEqual(table.against_now(kernels), 1.1)
        # there cuDNN has 603 and FA3 650
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

    def test_geometric_mean(self):
        self.assertAlmostEqual(table.geometric_mean([0.5, 2, None]), 1)
        self.assertIsNone(table.geometric_mean([None]))


class Report(unittest.TestCase):
    def rows(self, run, ours, case="d128 b4 h16 s4096 full", kernel="attile"):
        more = {"run": run, "group": "grid"}
        return [row(kernel, ours, case, schedule="x", **more), row("cudnn", 603, case, **more)]

    def test_the_newest_run_of_the_librarys_choice_counts(self):
        lines = [{"run": run, "bench": "matrix", "gpu": "G"} for run in "123"]
        lines += self.rows("1", 500) + self.rows("1", 400, "d64 b4 h32 s4096 full") + self.rows("2", 600)
        lines += self.rows("3", 900, kernel="attile block_n=8") + self.rows("2", 900, kernel="attile block_n=8")
        with tempfile.TemporaryDirectory() as folder:
            masks = [{"run": "4", "bench": "masks", "gpu": "G"},
                     row("attile", 5, "d64 b1 h1 s8192 alibi", run="4", schedule="", group="masks")]
            for name, which in (("matrix", lines), ("masks", masks)):
                text = "".join(json.dumps(line) + "\n" for line in which)
                pathlib.Path(folder, f"{name}.jsonl").write_text(text)
            program = pathlib.Path(__file__).with_name("report.py")
            subprocess.run([sys.executable, program, "--results", folder, "--docs", folder], check=True)
            page, drawn = (pathlib.Path(folder, f"benchmarks.{kind}").read_text() for kind in ("md", "svg"))
        self.assertIn("| d128 b4 h16 s4096 full | **600** | 603 | 1.00 | 0.92 ◀ |", page)
        self.assertIn("| d64 b4 h32 s4096 full | **400** |", page)
        self.assertNotIn("900", page)
        self.assertIn("| d64 b1 h1 s8192 alibi |", page)
        picture = xml.dom.minidom.parseString(drawn)
        bars = [title.firstChild.data for title in picture.getElementsByTagName("title")]
        self.assertEqual(bars, ["attile 400", "cuDNN 603", "attile 600", "cuDNN 603"])

    def test_what_the_published_peer_would_give_here(self):
        self.assertAlmostEqual(report.expected({"cudnn": row("cudnn", 300)}, {"cudnn": 600, "fa3": 660}), 330)
        self.assertIsNone(report.expected({"cudnn": row("cudnn", 300)}, {}))


def fragile(setup):
    """A stand-in for contest.start whose kernels do what their names say."""

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
                rows = runner.contest(worker, job, losses, lambda what: None)  # not a third time
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
                                   "--schedule", "block_n=32", "--schedule", "block_n=33", "--schedule", "choice",
                                   "--schedule", "fixed block_n=32"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            machine, good, bad, choice, fixed, plain = map(json.loads, results.read_text().splitlines())
        self.assertEqual(machine["bench"], "matrix")
        self.assertTrue({machine["run"]} == {good["run"], bad["run"], plain["run"]})
        self.assertIn("_n32_", good["variant"])
        self.assertEqual((choice["kernel"], choice["schedule"]), ("attile", ""))
        self.assertNotEqual(fixed["variant"], good["variant"])
        self.assertEqual(fixed["relative_error"], good["relative_error"])
        self.assertLess(good["relative_error"], 2 * good["honest_error"])
        self.assertTrue(0 < good["apart"]["plain"] < 0.01 and good["same_bits"] and math.isfinite(good["cold"]["ms"]))
        self.assertIn("block_n", bad["error"])
        self.assertIn("| d32 b1 h2/1 s20x33 causal |", done.stdout)


class Masks(unittest.TestCase):
    def test_text_and_functions_say_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            program = pathlib.Path(__file__).with_name("bench_masks.py")
            done = subprocess.run([sys.executable, program, "--dry-run", "--rounds", "1", "--results", results,
                                   "--only", "document", "--only", "softcap_window", "--only", "bias"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in results.read_text().splitlines()][1:]
        self.assertEqual(len(rows), 6)
        for row in rows:
            self.assertNotIn("error", row)
            self.assertLess(row["relative_error"], 2 * row["honest_error"])
        self.assertIn("s40 bias |", done.stdout)

    def test_every_rule_changes_the_answer(self):
        case, side = rules.tiny()[0], side_host.Side(attile.Session("host"))
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


class Layout(unittest.TestCase):
    """attile.py repeats the structs of runtime/attile.h; the compiler knows where their members are."""

    NAMES = {"att_options": attile._Options, "att_tensor": attile._Tensor, "att_param": attile._Param,
             "att_attention_args": attile._Attention,
             "att_merge_args": attile._Merge, "att_args": attile._Args, "att_kernel_info": attile.KernelInfo,
             "att_session_info": attile.SessionInfo}
    SPELLED = {"origin": "from", "family": "attention"}  # what Python or ctypes cannot call so

    @unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
    def test_members_are_where_the_header_has_them(self):
        lines, expected = [], []
        for name, struct in self.NAMES.items():
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            expected.append(f"{name} {ctypes.sizeof(struct)}")
            for member, _ in struct._fields_:
                spelled = self.SPELLED.get(member, member)
                lines.append(f'printf("{name}.{spelled} %zu\\n", offsetof(struct {name}, {spelled}));')
                expected.append(f"{name}.{spelled} {getattr(struct, member).offset}")
        source = '#include "attile.h"\n#include <stdio.h>\nint main(void) {\n' + "\n".join(lines) + "\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(__file__).parents[1] / "runtime"
            subprocess.run(["cc", "-x", "c", "-I", header, "-o", f"{folder}/layout", "-"], input=source, text=True,
                           check=True)
            found = subprocess.run(f"{folder}/layout", capture_output=True, text=True, check=True).stdout
        self.assertEqual(found.splitlines(), expected)


class Checks(unittest.TestCase):
    def run_checks(self, *words):
        program = pathlib.Path(__file__).with_name("gpu_checks.py")
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            done = subprocess.run([sys.executable, program, "--dry-run", "--part", "numbers", "--results", results,
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

    def test_commands_end_in_time_with_what_they_started(self):
        began = time.monotonic()
        status, _, errors = gpu_checks.command(["sh", "-c", "sleep 60 | cat"], 0.2)
        self.assertIsNone(status)
        self.assertIn("not finished", errors)
        self.assertLess(time.monotonic() - began, 20)


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch; its CPU will do")
class Torch(unittest.TestCase):
    """side_cuda.py's arithmetic, on the CPU, is side_host.py's."""

    def setUp(self):
        import side_cuda
        import torch
        side_cuda.DEVICE = "cpu"
        self.torch, self.side = torch, side_cuda.Side(None)
        self.host = side_host.Side(attile.Session("host"))

    def host_tensor(self, tensor):
        return side_host.Tensor(tuple(tensor.shape), tensor.float().flatten().tolist())

    def test_references_agree(self):
        plain = [(cases.Case("check", 16, 1, len(cases.SPECIAL), 20, causal, 3, len_kv), kind)
                 for causal in (False, True) for len_kv in (17, 30) for kind in gpu_checks.KINDS]
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
                self.assertTrue(5e-4 < honest < 5e-3, honest)

    def test_peers_agree(self):
        """What FlexAttention computes without being compiled."""
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
        case = cases.Case("check", 16, 1, 4, 20, True, 2, 30)
        tensors = self.side.inputs(case)
        self.side.parameters(case)
        work, _ = self.side._sdpa(side_cuda.SDPBackend.MATH, case, *tensors)
        self.assertLess(self.side.error(self.side.reference(case, *tensors), work())[0], 5e-3)


class Errors(unittest.TestCase):
    """Special values must match exactly; a wrong element shows."""

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
        spoiled = lambda kind, name: side_host.spoil(kind, name, (1, 1, 1000, 2), [1.0] * 1000 + [-1.0] * 1000)
        self.assertEqual(spoiled("outliers", "v").count(50), 2)
        self.assertEqual(len(set(zip(*[iter(spoiled("equal", "k"))] * 2))), 1)
        self.assertEqual(spoiled("growing", "k"), sorted(spoiled("growing", "k")))
        self.assertTrue(math.isnan(spoiled("special", "q")[1003]))


if __name__ == "__main__":
    unittest.main()
