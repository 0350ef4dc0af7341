"""The command line program in the package."""

import json
import subprocess
import sys

import attile
import pytest
from attile import errors


def test_python_m_attile_is_the_command():
    done = subprocess.run([sys.executable, "-m", "attile", "version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and attile.__version__ in done.stdout


def test_exit_status_comes_through():
    done = subprocess.run([sys.executable, "-m", "attile", "no-such-verb"], capture_output=True, text=True)
    assert done.returncode == 2 and "unknown verb" in done.stderr


def test_build_makes_a_bundle(tmp_path):
    path = attile.build("family=attention_forward head_dim=8", str(tmp_path / "out"), arch="host", symbol="mine")
    assert "const struct att_bundle mine" in open(path).read()
    assert json.load(open(tmp_path / "out" / "manifest.json"))


def test_a_failing_command_says_why(tmp_path):
    with pytest.raises(errors.CommandFailed, match="head_dim"):
        attile.build("family=attention_forward head_dim=0", str(tmp_path))


def test_doctor_and_cache():
    found = attile.doctor()
    assert found["host device"]["state"] == "ok" and "advice" in found["nvrtc"]
    assert attile.cache()
