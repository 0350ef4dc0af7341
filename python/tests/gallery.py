"""Masks and scores as users of FlexAttention write them: mask(b, h, q, kv) and score(s, b, h, q, kv), positions from 0.

Each entry makes its functions for a device, with the tensors that they capture. They are written for one query and one
key; the reference evaluates the same functions on tensors of all positions.
"""

import math
from dataclasses import dataclass
from typing import Callable, Optional

import torch

BATCH, HEADS, LENGTH = 2, 4, 48  # sizes of the tests
WIDTH = 8  # width of an image whose pixels, row by row, are the positions


@dataclass(frozen=True)
class Entry:
    make: Callable  # device -> (mask or None, score or None)
    lengths: Optional[tuple] = None  # (queries, keys); None = LENGTH for both


GALLERY = {}


def entry(lengths=None):
    def add(make):
        GALLERY[make.__name__] = Entry(make, lengths)
        return make

    return add


def _documents(device, dtype=torch.int64):
    ends = torch.tensor([[11, 30, 48], [7, 7, 48]])
    return (torch.arange(LENGTH)[None, :, None] >= ends[:, None]).sum(-1).to(device, dtype)


# --- masks ----------------------------------------------------------------------------------------------------------


@entry()
def everything(device):
    return lambda b, h, q, kv: q.new_ones(size=(), dtype=torch.bool) | (q >= 0), None


@entry()
def causal(device):
    return lambda b, h, q, kv: q >= kv, None


@entry()
def sliding_window(device):
    return lambda b, h, q, kv: (q >= kv) & (q - kv <= 9), None


@entry()
def both_sides(device):
    return lambda b, h, q, kv: (q - kv).abs() <= 5, None


@entry()
def prefix_lm(device):
    return lambda b, h, q, kv: (kv < 13) | (q >= kv), None


@entry()
def prefix_of_each_batch(device):
    lengths = torch.tensor([5, 20], device=device)
    return lambda b, h, q, kv: (kv < lengths[b]) | (q >= kv), None


@entry()
def documents(device):
    ids = _documents(device)[0].contiguous()
    return lambda b, h, q, kv: (ids[q] == ids[kv]) & (q >= kv), None


@entry()
def documents_of_each_batch(device):
    ids = _documents(device, torch.int32)
    return lambda b, h, q, kv: ids[b, q] == ids[b, kv], None


@entry()
def document_prefix(device):
    """Causal within a document, except that the whole document sees its first positions."""
    ids = _documents(device)[0].contiguous()
    starts = torch.tensor([0, 11, 30], device=device)

    def mask(b, h, q, kv):
        inner_q, inner_kv = q - starts[ids[q]], kv - starts[ids[kv]]
        return (ids[q] == ids[kv]) & ((inner_q >= inner_kv) | (inner_kv < 4))

    return mask, None


@entry()
def padding(device):
    lengths = torch.tensor([48, 17], device=device)
    return lambda b, h, q, kv: kv < lengths[b], None


@entry()
def chunked(device):
    return lambda b, h, q, kv: (q // 7 == kv // 7) & (q >= kv), None


@entry()
def dilated_window(device):
    return lambda b, h, q, kv: ((q - kv).abs() <= 12) & ((q - kv) % 3 == 0), None


@entry()
def streaming(device):
    return lambda b, h, q, kv: (q >= kv) & ((q - kv < 8) | (kv < 4)), None


@entry()
def global_tokens(device):
    return lambda b, h, q, kv: ((q - kv).abs() <= 4) | (q < 3) | (kv < 3), None


@entry()
def neighbourhood(device):
    def mask(b, h, q, kv):
        return ((q // WIDTH - kv // WIDTH).abs() <= 1) & ((q % WIDTH - kv % WIDTH).abs() <= 2)

    return mask, None


@entry()
def neighbourhood_clamped(device):
    """Windows that stay within the image, so that all have the same size."""
    rows = LENGTH // WIDTH

    def mask(b, h, q, kv):
        x = torch.clamp(q % WIDTH, 2, WIDTH - 3)
        y = (q // WIDTH).clamp(1, rows - 2)
        return ((x - kv % WIDTH).abs() <= 2) & ((y - kv // WIDTH).abs() <= 1)

    return mask, None


@entry()
def frames(device):
    return lambda b, h, q, kv: torch.logical_or(kv // WIDTH <= q // WIDTH, kv < 2), None


@entry()
def images_in_text(device):
    image = torch.zeros(BATCH, LENGTH, dtype=torch.int32, device=device)
    image[0, 5:15], image[1, 20:40] = 1, 2
    return lambda b, h, q, kv: (q >= kv) | ((image[b, q] == image[b, kv]) & (image[b, q] > 0)), None


@entry()
def window_of_each_head(device):
    windows = torch.tensor([2, 5, 11, 48], device=device)
    return lambda b, h, q, kv: (q >= kv) & (q - kv < windows[h]), None


@entry()
def alternating_heads(device):
    return lambda b, h, q, kv: (q >= kv) & ((h % 2 == 1) | (q - kv < 6)), None


@entry()
def any_tensor(device):
    seen = torch.rand(BATCH, LENGTH, LENGTH, generator=torch.Generator().manual_seed(5)).to(device) < 0.4
    return lambda b, h, q, kv: seen[b, q, kv], None


@entry()
def blocks_of_a_table(device):
    table = (torch.rand(HEADS, 6, 6, generator=torch.Generator().manual_seed(6)) < 0.5).to(device)
    return lambda b, h, q, kv: table[h][q // 8][kv // 8], None


@entry(lengths=(5, 48))
def decoding(device):
    """A few queries at the end of a cache, at positions given by a tensor."""
    offset = torch.tensor(43, device=device)
    return lambda b, h, q, kv: q + offset >= kv, None


@entry(lengths=(20, 48))
def cross_attention(device):
    media = torch.arange(20, device=device) // 5
    return lambda b, h, q, kv: kv // 12 <= media[q], None


# --- scores ---------------------------------------------------------------------------------------------------------


def _slopes(device):
    return torch.exp2(-(torch.arange(1, HEADS + 1, device=device) * 8.0 / HEADS))


@entry()
def alibi(device):
    slopes = _slopes(device)
    return None, lambda s, b, h, q, kv: s + slopes[h] * (kv - q)


@entry()
def alibi_computed(device):
    return causal(device)[0], lambda s, b, h, q, kv: s + torch.exp2(-((h + 1) * 8.0 / HEADS)) * (kv - q)


@entry()
def softcap(device):
    return None, lambda s, b, h, q, kv: 3 * torch.tanh(s / 3)


@entry()
def softcap_of_a_window(device):
    return sliding_window(device)[0], lambda s, b, h, q, kv: (s / 2.0).tanh() * 2.0


@entry()
def relative_positions(device):
    return None, lambda s, b, h, q, kv: s + (q - kv)


@entry()
def relative_table(device):
    table = torch.randn(HEADS, 2 * LENGTH - 1, generator=torch.Generator().manual_seed(7)).to(device)
    return None, lambda s, b, h, q, kv: s + table[h, kv - q + LENGTH - 1]


@entry()
def additive_bias(device):
    bias = torch.randn(BATCH, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(8)).to(device)
    return None, lambda s, b, h, q, kv: s + bias[b, h, q, kv]


@entry()
def buckets(device):
    """Distances in buckets that grow with the distance, as in T5."""
    table = torch.randn(8, HEADS, generator=torch.Generator().manual_seed(9)).to(device)

    def score(s, b, h, q, kv):
        distance = torch.clamp(q - kv, min=0)
        # Adding 0.5 keeps the logarithms away from integers, where fp32 could round to either side.
        far = 4 + (torch.log((distance.float() + 0.5) / 4) / math.log(6) * 4).to(torch.int64)
        return s + table[torch.where(distance < 4, distance, torch.minimum(far, torch.full_like(far, 7))), h]

    return causal(device)[0], score


@entry()
def decay(device):
    rate = torch.tensor([0.1, 0.2, 0.4, 0.8], device=device)
    return causal(device)[0], lambda s, b, h, q, kv: s - rate[h] * (q - kv).abs()


@entry()
def forget_gates(device):
    sums = torch.randn(BATCH, HEADS, LENGTH, generator=torch.Generator().manual_seed(10)).abs().neg().cumsum(-1).to(device)
    return causal(device)[0], lambda s, b, h, q, kv: s + sums[b, h, q] - sums[b, h, kv]


@entry()
def gate_of_each_head(device):
    gates = torch.tensor([-1.0, 0.0, 1.0, 2.0], device=device)
    return None, lambda s, b, h, q, kv: s * torch.sigmoid(gates[h])


@entry()
def temperature(device):
    return causal(device)[0], lambda s, b, h, q, kv: s * torch.log(q.float() + 2)


@entry()
def mask_within_a_score(device):
    return None, lambda s, b, h, q, kv: torch.where(q >= kv, s, -float("inf"))


@entry()
def softcap_then_alibi(device):
    slopes = _slopes(device)

    def score(s, b, h, q, kv):
        capped = 5 * torch.tanh(s / 5)
        return torch.where(kv <= q, capped + slopes[h] * (kv - q), float("-inf"))

    return None, score


@entry()
def scalar_of_a_tensor(device):
    factor = torch.tensor(0.75, device=device)
    return None, lambda s, b, h, q, kv: s * factor
