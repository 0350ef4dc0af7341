"""Options and fixtures. `pytest python/tests --device cuda` runs what has a device to choose on a GPU."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))  # for reference.py, whichever way pytest imports
if (HERE.parent / "attile").exists():  # in a checkout its package is tested, here and in what tests start
    sys.path.insert(0, str(HERE.parent))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


def pytest_addoption(parser):
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where PyTorch's tensors lie")


@pytest.fixture(scope="session")
def device(request):
    return request.config.getoption("--device")


@pytest.fixture
def cuda_only(device):
    if device != "cuda":
        pytest.skip("needs --device cuda")
