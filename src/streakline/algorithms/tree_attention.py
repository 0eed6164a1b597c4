"""Attention along a prefix tree, as dense parts that are merged by their log-sum-exp.

A token's softmax runs over several parts: its own stretch, and the shared stretches above it. Each part is one call of
torch's fused kernel. Given output and log-sum-exp over all parts, the kernel's backward pass of one part yields that
part's share of the exact gradient (FlashAttention-2, arXiv 2307.08691, algorithm 2, where a part is a block of keys),
so that no scores are stored.
"""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from streakline.algorithms.prefix_tree import PrefixTree

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default

_UNSEEN = 1e30  # Log-sum-exp of a query that doesn't count: each of its weights is exp(score - this) = 0.


def tree_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, tree: PrefixTree, scale: float
) -> torch.Tensor:
    """Softmax attention of every token over itself and its ancestors, on a CPU.

    Queries [N, heads, head_dim], keys and values [N, kv_heads, head_dim], of one type, give [N, heads, head_dim].
    """
    attended: torch.Tensor = _TreeAttention.apply(query, key, value, tree, scale)  # type: ignore[no-untyped-call]
    return attended


class _Context(FunctionCtx):
    tree: PrefixTree
    scale: float
    saved_tensors: tuple[torch.Tensor, ...]


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tree: PrefixTree, scale: float
    ) -> torch.Tensor:
        exact = torch.float64 if query.dtype == torch.float64 else torch.float32
        attended = query.new_empty(query.shape, dtype=exact)
        logsum = query.new_empty(query.shape[:2], dtype=exact)
        for block in tree.blocks:
            part, part_logsum = _forward(*(_rows(x, block.index) for x in (query, key, value)), 0.0, True, scale=scale)
            computed = block.index[block.kept]
            attended.index_copy_(0, computed, part.transpose(1, 2)[block.kept].to(exact))
            logsum.index_copy_(0, computed, part_logsum.transpose(1, 2)[block.kept].to(exact))
        for bridge in tree.bridges:
            below, above = slice(bridge.start, bridge.end), bridge.keys
            part, part_logsum = _forward(_one(query[below]), _one(key[above]), _one(value[above]), scale=scale)
            part, part_logsum = _packed(part).to(exact), part_logsum[0].transpose(0, 1).to(exact)
            attended[below].lerp_(part, torch.sigmoid(part_logsum - logsum[below]).unsqueeze(-1))
            logsum[below] = torch.logaddexp(logsum[below], part_logsum)
        attended = attended.to(query.dtype)
        ctx.save_for_backward(query, key, value, attended, logsum)
        ctx.tree, ctx.scale = tree, scale
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, attended, logsum = ctx.saved_tensors
        d_query, d_key, d_value = (torch.zeros_like(x, dtype=logsum.dtype) for x in (query, key, value))
        for block in ctx.tree.blocks:
            rows_logsum = logsum[block.index].masked_fill_(~block.kept.unsqueeze(-1), _UNSEEN)
            parts = _backward(
                *(_rows(x, block.index) for x in (gradient, query, key, value, attended)),
                rows_logsum.transpose(1, 2).contiguous(),
                0.0,
                True,
                scale=ctx.scale,
            )
            for total, part in zip((d_query, d_key, d_value), parts, strict=True):
                total.index_add_(0, block.index.flatten(), part.transpose(1, 2).flatten(0, 1).to(total.dtype))
        for bridge in ctx.tree.bridges:
            below, above = slice(bridge.start, bridge.end), bridge.keys
            of_query, of_key, of_value = _backward(
                _one(gradient[below]),
                _one(query[below]),
                _one(key[above]),
                _one(value[above]),
                _one(attended[below]),
                _one(logsum[below]).contiguous(),
                0.0,
                False,
                scale=ctx.scale,
            )
            d_query[below] += _packed(of_query)
            d_key.index_add_(0, above, _packed(of_key).to(d_key.dtype))
            d_value.index_add_(0, above, _packed(of_value).to(d_value.dtype))
        return d_query.to(query.dtype), d_key.to(key.dtype), d_value.to(value.dtype), None, None


def _rows(tokens: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[N, heads, d] and [U, L] -> [U, heads, L, d]."""
    return tokens.index_select(0, index.flatten()).view(*index.shape, *tokens.shape[1:]).transpose(1, 2)


def _one(tokens: torch.Tensor) -> torch.Tensor:
    """[n, heads, ...] -> [1, heads, n, ...], as the kernel wants it."""
    return tokens.transpose(0, 1)[None]


def _packed(rows: torch.Tensor) -> torch.Tensor:
    """Undo `_one`."""
    return rows[0].transpose(0, 1)
