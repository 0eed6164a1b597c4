"""The merged attention of a step against one softmax over everything a token may see, computed key by key."""

import numpy as np
import pytest
import torch

from streakline.rollout.batch import plan_prompts, plan_step
from streakline.rollout.cached_attention import PrefixMap
from streakline.rollout.engine import GenerationRequest
from streakline.rollout.kv_store import LayerStore
from streakline.rollout.rows import RowTable

HEADS, KV_HEADS, WIDTH = 4, 2, 8
CPU = torch.device("cpu")


def vector(kind: int, token: int, position: int, heads: int) -> np.ndarray:
    """What a layer would make of a token: any function of token and position."""
    return np.random.default_rng([kind, token, position]).normal(size=(heads, WIDTH)) * 1.5


def reference(sequence: list[int], position: int, window: int | None) -> np.ndarray:
    query = vector(0, sequence[position], position, HEADS)
    first = 0 if window is None else max(0, position - window + 1)
    output = np.zeros((HEADS, WIDTH))
    for head in range(HEADS):
        kv_head = head // (HEADS // KV_HEADS)
        seen = range(first, position + 1)
        scores = np.array([query[head] @ vector(1, sequence[at], at, KV_HEADS)[kv_head] for at in seen])
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        output[head] = sum(
            w * vector(2, sequence[at], at, KV_HEADS)[kv_head] for w, at in zip(weights, seen, strict=True)
        )
    return output


def run(step, layer: LayerStore, window: int | None) -> torch.Tensor:
    parts = (
        np.stack([vector(kind, *at, heads) for at in zip(step.token_ids, step.positions, strict=True)])
        for kind, heads in ((0, HEADS), (1, KV_HEADS), (2, KV_HEADS))
    )
    query, key, value = (torch.tensor(part, dtype=torch.float32) for part in parts)
    blocks = zip(step.blocks, *(x.split(step.sizes) for x in (query, key, value)), strict=True)
    return torch.cat([block.attend(q, k, v, layer, window=window) for block, q, k, v in blocks])


@pytest.mark.parametrize("window", [None, 1, 4, 50])
def test_every_token_attends_to_exactly_what_it_may_see(window):
    table = RowTable()
    layer = table.layers[0]
    prompts = [(5, 6, 7, 8), (5, 6, 7, 8), (9, 1), (3,), (5, 6, 7, 8), (2, 4, 6, 8, 1, 3)]
    requests = [GenerationRequest(prompt_ids=prompt, seed=0, max_new_tokens=9) for prompt in prompts]
    new = table.admit(list(enumerate(requests)), greedy=True)
    first = plan_prompts(table, new, device=CPU)
    expected = [reference(list(trunk), position, window) for trunk in table.trunks for position in range(len(trunk))]
    np.testing.assert_allclose(run(first, layer, window).numpy(), expected, atol=1e-5)

    # Row 1 forgets half of its shared prompt, rows 1 and 3 are fed several tokens, one at a time follows for all.
    table.rows[1].start_turn(GenerationRequest(prompt_ids=(5, 6, 2, 2, 2), seed=0, max_new_tokens=9), greedy=True)
    for pending in ({1: None, 3: [3, 1, 4, 1]}, {}, {0: [7, 7]}, {}):
        for slot, row in enumerate(table.rows):
            row.pending = pending.get(slot) or row.pending or [slot]
        prefixes = PrefixMap([(row.trunk, row.prefix_length) for row in table.rows], CPU)
        step = plan_step(table, prefixes, max_chunk_tokens=99, device=CPU)
        fed = [table.rows[slot] for slot in step.drawn_slots]
        expected = [
            reference(row.cached + row.pending, len(row.cached) + offset, window)
            for row in fed
            for offset in range(len(row.pending))
        ]
        np.testing.assert_allclose(run(step, layer, window).numpy(), expected, atol=1e-5)
        for row in fed:
            row.feed()
