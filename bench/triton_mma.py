"""FlexAttention with mma.sync, a peer for flash_mma: on Hopper, Triton would use wgmma.

TRITON_OVERRIDE_ARCH sets another compute capability for Triton's passes, while PTX and machine code are still generated
for the present GPU (triton/backends/nvidia/compiler.py: CUDABackend.add_stages, since Triton 3.2).
"""
import os
import pathlib

ARCH = "sm80"


def prepare(folder):
    """Sets the environment; call it before importing PyTorch, whose compile processes inherit it. folder: empty, for
    the caches, whose keys do not include all of these settings; `instructions` then finds only these kernels."""
    os.environ.update(TRITON_OVERRIDE_ARCH=ARCH, TORCHINDUCTOR_CACHE_DIR=str(folder), TRITON_CACHE_DIR=f"{folder}/triton")


def instructions():
    """Returns, for a row, how many kernels in Triton's cache have mma.sync. Raises ValueError if none has, or one has
    wgmma."""
    code = [path.read_text() for path in pathlib.Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.ptx")]
    found = {name: sum(name in text for text in code) for name in ("mma.sync", "wgmma")}
    if found["wgmma"] or not found["mma.sync"]:
        raise ValueError(f"Triton did not compile for {ARCH}: of {len(code)} kernels, {found['mma.sync']} have mma.sync and "
                         f"{found['wgmma']} have wgmma")
    return {"triton_arch": ARCH, "kernels": found}
