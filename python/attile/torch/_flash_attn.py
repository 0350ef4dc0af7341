"""flash-attn's functions on Attile's kernels, with the arguments and results of flash-attn 2.

An argument for which Attile has no kernel is refused by name.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import errors
from .._new_tokens import NewTokens
from .._sequences import PAGE_MOST, Sequences
from ._append import append_kv
from ._attention import attention
from ._operator import wants_gradients

_Window = tuple[int, int]
EVERYTHING: _Window = (-1, -1)

# One launch appends and attends if at most FEW_ROWS rows of Q share a K/V head (gen/tuned/tuned.h). It is faster than
# two launches unless many sequences have pages (docs/serving.md).
FEW_ROWS, FEW_SEQUENCES = 32, 8


def flash_attn_func(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None,
    causal: bool = False, window_size: _Window = EVERYTHING, softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None, deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    """Like flash-attn's: q (batch, seqlen_q, nheads, headdim), k and v (batch, seqlen_k, nheads_k, headdim); the last
    query is aligned with the last key. Returns o, or with return_attn_probs (o, lse, None). Gradients are deterministic
    after torch.use_deterministic_algorithms(True).
    dropout_p: in [0, 1), with PyTorch's random numbers.
    Raises Unsupported for a gradient with deterministic=True unless torch.use_deterministic_algorithms(True) is set.
    """
    _refuse_own_determinism(deterministic, q, k, v)
    rule = _rule(causal, window_size, softcap, alibi_slopes)
    found = attention(q, k, v, scale=softmax_scale, return_lse=return_attn_probs, dropout_p=dropout_p, **rule)
    return (*found, None) if return_attn_probs else found


def flash_attn_varlen_func(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: float | None = None,
    causal: bool = False, window_size: _Window = EVERYTHING, softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None, deterministic: bool = False, return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> Any:  # fmt: skip
    """Like flash-attn's: q (total_q, nheads, headdim), k and v (total_k, nheads_k, headdim), cu_seqlens (batch + 1,) of
    int32. With block_table, (batch, blocks) of int32, k and v are (num_blocks, block size, nheads_k, headdim); the
    block size is a power of two up to 1024. Returns o, (total_q, nheads, headdim), or with return_attn_probs (o, lse,
    None), lse (nheads, total_q).
    Gradients are like those of flash_attn_func; their rows that belong to no sequence are 0. Raises Unsupported for a
    gradient as flash_attn_func does, and NoBackward if a gradient is wanted with block_table.
    dropout_p: in [0, 1), with PyTorch's random numbers.
    """
    _refuse_own_determinism(deterministic, q, k, v)
    rule = _rule(causal, window_size, softcap, alibi_slopes)
    sequences = Sequences(
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_k, max_len_q=max_seqlen_q, max_len_kv=max_seqlen_k
    )
    if block_table is not None:
        lengths = cu_seqlens_k.diff()
        sequences = sequences._replace(cu_seqlens_kv=None, lengths_kv=lengths, page_table=block_table)
    found = attention(
        q, k, v, scale=softmax_scale, sequences=sequences, return_lse=return_attn_probs, dropout_p=dropout_p, **rule
    )
    return (*found, None) if return_attn_probs else found


def flash_attn_with_kvcache(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor | None = None,
    v: torch.Tensor | None = None, rotary_cos: torch.Tensor | None = None, rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None, cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None, block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None, causal: bool = False, window_size: _Window = EVERYTHING, softcap: float = 0.0,
    rotary_interleaved: bool = True, alibi_slopes: torch.Tensor | None = None, num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:  # fmt: skip
    """Like flash-attn's: q (batch, seqlen_q, nheads, headdim); k_cache and v_cache (batch, seqlen_cache, nheads_k,
    headdim), or with block_table, (batch, blocks) of int32, (num_blocks, block size, nheads_k, headdim); the block size
    is a power of two up to 1024. k and v, (batch, seqlen_new, nheads_k, headdim), are first written after the
    cache_seqlens tokens of each sequence, in place. rotary_cos and rotary_sin, (positions, rotary_dim / 2), rotate k
    and q; fp32 tables need no conversion. cache_batch_idx, (batch,): the sequence of the cache that belongs to each
    sequence of q.
    Returns o, or with return_softmax_lse (o, lse), lse (batch, nheads, seqlen_q).
    cache_seqlens is read on the device, so a captured CUDA graph stays valid while it changes. Raises Unsupported for
    cache_leftpad, and for rotations in which flash-attn gives several queries the same position.
    """
    _refuse(cache_leftpad=cache_leftpad)
    if (k is None) != (v is None):
        raise errors.InvalidArgument("k and v belong together, and one of them is missing")
    if rotary_cos is not None and k is None:
        raise errors.InvalidArgument("rotary_cos is given without k, and only what is appended is rotated")
    if num_splits < 0:
        raise errors.InvalidArgument(f"num_splits is {num_splits}, expected at least 0; 0 = as the library chooses")
    rule = _rule(causal, window_size, softcap, alibi_slopes)
    if cache_batch_idx is not None:
        if block_table is not None:
            raise errors.InvalidArgument("cache_batch_idx and block_table are given, and each says where a sequence is")
        if cache_seqlens is None and k is None:
            cache_seqlens = k_cache.shape[1]
        block_table = _table_of(cache_batch_idx, k_cache.shape[1])
        k_cache, v_cache = (_in_pages(one, block_table) for one in (k_cache, v_cache))
    lengths = _lengths(q, cache_seqlens, block_table, 0 if k is None else k.shape[1])
    sequences = None if lengths is None else Sequences(lengths_kv=lengths, page_table=block_table)
    new = None
    if k is not None and v is not None:
        assert sequences is not None  # or _lengths has refused
        rope = _rope(q, k, rotary_cos, rotary_sin, rotary_interleaved, causal, window_size)
        if _takes_one_launch(q, k, k_cache, block_table, rope):
            new = NewTokens(k, v, **rope)
        else:
            turned = append_kv(k, v, k_cache, v_cache, sequences=sequences, q=q if rope else None, **rope)
            q = q if turned is None else turned
    return attention(
        q, k_cache, v_cache, scale=softmax_scale, sequences=sequences, return_lse=return_softmax_lse,
        schedule=f"splits={num_splits}" if num_splits else None, new=new, **rule,
    )  # fmt: skip


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None and not (isinstance(value, float | int) and value == 0):
            what = f"{name} is {value}" if isinstance(value, float | int) else f"{name} is given"
            raise errors.Unsupported(f"{what}, and no kernel can do that; leave it out")


def _refuse_own_determinism(deterministic: bool, *tensors: torch.Tensor) -> None:
    if deterministic and wants_gradients(*tensors) and not torch.are_deterministic_algorithms_enabled():
        raise errors.Unsupported(
            "deterministic is True, and a gradient is asked for; call torch.use_deterministic_algorithms(True), which "
            "gradients follow"
        )


def _rule(causal: bool, window_size: _Window, softcap: float, alibi_slopes: torch.Tensor | None) -> dict[str, Any]:
    """Returns the arguments mask, score and params of attention."""
    left, right = window_size
    parts: list[str] = []
    params: dict[str, Any] = {}
    if causal or right >= 0:
        parts.append("k <= q" if causal or right == 0 else "k - q <= right")
    if left >= 0:
        parts.append("q - k <= left")
        params["left"] = left
    if right > 0 and not causal:
        params["right"] = right
    score = []
    if softcap:
        score.append("softcap(cap)")
        params["cap: float"] = float(softcap)
    if alibi_slopes is not None:
        dims = {1: "heads", 2: "batch, heads"}.get(alibi_slopes.dim())
        if dims is None:
            raise errors.ShapeError(
                f"alibi_slopes has shape {tuple(alibi_slopes.shape)}, expected (nheads,) or (batch, nheads)"
            )
        score.append(f"s - slopes[{'h' if dims == 'heads' else 'b, h'}] * abs(q - k)")
        params[f"slopes: float[{dims}]"] = alibi_slopes
    mask = "causal" if parts == ["k <= q"] else " and ".join(parts)
    return {"mask": mask or None, "score": " then ".join(score) or None, "params": params}


def _lengths(
    q: torch.Tensor, cache_seqlens: int | torch.Tensor | None, block_table: torch.Tensor | None, new: int
) -> torch.Tensor | None:
    """The number of keys of each sequence, including those of k. None: as many as the cache has."""
    if isinstance(cache_seqlens, torch.Tensor):
        return cache_seqlens + new if new else cache_seqlens
    if cache_seqlens is not None:
        return torch.full((q.shape[0],), cache_seqlens + new, dtype=torch.int32, device=q.device)
    if new or block_table is not None:
        raise errors.InvalidArgument(
            "cache_seqlens is missing; it says where k goes, and which keys of its blocks a sequence has"
        )
    return None


def _table_of(cache_batch_idx: torch.Tensor, length: int) -> torch.Tensor:
    """A page table of these sequences of a cache with `length` keys each; pages are the largest that divide it."""
    pages = length // math.gcd(length, PAGE_MOST)
    return cache_batch_idx.to(torch.int32)[:, None] * pages + torch.arange(
        pages, dtype=torch.int32, device=cache_batch_idx.device
    )


def _in_pages(cache: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Views (batch, length, heads, dim) as (pages, page size, heads, dim)."""
    batch, length, *rest = cache.shape
    if cache.stride(0) != length * cache.stride(1):
        raise errors.LayoutError(
            f"k_cache or v_cache has strides {tuple(cache.stride())}, expected its sequences one behind another with "
            "cache_batch_idx"
        )
    pages = table.shape[1]
    return cache.view(batch * pages, length // pages, *rest)


def _rope(
    q: torch.Tensor, k: torch.Tensor, rotary_cos: torch.Tensor | None, rotary_sin: torch.Tensor | None, interleaved: bool,
    causal: bool, window_size: _Window,
) -> dict[str, Any]:  # fmt: skip
    """Returns the rotation of k and q as arguments of append_kv and NewTokens; empty without tables."""
    if rotary_cos is None or rotary_sin is None:
        if rotary_cos is not rotary_sin:
            raise errors.InvalidArgument("rotary_cos and rotary_sin belong together, and one of them is missing")
        return {}
    if q.shape[1] != k.shape[1]:
        raise errors.Unsupported(
            f"rotary_cos is given with {q.shape[1]} queries and {k.shape[1]} new keys; one launch rotates as many of each"
        )
    if q.shape[1] > 1 and not causal and window_size == EVERYTHING:
        raise errors.Unsupported(
            "rotary_cos is given with several queries and neither causal nor window_size: flash-attn then rotates all of "
            "them to the position of the first; rotate q yourself"
        )
    return {
        "rope": "interleaved" if interleaved else "halves", "rope_dim": 2 * rotary_cos.shape[-1],
        "rope_cos": rotary_cos.float(), "rope_sin": rotary_sin.float(),
    }  # fmt: skip


def _takes_one_launch(
    q: torch.Tensor, k: torch.Tensor, k_cache: torch.Tensor, block_table: torch.Tensor | None, rope: dict[str, Any]
) -> bool:
    """True if one kernel can write k and v and attend to them, and if that is faster than two launches."""
    few_rows = q.shape[1] * (q.shape[2] // k.shape[2]) <= FEW_ROWS
    few_sequences = block_table is None or q.shape[0] < FEW_SEQUENCES
    known = q.dtype in (torch.float16, torch.bfloat16) and q.dtype == k.dtype == k_cache.dtype
    fits = q.shape[3] % 8 == 0 and q.shape[3] <= 256 and rope.get("rope_dim", 0) % 16 == 0
    able = q.device.type == "cpu" or torch.cuda.get_device_capability(q.device) >= (8, 0)
    one_each = q.shape[1] == k.shape[1]
    return few_rows and few_sequences and known and fits and able and one_each and not wants_gradients(q, k, k_cache)
