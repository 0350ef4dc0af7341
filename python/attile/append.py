"""`append_kv`: writes new keys and values into a cache, rotated by their positions and converted to its type."""

from __future__ import annotations

from typing import Any

from ._append import Asked, prepare
from ._memory import current_stream
from ._sequences import ARRAYS, Sequences
from ._tensor import View, empty_like, is_torch, view


def append_kv(
    k: Any, v: Any, k_cache: Any, v_cache: Any, *, sequences: Sequences | None = None, slots: Any = None,
    positions: Any = None, q: Any = None, rope: str | None = None, rope_dim: int | None = None,
    rope_base: float | None = None, rope_cos: Any = None, rope_sin: Any = None, dtype_kv: str | None = None,
    k_scale: Any = None, v_scale: Any = None, layout: str = "bshd", stream: int | None = None,
) -> Any:  # fmt: skip
    """Writes K and V of new tokens into a cache, in place; rotates q and k on the way (RoPE, arXiv 2104.09864).

    k: (batch, len_q, kv_heads, head_dim), v: the same with head_dim_v; with cu_seqlens_q both are packed, (tokens,
    kv_heads, dim).
    k_cache, v_cache: (batch, len_kv, kv_heads, dim), or pages, (pages, page_size, kv_heads, dim); with layout "bhsd"
    the head dimension comes before the rows. They have k's type, or 8 bits: int8, float8, or uint8, for which dtype_kv
    says "e4m3" or "e5m2".
    sequences: attile.Sequences with lengths_kv, which include the new tokens: token i of n new tokens of a sequence
    goes to position length - n + i. None: every sequence fills the cache, and the new tokens are the last ones.
    slots: instead of sequences, int64 numbers page * page_size + row, one for each token; -1 = nowhere. With rope,
    positions has the position of each token, int32. A token that has no place in the cache is not written.
    rope: "interleaved" rotates elements (2 i, 2 i + 1), "halves" rotates (i, i + rope_dim / 2), of the first rope_dim
    elements (None = all), by position * rope_base^(-2 i / rope_dim) (None = 10000), or by rope_cos and rope_sin,
    float32 of shape (positions, rope_dim / 2).
    q: (batch, len_q, heads, head_dim), or packed; rotated like k into a new tensor, which is returned. Without q,
    returns None.
    k_scale, v_scale: float32, for a cache of 8 bits; an element times its scale is the number that was appended. One
    number or (kv_heads,) are inputs; (blocks of the cache, kv_heads, rows of a block) are outputs, one scale for each
    row.
    Asynchronous on a GPU. Raises exceptions of attile.errors before anything is written.
    """
    if is_torch(k):
        from .torch import append_kv as torch_append_kv

        return torch_append_kv(
            k, v, k_cache, v_cache, sequences=sequences, slots=slots, positions=positions, q=q, rope=rope,
            rope_dim=rope_dim, rope_base=rope_base, rope_cos=rope_cos, rope_sin=rope_sin, dtype_kv=dtype_kv,
            k_scale=k_scale, v_scale=v_scale, layout=layout, stream=stream,
        )  # fmt: skip

    def see(tensor: Any) -> View:
        return view(tensor, stream or 0)

    q_out = None if q is None else empty_like(q, tuple(q.shape), see(q).dtype)
    given = {
        "k": k, "v": v, "k_cache": k_cache, "v_cache": v_cache, "q": q, "q_out": q_out, "slots": slots,
        "positions": positions, "rope_cos": rope_cos, "rope_sin": rope_sin, "k_scale": k_scale, "v_scale": v_scale,
    }  # fmt: skip
    seen = {name: see(one) for name, one in given.items() if one is not None}
    append = prepare(seen, sequences, see, Asked(rope, rope_dim, rope_base, dtype_kv, layout))
    for name in ARRAYS if sequences is not None else ():
        if getattr(sequences, name) is not None:
            seen[name] = see(getattr(sequences, name))
    append.launch({name: one.data for name, one in seen.items()}, current_stream(k) if stream is None else stream)
    return q_out
