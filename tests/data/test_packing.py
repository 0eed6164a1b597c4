import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.token_rows import token_rows

from streakline.algorithms.prefix_tree import TreeCost
from streakline.data.packing import micro_batches, pack_rows, tree_of_batch
from streakline.data.rows import TrainingRow, collate_rows
from streakline.errors import ConfigError
from streakline.types import Sample

COST = TreeCost(token=1e6, pair=1e3, layers=2)


@settings(max_examples=30, deadline=None)
@given(token_rows(), st.sampled_from([100, 300, 5000]))
def test_every_row_is_in_one_batch_within_the_budget(rows, max_tokens):
    batches = micro_batches(rows, max_tokens=max_tokens, cost=COST)

    assert sorted(index for batch in batches for index in batch.indices) == list(range(len(rows)))
    for batch in batches:
        assert len(batch.indices) == 1 or batch.num_tokens <= max_tokens
        chosen = [rows[index] for index in batch.indices]
        if batch.tree is None:
            assert batch.num_tokens == batch.num_padded == len(chosen) * max(map(len, chosen))
        else:
            found = [batch.tree.token_ids[path].tolist() for path in batch.tree.nodes]
            assert all(ids[: len(row)] == row for row, ids in zip(chosen, found, strict=True))
            assert batch.num_tokens == batch.tree.num_tokens
            packs = pack_rows([len(row) for row in chosen], max_tokens=max_tokens)
            assert batch.num_padded == sum(len(pack) * max(len(chosen[row]) for row in pack) for pack in packs)


def test_rows_that_share_become_a_tree_and_others_stay_padded():
    group = [[1] * 60 + [member] * 9 for member in range(4)]
    apart = [[50 + 10 * row + step % 7 for step in range(69)] for row in range(4)]

    trees = {batch.indices: batch.tree is not None for batch in micro_batches(group + apart, max_tokens=120, cost=COST)}

    assert sum(trees.values()) == 1
    assert set(next(indices for indices, is_tree in trees.items() if is_tree)) == {0, 1, 2, 3}
    assert all(batch.tree is None for batch in micro_batches(group + apart, max_tokens=120, cost=None))


@pytest.mark.parametrize("cost", [COST, None])
def test_no_rows_make_no_batch_and_no_budget_is_refused(cost):
    assert micro_batches([], max_tokens=5, cost=cost) == ()
    with pytest.raises(ConfigError, match="`max_tokens`"):
        micro_batches([[1]], max_tokens=0, cost=cost)


def test_a_padded_batch_becomes_a_tree_of_its_tokens_alone():
    rows = [
        TrainingRow(
            sample=Sample(
                token_ids=(*range(1, 80), *[member] * member), loss_mask=(False,) * 78 + (True,) * (1 + member)
            )
        )
        for member in range(1, 5)
    ]
    batch = collate_rows(rows, pad_id=0)

    tree = tree_of_batch(batch, cost=COST)

    assert tree is not None
    assert 0 not in tree.token_ids
    restored = torch.where(batch.attention_mask, tree.token_ids[tree.nodes], 0)
    assert torch.equal(restored, batch.input_ids)
    assert tree_of_batch(batch, cost=None) is None
    assert tree_of_batch(collate_rows(rows[:1], pad_id=0), cost=COST) is None


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 120))
def test_packs_hold_every_row_once_within_the_budget(lengths, max_tokens):
    packs = pack_rows(lengths, max_tokens=max_tokens)

    assert sorted(index for pack in packs for index in pack) == list(range(len(lengths)))
    for pack in packs:
        assert len(pack) == 1 or len(pack) * max(lengths[index] for index in pack) <= max_tokens


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="`max_tokens`"):
        pack_rows([1], max_tokens=0)
