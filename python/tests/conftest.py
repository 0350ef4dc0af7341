"""Options and fixtures. `pytest python/tests --device cuda` runs the tests that can choose a device on a GPU."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))  # for reference.py, whatever import mode pytest uses
if (HERE.parent / "attile").exists():  # in a checkout, test its package, here and in processes that tests start
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
