from collections.abc import Mapping

import pytest

from streakline.rollout.draw import derive_seed

IDENTITY: Mapping[str, object] = {"run_seed": 0, "epoch": 1, "task_id": "toolworld/a", "group_member": 2, "turn": 3}


def test_seeds_are_stable_over_versions():
    assert derive_seed(**IDENTITY) == STORED


@pytest.mark.parametrize(
    "changed", [{"run_seed": 1}, {"epoch": 2}, {"task_id": "toolworld/b"}, {"group_member": 3}, {"turn": 4}]
)
def test_every_part_of_the_identity_counts(changed):
    assert derive_seed(**(IDENTITY | changed)) != derive_seed(**IDENTITY)


def test_neighbouring_fields_do_not_run_together():
    assert derive_seed(**(IDENTITY | {"epoch": 11, "run_seed": 1})) != derive_seed(
        **(IDENTITY | {"epoch": 1, "run_seed": 11})
    )


def test_seeds_fit_63_bits_and_do_not_collide():
    seeds = [derive_seed(**(IDENTITY | {"turn": turn})) for turn in range(2000)]
    assert len(set(seeds)) == 2000
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62


STORED = 4622705815144761068
"""From the first version: a changed derivation makes old runs unrepeatable."""
