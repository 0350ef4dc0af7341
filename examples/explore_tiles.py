"""What a mask does to tiles, which schedules there are for it, and a page with pictures. No GPU is needed.

    python examples/explore_tiles.py [FOLDER]      writes FOLDER/index.html

The steps are those of a notebook: run them one at a time.
"""

import sys

import attile

folder = sys.argv[1] if len(sys.argv) > 1 else "tiles"

# %% The problem: a sliding window with a few tokens that stay visible.
mask = "k <= q and (k < 4 or q - k < window)"
problem = f"family=attention_forward dtype=bf16 head_dim=96 mask='{mask}' params='window: int'"

# %% What becomes of tiles: empty ones are never loaded, full ones need no mask code.
print(attile.command("explain", problem, "--tiles", "--shapes", "len_q=1024,len_kv=1024", "--params", "window=300"))

# %% Which kernel an H200 would get, and why.
print(attile.command("explain", problem, "--for", "h200"))

# %% All schedules, predicted; --best N compiles the N best with NVRTC, where that is installed.
shapes = "batch=4,heads=16,len_q=4096,len_kv=4096"
words = ("explore", problem, "--shapes", shapes, "--best", "0", "--report", folder)
print(attile.command(*words)[:2000])
print(f"pictures: {folder}/index.html")

# %% And the kernel itself, on this CPU: its source is what a GPU would get, but for the target.
kernel = attile.compile(problem, device="host")
print("\n".join(kernel.source.splitlines()[:80]))
