import numpy as np
import pytest
import torch
from hypothesis import given, settings
from tests.fixtures.token_rows import token_rows
from torch.nn.attention.flex_attention import create_mask

from streakline.algorithms.prefix_tree import TreeCost, build_tree, pack_by_prefix
from streakline.errors import ConfigError


def _prefixes(rows):
    return {tuple(row[: end + 1]) for row in rows for end in range(len(row))}


def _ancestors(tree, rows):
    """[N, N] bool, from the rows alone."""
    sees = torch.zeros(tree.num_tokens, tree.num_tokens, dtype=torch.bool)
    for row, nodes in zip(rows, tree.nodes.tolist(), strict=True):
        for place in range(len(row)):
            sees[nodes[place], nodes[: place + 1]] = True
    return sees


@settings(max_examples=40, deadline=None)
@given(token_rows())
def test_every_distinct_prefix_is_packed_once_and_every_row_is_found_again(rows):
    tree = build_tree(rows)

    assert tree.num_tokens == len(_prefixes(rows))
    for row, nodes in zip(rows, tree.nodes, strict=True):
        path = nodes[: len(row)]
        assert tree.token_ids[path].tolist() == row
        assert tree.depths[path].tolist() == list(range(len(row)))
        assert tree.parents[path].tolist() == [-1, *path[:-1].tolist()]


@settings(max_examples=40, deadline=None)
@given(token_rows())
def test_the_parts_cover_what_a_token_sees_exactly_once(rows):
    tree = build_tree(rows)
    seen = np.zeros((tree.num_tokens, tree.num_tokens), dtype=int)
    for block in tree.blocks:
        for index, kept in zip(block.index.tolist(), block.kept.tolist(), strict=True):
            for place, node in enumerate(index):
                if kept[place]:
                    seen[node, index[: place + 1]] += 1
    for bridge in tree.bridges:
        seen[bridge.start : bridge.end, bridge.keys] += 1

    np.testing.assert_array_equal(seen, _ancestors(tree, rows).int())


@settings(max_examples=20, deadline=None)
@given(token_rows())
def test_the_mask_for_flex_attention_lets_a_token_see_its_ancestors(rows):
    tree = build_tree(rows)
    mask = tree.block_mask()

    size = tree.num_tokens
    exact = create_mask(mask.mask_mod, 1, 1, size, size, device="cpu")[0, 0]
    assert torch.equal(exact, _ancestors(tree, rows))
    # The blocks are what a kernel skips or computes: none that holds a pair may be missing.
    blocks = mask.to_dense()[0, 0].repeat_interleave(128, 0).repeat_interleave(128, 1)[:size, :size].bool()
    assert bool((blocks | ~exact).all())
    assert tree.block_mask() is mask


def test_a_group_becomes_a_bridge_over_its_prompt_and_one_block_of_completions():
    prompt = list(range(1, 301))
    tree = build_tree([[*prompt, 400 + member, *range(20)] for member in range(8)])

    assert tree.num_tokens == 300 + 8 * 21
    assert [(len(bridge.keys), bridge.start, bridge.end) for bridge in tree.bridges] == [(300, 300, 300 + 8 * 21)]
    assert sorted(tuple(block.index.shape) for block in tree.blocks) == [(1, 300), (8, 21)]


def test_a_short_common_beginning_gets_no_bridge_of_its_own():
    rows = [[1, 2, 3, *([10 + group] * 300), *([20 + member] * 30)] for group in range(6) for member in range(4)]
    tree = build_tree(rows)

    assert len(tree.bridges) == 6
    assert {len(bridge.keys) for bridge in tree.bridges} == {303}
    assert tree.num_tokens == len(_prefixes(rows))


def test_moving_a_tree_keeps_its_parts():
    tree = build_tree([[1] * 200 + [member] * 9 for member in range(4)])

    moved = tree.to(torch.device("cpu"))

    assert torch.equal(moved.nodes, tree.nodes)
    assert (len(moved.blocks), len(moved.bridges)) == (len(tree.blocks), len(tree.bridges))


@settings(max_examples=40, deadline=None)
@given(token_rows())
def test_packs_hold_every_row_once_within_the_budget(rows):
    packs = pack_by_prefix(rows, max_tokens=250)

    assert sorted(row for pack in packs for row in pack) == list(range(len(rows)))
    for pack in packs:
        assert len(pack) == 1 or len(_prefixes([rows[row] for row in pack])) <= 250


def test_packs_are_cut_between_groups():
    rows = [[group] * 50 + [100 + member] for group in range(4) for member in range(3)]

    packs = pack_by_prefix(rows, max_tokens=120)  # a group has 53 distinct tokens, so two and a part of a third fit

    assert [len(pack) for pack in packs] == [6, 6]


def test_a_budget_without_a_token_is_refused():
    with pytest.raises(ConfigError, match="Expected `max_tokens` of a tree to be at least 1, but got 0"):
        pack_by_prefix([[1]], max_tokens=0)


def test_sharing_is_predicted_to_pay_and_its_absence_not():
    cost = TreeCost(token=1e6, pair=1e3, layers=2)
    apart = [[100 * row + step for step in range(90)] for row in range(8)]
    together = [[*range(80), *row[80:]] for row in apart]

    assert cost.of_tree(build_tree(apart)) > cost.of_rows(8, 90)
    assert cost.of_tree(build_tree(together)) < 0.5 * cost.of_rows(8, 90)
