"""FlexAttention by mma.sync, a peer for flash_mma: on Hopper, Triton would multiply by wgmma.

TRITON_OVERRIDE_ARCH tells Triton's passes of another compute capability, while PTX and machine code are still made for the GPU that
is there (triton/backends/nvidia/compiler.py: CUDABackend.add_stages, since Triton 3.2).
"""
import os
import pathlib

ARCH = "sm80"


def prepare(folder):
    """To be called before PyTorch is imported: its processes that compile inherit this. An empty folder for its caches, since
    their keys do not have all of it, and so that `instructions` finds these kernels alone."""
    os.environ.update(TRITON_OVERRIDE_ARCH=ARCH, TORCHINDUCTOR_CACHE_DIR=str(folder), TRITON_CACHE_DIR=f"{folder}/triton")


def instructions():
    """For a row: how many kernels in Triton's cache have mma.sync. It is an error if none has, or one has wgmma."""
    code = [path.read_text() for path in pathlib.Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.ptx")]
    found = {name: sum(name in text for text in code) for name in ("mma.sync", "wgmma")}
    if found["wgmma"] or not found["mma.sync"]:
        raise ValueError(f"Triton did not compile for {ARCH}: of {len(code)} kernels, {found['mma.sync']} have mma.sync and "
                         f"{found['wgmma']} have wgmma")
    return {"triton_arch": ARCH, "kernels": found}
