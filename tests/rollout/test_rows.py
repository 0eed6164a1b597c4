"""Slots without gaps, whatever comes and goes, and a cache that moves along."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from streakline.rollout.engine import GenerationRequest
from streakline.rollout.kv_store import KVSlab
from streakline.rollout.rows import RowTable, common_prefix_length

TOKENS = st.lists(st.integers(0, 3), max_size=8)


@given(TOKENS, TOKENS, st.integers(0, 8))
def test_common_prefix(first, second, limit):
    limit = min(limit, len(first), len(second))
    expected = 0
    while expected < limit and first[expected] == second[expected]:
        expected += 1
    assert common_prefix_length(first, second, limit=limit) == expected


def request(prompt: tuple[int, ...]) -> GenerationRequest:
    return GenerationRequest(prompt_ids=prompt, seed=0, max_new_tokens=1)


def stored(slab: KVSlab, num_slots: int) -> list[float]:
    """What a layer holds at the first position of each slot."""
    return slab.leading(num_slots, 1)[0][:, 0, 0, 0].tolist()


def write(slab: KVSlab, slots, marks) -> None:
    kv = torch.tensor(marks, dtype=torch.float32)[:, None, None]
    first = torch.zeros(len(marks), dtype=torch.int64)
    size = (max(slots, default=-1) + 1, 1)
    slab.write(kv, kv, slots=torch.tensor(slots, dtype=torch.int64), positions=first, size=size)


@given(st.data())
def test_rows_and_trunks_move_with_what_is_cached_of_them(data):
    table = RowTable()
    layer = table.layers[0]
    next_index = 0
    for _ in range(data.draw(st.integers(1, 6))):
        prompts = data.draw(st.lists(st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3), (4, 5, 6)]), max_size=5))
        new = table.admit([(next_index + k, request(prompt)) for k, prompt in enumerate(prompts)], greedy=True)
        entered = range(len(table.rows) - len(prompts), len(table.rows))
        next_index += len(prompts)
        write(layer.trunks, list(new), [hash(table.trunks[slot]) % 1000 for slot in new])
        write(layer.tails, list(entered), [table.rows[slot].index for slot in entered])
        for slot in entered:
            table.rows[slot].cached.append(9)
        leaving = data.draw(st.lists(st.sampled_from(range(len(table.rows))), unique=True)) if table.rows else []
        table.remove(leaving)
        assert stored(layer.tails, len(table.rows)) == [row.index for row in table.rows]
        assert stored(layer.trunks, len(table.trunks)) == [hash(trunk) % 1000 for trunk in table.trunks]
        assert len(set(table.trunks)) == len(table.trunks)
        assert {row.trunk for row in table.rows} - {-1} == set(range(len(table.trunks)))
        for row in table.rows:
            head = row.request.prompt_ids[:-1]
            assert row.cached == [*head, 9]
            assert row.trunk == -1 if not head else table.trunks[row.trunk] == head
