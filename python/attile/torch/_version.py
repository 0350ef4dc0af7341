"""Checks the version of PyTorch. Imported before anything that an older PyTorch lacks."""

from __future__ import annotations

import torch

from .. import errors

LEAST = (2, 6)


def check(version: str = torch.__version__) -> None:
    """Raises VersionError for a PyTorch that is too old."""
    found = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if found < LEAST:
        raise errors.VersionError(
            f"PyTorch {version} is installed, expected {LEAST[0]}.{LEAST[1]} or newer; upgrade it: pip install -U torch"
        )


check()
