"""FlashAttention-3, if available: its module flash_attn_interface, or a custom shared library with the C entry

    int fa3_forward(const void *q, const void *k, const void *v, void *o, float *lse, int batch, int heads,
                    int kv_heads, int len_q, int len_kv, int head_dim, int causal, float scale, int num_splits,
                    void *stream);

    int fa3_backward(const void *q, const void *k, const void *v, const void *o, const void *d_o, const float *lse,
                     void *dq, void *dk, void *dv, int batch, int heads, int kv_heads, int len_q, int len_kv,
                     int head_dim, int causal, float scale, int deterministic, void *stream);   for bench_backward.py

in bf16 and FlashAttention-3's own layout (batch, length, heads, head_dim), contiguous; lse is (batch, heads, len_q); a
causal mask aligns the last query and key; returns 0 on success.
"""
import argparse
import ctypes
import importlib
import importlib.util
from ctypes import c_float, c_int, c_void_p

MODULE = "flash_attn_interface"
SPLITS = (1, 2, 4, 8)  # numbers of splits of the keys; the fastest counts, as its own choice would have it


class Library:
    def __init__(self, path):
        try:
            self._library = ctypes.CDLL(str(path))
            self._entry = self._library.fa3_forward
        except (OSError, AttributeError) as error:
            raise ValueError(f"{path}: expected a shared library with the entry fa3_forward, found: {error}; "
                             "bench/fa3.py says what to build") from error
        self._entry.argtypes = [c_void_p] * 5 + [c_int] * 7 + [c_float, c_int, c_void_p]

    def forward(self, q, k, v, o, lse, causal, num_splits, stream):
        batch, len_q, heads, head_dim = q.shape
        status = self._entry(*(tensor.data_ptr() for tensor in (q, k, v, o, lse)), batch, heads, k.shape[2], len_q,
                             k.shape[1], head_dim, causal, head_dim**-0.5, num_splits, stream)
        if status:
            raise RuntimeError(f"fa3_forward returned {status} for head_dim {head_dim}, num_splits {num_splits}")
        return o

    def backward(self, q, k, v, o, d_o, lse, gradients, causal, deterministic, stream):
        """Writes the gradients (dq, dk, dv), laid out as q, k and v."""
        batch, len_q, heads, head_dim = q.shape
        try:
            entry = self._library.fa3_backward
        except AttributeError as error:
            raise ValueError(f"{error}; bench/fa3.py says what to build") from error
        entry.argtypes = [c_void_p] * 9 + [c_int] * 7 + [c_float, c_int, c_void_p]
        status = entry(*(tensor.data_ptr() for tensor in (q, k, v, o, d_o, lse, *gradients)), batch, heads, k.shape[2], len_q,
                       k.shape[1], head_dim, causal, head_dim**-0.5, deterministic, stream)
        if status:
            raise RuntimeError(f"fa3_backward returned {status} for head_dim {head_dim}")
        return gradients


def module_forward(q, k, v, causal, num_splits):
    """Calls the module, whose versions return O alone or with more."""
    splits = {"num_splits": num_splits} if num_splits != 1 else {}
    found = importlib.import_module(MODULE).flash_attn_func(q, k, v, causal=causal, **splits)
    return found[0] if isinstance(found, tuple) else found


def installed():
    return importlib.util.find_spec(MODULE) is not None


def add_option(parser):
    def library(path):
        try:
            Library(path)
        except ValueError as error:
            raise argparse.ArgumentTypeError(error) from error
        return path

    parser.add_argument("--fa3", type=library, metavar="PATH",
                        help=f"FlashAttention-3 as a shared library (bench/fa3.py); else {MODULE} if installed")
