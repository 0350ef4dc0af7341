"""Fine-tuning through attention with a mask of its own: documents packed in one sequence, each with a shared header.

Gradients pass through the attention by its backward kernels. Runs on a GPU if there is one, else on this CPU.

    python examples/finetune.py
"""

import attile.torch
import torch

BATCH, LENGTH, HEADS, DIM, CLASSES = 2, 96, 4, 24, 5  # 24: a head dimension that few kernels are made for
HEADER = 8  # the first tokens of the sequence, which every document sees


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(HEADS * DIM, 3 * HEADS * DIM)
        self.out = torch.nn.Linear(HEADS * DIM, HEADS * DIM)

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
    layers = torch.nn.ModuleList([Layer() for _ in range(2)]).to(device)
    head = torch.nn.Linear(HEADS * DIM, CLASSES).to(device)
    optimizer = torch.optim.AdamW([*layers.parameters(), *head.parameters()], lr=0.01)
    x = torch.randn(BATCH, LENGTH, HEADS * DIM, device=device)
    documents = (torch.arange(LENGTH, device=device) // 20).repeat(BATCH, 1)
    labels = documents % CLASSES
    losses = []
    for step in range(12):
        found = x
        for layer in layers:
            found = layer(found, documents)
        loss = torch.nn.functional.cross_entropy(head(found).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 4 == 0:
            print(f"step {step:2}: loss {loss.item():.3f}")
    moved = layers[0].qkv.weight.grad.abs().max().item()
    print(f"the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}; gradients before the attention reach {moved:.1e}")
    assert losses[-1] < losses[0] / 2 and moved > 0


main()
