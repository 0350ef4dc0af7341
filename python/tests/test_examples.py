"""The examples of this repository run."""

import pathlib
import shutil
import subprocess
import sys

import attile
import pytest
from attile import _library

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="needs the repository")


def run(*words, cwd):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_explore_tiles(tmp_path):
    said = run(sys.executable, EXAMPLES / "explore_tiles.py", "page", cwd=tmp_path)
    assert "165 empty" in said and "HEAD_DIM = 96" in said
    assert (tmp_path / "page" / "index.html").exists()


@pytest.mark.parametrize("stored", ["fp16", "e4m3", "int8"])
def test_serve(tmp_path, stored):
    said = run(sys.executable, EXAMPLES / "serve.py", stored, cwd=tmp_path)
    assert said.count("leaves with") == 7 and "% of what is allowed" in said


def test_finetune(tmp_path):
    pytest.importorskip("torch")
    assert "the loss fell" in run(sys.executable, EXAMPLES / "finetune.py", cwd=tmp_path)


@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("gcc")), reason="needs gcc and g++")
def test_bundle(tmp_path):
    """Built by hand for this CPU, as its CMakeLists.txt does."""
    attile.build(str(EXAMPLES / "bundle" / "attention.yaml"), str(tmp_path / "kernels"), arch="host_fast",
                 symbol="window_kernels")  # fmt: skip
    header, library = ROOT / "runtime", tmp_path / "libattile.so.0.1"  # its soname; the package's file has another name
    library.symlink_to(pathlib.Path(_library.library._name).resolve())
    run("gcc", "-I", header, "-c", "kernels/kernels.c", "-o", "kernels.o", cwd=tmp_path)
    run("g++", "-Wall", "-Wextra", "-Werror", "-I", header, EXAMPLES / "bundle" / "main.cpp", "kernels.o", library,
        f"-Wl,-rpath,{library.parent}", "-o", "bundle", cwd=tmp_path)  # fmt: skip
    said = run("env", "CXX=/nowhere", "CUDA_VISIBLE_DEVICES=", "./bundle", cwd=tmp_path)  # a GPU needs other kernels
    assert "from its bundle" in said and "mean position of the last 10 keys: 94.5" in said
