"""NVRTC from the Python package `nvidia-cuda-nvrtc`, which the library's own search (docs/cli.md, doctor) misses."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import pathlib

# Folders of the wheels for CUDA 13 and 12 within the namespace package `nvidia`, and the libraries in them.
_PLACES = (("cu13/lib", "libnvrtc.so.13"), ("cuda_nvrtc/lib", "libnvrtc.so.12"))


@functools.cache
def wheel_path() -> pathlib.Path | None:
    """The NVRTC of an installed wheel, the newest one; None if there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder, name in _PLACES:
        for root in (spec.submodule_search_locations or ()) if spec else ():
            path = pathlib.Path(root) / folder / name
            if path.exists():
                return path
    return None


@functools.cache
def preload() -> None:
    """Loads the wheel's NVRTC, so that the library, which opens NVRTC by its bare name, gets this one.

    Does nothing if ATTILE_NVRTC names another one or no wheel is installed.
    """
    path = None if os.environ.get("ATTILE_NVRTC") else wheel_path()
    if path:
        ctypes.CDLL(str(path))
