"""Import this before attile: it gives the package of this checkout precedence over an installed one."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
