"""Slots without gaps, whatever comes and goes: checked against a plain dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from streakline.rollout.engine import GenerationRequest
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


@given(st.data())
def test_rows_and_trunks_move_with_their_contents(data):
    table = RowTable()
    row_store: dict[int, int] = {}  # slot -> row index, as a cache would hold it
    trunk_store: dict[int, tuple[int, ...]] = {}
    next_index = 0
    for _ in range(data.draw(st.integers(1, 6))):
        prompts = data.draw(st.lists(st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3), (4, 5, 6)]), max_size=5))
        new = table.admit([(next_index + k, request(prompt)) for k, prompt in enumerate(prompts)], greedy=True)
        for slot in range(len(table.rows) - len(prompts), len(table.rows)):
            row_store[slot] = table.rows[slot].index
        next_index += len(prompts)
        trunk_store.update({slot: table.trunks[slot].token_ids for slot in new})
        leaving = data.draw(st.lists(st.sampled_from(range(len(table.rows))), unique=True)) if table.rows else []
        for source, target in zip(*table.remove_rows(leaving), strict=True):
            row_store[target] = row_store[source]
        for source, target in zip(*table.remove_idle_trunks(), strict=True):
            trunk_store[target] = trunk_store[source]
        assert [row_store[slot] for slot in range(len(table.rows))] == [row.index for row in table.rows]
        assert [trunk_store[slot] for slot in range(len(table.trunks))] == [trunk.token_ids for trunk in table.trunks]
        assert len({trunk.token_ids for trunk in table.trunks}) == len(table.trunks)
        for row in table.rows:
            head = row.request.prompt_ids[:-1]
            assert row.cached == list(head)
            assert row.trunk == -1 if not head else table.trunks[row.trunk].token_ids == head
        for slot, trunk in enumerate(table.trunks):
            assert trunk.num_rows == sum(row.trunk == slot for row in table.rows) > 0
