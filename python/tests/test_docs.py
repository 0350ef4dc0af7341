"""Checks the pages for users of other libraries: the expressions of docs/from-flash-attn.md are compared with their
definitions."""

import pathlib
import re

import attile
import numpy as np
import pytest
import reference
from test_attention import check, tensors

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "from-flash-attn.md"
LEFT, RIGHT = 7, 3
SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
DOCUMENTS = np.array([[0] * 10 + [1] * 23, [0] * 20 + [1] * 13], np.int32)

# {beginning of a row of the page: (names that its code uses, mask and score by flash-attn's definition)}
ROWS = {
    "`flash_attn_func(q, k, v, causal=True)`": ({}, lambda b, h, q, k: k <= q, None),
    "`window_size=(left, right)`": ({}, lambda b, h, q, k: (k >= q - LEFT) & (k <= q + RIGHT), None),
    "`window_size=(left, 0), causal=True`": ({}, lambda b, h, q, k: (k >= q - LEFT) & (k <= q), None),
    "`softcap=30.0`": ({}, None, lambda s, b, h, q, k: 30 * np.tanh(s / 30)),
    "`alibi_slopes=slopes`, (heads,)": (
        {"slopes": SLOPES},
        None,
        lambda s, b, h, q, k: s - SLOPES.astype(np.float64)[h] * abs(q - k),
    ),
    "`alibi_slopes=slopes`, (batch, heads)": (
        {"slopes": np.stack([SLOPES, 2 * SLOPES])},
        None,
        lambda s, b, h, q, k: s - np.stack([SLOPES, 2 * SLOPES]).astype(np.float64)[b, h] * abs(q - k),
    ),
    "the same as one sequence": (
        {"doc": DOCUMENTS},
        lambda b, h, q, k: DOCUMENTS[b, np.maximum(q, 0)] == DOCUMENTS[b, k],
        None,
    ),
}


@pytest.mark.skipif(not PAGE.exists(), reason="needs the repository")
@pytest.mark.parametrize("row", ROWS)
def test_rows_of_the_page(row):
    names, mask, score = ROWS[row]
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {row} |"))
    found = dict(re.findall(r'(mask|score)="([^"]*)"', line))
    params = re.search(r"params=(\{[^}]*\})", line)
    words = eval(params[1], {"left": LEFT, "right": RIGHT, **names}) if params else None
    q, k, v = tensors()
    check(attile.attention(q, k, v, layout="bhsd", params=words, return_lse=True, **found), q, k, v, mask=mask, score=score)


@pytest.mark.skipif(not PAGE.exists(), reason="needs the repository")
def test_code_of_the_page():
    """The code runs, and both blocks give the same result."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    lengths, table = torch.tensor([5, 0], dtype=torch.int32), torch.tensor([[1, 3], [0, 2]], dtype=torch.int32)
    sums, angle = torch.tensor([0, 5, 12], dtype=torch.int32), torch.arange(16)[:, None] * 10000.0 ** (-torch.arange(0, 16, 2) / 16)
    names = {
        "attile": attile, "q": torch.randn(2, 1, 4, 16), "k": torch.randn(2, 9, 2, 16), "v": torch.randn(2, 9, 2, 16),
        "packed_q": torch.randn(12, 4, 16), "packed_k": torch.randn(12, 2, 16), "packed_v": torch.randn(12, 2, 16),
        "cu_seqlens_q": sums, "cu_seqlens_k": sums, "max_seqlen_q": 7, "max_seqlen_k": 7,
        "k_pages": torch.zeros(4, 8, 2, 16), "v_pages": torch.zeros(4, 8, 2, 16), "k_new": torch.randn(2, 1, 2, 16),
        "v_new": torch.randn(2, 1, 2, 16), "rotary_cos": angle.cos(), "rotary_sin": angle.sin(), "lengths": lengths, "table": table,
    }  # fmt: skip
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 2
    before = [names[name].clone() for name in ("k_pages", "v_pages")]
    exec(blocks[0], names)
    by_flash_attn, names["k_pages"], names["v_pages"] = names["o"], *before
    exec(blocks[1], names)
    torch.testing.assert_close(names["o"], by_flash_attn, rtol=1e-5, atol=1e-5)


def test_the_reference_itself():
    """Two keys with weights 1 : e, computed by hand."""
    one = np.ones((1, 1, 1, 1))
    o, lse, _, _ = reference.attention(one, np.array([0.0, 1]).reshape(1, 1, 2, 1), np.array([0.0, 1]).reshape(1, 1, 2, 1))
    assert abs(o.item() - np.e / (1 + np.e)) < 1e-15 and abs(lse.item() - np.log(1 + np.e)) < 1e-15
