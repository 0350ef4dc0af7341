"""The package and the header agree."""

import re
import shutil

import layout
import pytest
from attile import _library


@pytest.mark.skipif(not (layout.HEADER.exists() and shutil.which("cc")), reason="needs the header and a C compiler")
def test_members_are_where_the_header_has_them(monkeypatch):
    assert layout.differences() == []
    monkeypatch.setattr(_library, "REPEAT", 0)
    assert layout.differences() == [f"ATT_REPEAT is {-(2**63)} in attile.h and 0 in attile/_library.py"]


@pytest.mark.skipif(not layout.HEADER.exists(), reason="needs the header")
def test_every_function_of_the_header_is_there():
    declared = set(re.findall(r"^ATT_API .*?(att_\w+)\(", layout.HEADER.read_text(), re.M))
    assert declared == set(_library._FUNCTIONS)
