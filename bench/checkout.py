"""Import this before attile: the package of this checkout comes before an installed one."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
