"""Options and fixtures. `pytest python/tests --device cuda` runs what has a device to choose on a GPU."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # for reference.py, whichever way pytest imports


def pytest_addoption(parser):
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where PyTorch's tensors lie")


@pytest.fixture(scope="session")
def device(request):
    return request.config.getoption("--device")


@pytest.fixture
def cuda_only(device):
    if device != "cuda":
        pytest.skip("needs --device cuda")
