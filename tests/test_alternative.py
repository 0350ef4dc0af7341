#!/usr/bin/env python3
"""A new alternative is a new file and one line of selection (docs/templates.md): the Hopper kernel with a walk that visits
K/V tiles in ascending order, tests/data/ascending/ascending.cuh, against the oracle on the host device.

    tests/test_alternative.py build/release/cli/attile
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ATTILE = sys.argv.pop(1) if len(sys.argv) > 1 else f"{ROOT}/build/release/cli/attile"
OLD = '//$ include "walk/$mask_tiles.cuh"'
NEW = '//$ include "walk/ascending.cuh" if mask_tiles == intervals else "walk/$mask_tiles.cuh"'
PROBLEM = ("family=attention_forward algorithm=flash_async target=sm_90a dtype=bf16 head_dim=8 block_n=16 "
           "mask='k <= q + 3 and q - k < 90' ")


class Ascending(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.templates = f"{self.folder.name}/templates"
        shutil.copytree(f"{ROOT}/templates", self.templates)
        shutil.copy(f"{ROOT}/tests/data/ascending/ascending.cuh", f"{self.templates}/walk/")
        with open(f"{self.templates}/attention_flash_async.cu", encoding="utf-8") as file:
            kernel = file.read()
        self.assertEqual(kernel.count(OLD), 1)
        with open(f"{self.templates}/attention_flash_async.cu", "w", encoding="utf-8") as file:
            file.write(kernel.replace(OLD, NEW))

    def tearDown(self):
        self.folder.cleanup()

    def attile(self, *words):
        return subprocess.run([ATTILE, *words, "--templates", self.templates], capture_output=True, text=True)

    def test_is_spliced(self):
        shown = self.attile("show", PROBLEM + "block_m=128 overlap=intra_warpgroup")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("return walk.tile++;", shown.stdout)

    def test_agrees_with_the_oracle(self):
        for schedule in ("block_m=192 overlap=intra_warpgroup store=direct", "block_m=128 overlap=both", "block_m=64 overlap=off"):
            run = self.attile("run", PROBLEM + schedule, "--shape", "heads=2,len_q=300,len_kv=330", "--device", "host",
                              "--cache-dir", f"{self.folder.name}/cache", "--no-nvrtc")
            self.assertEqual(run.returncode, 0, schedule + run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
