"""A fine-tuning step over attention with a mask of its own: documents packed in one sequence, each with a shared header.

There are no backward kernels, so the attention belongs to the frozen part: its layers run under torch.no_grad(), and what is
trained stands behind them. Runs on a GPU if there is one, else on this CPU.

    python examples/frozen_attention.py
"""

import attile.torch
import torch

BATCH, LENGTH, HEADS, DIM, CLASSES = 2, 96, 4, 24, 5  # 24: a head dimension that few kernels are made for
HEADER = 8  # the first tokens of the sequence, which every document sees


class FrozenLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(HEADS * DIM, 3 * HEADS * DIM)
        self.out = torch.nn.Linear(HEADS * DIM, HEADS * DIM)

    @torch.no_grad()
    def forward(self, x, documents):
        q, k, v = self.qkv(x).view(BATCH, LENGTH, 3, HEADS, DIM).unbind(2)
        o = attile.attention(
            q, k, v, mask="k <= q and (k < header or doc[b, q] == doc[b, k])", score="softcap(20)",
            params={"header": HEADER, "doc: int[batch, len_kv]": documents},
        )  # fmt: skip
        return x + self.out(o.flatten(2))


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = torch.nn.ModuleList([FrozenLayer() for _ in range(3)]).to(device)
    head = torch.nn.Linear(HEADS * DIM, CLASSES).to(device)
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.05)
    x = torch.randn(BATCH, LENGTH, HEADS * DIM, device=device)
    documents = (torch.arange(LENGTH, device=device) // 20).repeat(BATCH, 1)
    labels = documents % CLASSES
    for layer in layers:
        x = layer(x, documents)
    losses = []
    for step in range(30):
        loss = torch.nn.functional.cross_entropy(head(x).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0:
            print(f"step {step:2}: loss {loss.item():.3f}")
    print(f"the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}")
    assert losses[-1] < losses[0] / 2


main()
