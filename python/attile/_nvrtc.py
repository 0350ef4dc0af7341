"""NVRTC from the Python package `nvidia-cuda-nvrtc`, which the library's own search (docs/cli.md, doctor) does not know."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import pathlib

# Folders of the wheels for CUDA 13 and 12 within the namespace package `nvidia`, and what they hold.
_PLACES = (("cu13/lib", "libnvrtc.so.13"), ("cuda_nvrtc/lib", "libnvrtc.so.12"))


@functools.cache
def wheel_path() -> pathlib.Path | None:
    """The NVRTC of an installed wheel, the newest one; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder, name in _PLACES:
        for root in (spec.submodule_search_locations or ()) if spec else ():
            path = pathlib.Path(root) / folder / name
            if path.exists():
                return path
    return None


@functools.cache
def preload() -> None:
    """Load the wheel's NVRTC, so that the library, which asks for it by its bare name, gets it.

    Does nothing where ATTILE_NVRTC names another one or no wheel is installed.
    """
    path = None if os.environ.get("ATTILE_NVRTC") else wheel_path()
    if path:
        ctypes.CDLL(str(path))
