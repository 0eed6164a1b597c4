import statistics
from dataclasses import replace
from functools import partial
from itertools import permutations

import pytest
from lightning.pytorch import Callback
from tests.fixtures.tiny_agents import fit, grpo_module, policy_folder, task_data

from streakline.callbacks.down_sample import DownSampleRollouts
from streakline.errors import ConfigError
from streakline.modules.grpo_config import GRPOConfig
from streakline.rewards.base import RewardTerm


class ByMember(RewardTerm):
    """Rewards in the order of the group's members; in tasks of odd numbers all are 1."""

    def __init__(self, *rewards):
        self.rewards = rewards

    def score(self, task, trajectory):
        return self.rewards[trajectory.group_member] if int(task.id[-1]) % 2 == 0 else 1.0


class Watch(Callback):
    def __init__(self):
        self.groups = []

    def select_groups(self, module, groups):
        self.groups.append(groups)
        return groups


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


@pytest.fixture
def run(folder, tmp_path):
    def run(*callbacks, rewards=(0.0, 0.5, 1.0, 0.9), **options):
        config = GRPOConfig(**{"group_size": 4, "micro_batch_tokens": 600} | options)
        module = grpo_module(folder, lr=0.0, reward=ByMember(*rewards), grpo=config)
        return fit(module, task_data(size=4, batch_size=4), tmp_path, *callbacks, max_epochs=1)

    return run


def _members(groups):
    return {group.task.id[-1]: [item.group_member for item in group.trajectories] for group in groups}


@pytest.mark.parametrize(
    ("rule", "keep", "expected"),
    [
        ("max_variance", 2, [0, 2]),
        ("max_variance", 3, [0, 2, 3]),
        ("max_reward", 2, [2, 3]),
        ("none", 2, [0, 1, 2, 3]),
        ("max_variance", 4, [0, 1, 2, 3]),
    ],
)
def test_the_kept_trajectories_reach_the_update(run, rule, keep, expected):
    watch = Watch()
    run(DownSampleRollouts(rule, keep=keep), watch)

    (groups,) = watch.groups
    assert _members(groups)["0"] == expected
    assert all(len(group.all_rewards) == 4 for group in groups)


def test_passes_of_policy_and_reference_run_on_what_is_kept(run):
    steps = [run(DownSampleRollouts(rule, keep=2), kl_coef=0.1).metrics[0] for rule in ("max_variance", "none")]

    # Four sampled tokens of each trajectory, in the two groups that have contrast.
    assert [step["train/trained_tokens"] for step in steps] == [2 * 2 * 4, 2 * 4 * 4]
    assert steps[0]["train/trajectories"] == steps[1]["train/trajectories"] == 16


def test_no_pass_of_policy_or_reference_sees_what_is_dropped(run):
    class CountRows(Callback):
        def __init__(self):
            self.rows = {"policy": 0, "reference": 0}

        def select_groups(self, module, groups):
            # Not before: the rollouts are passes of the policy too.
            for name in self.rows:
                decoder = getattr(module, name).get_decoder()
                decoder.register_forward_pre_hook(partial(self._count, name), with_kwargs=True)
            return groups

        def _count(self, name, model, args, kwargs):
            rows, length = kwargs["input_ids"].shape
            self.rows[name] += rows if length > 2 else 0  # two tokens are a trial of the head

    counts = CountRows()
    run(DownSampleRollouts("max_variance", keep=2), counts, kl_coef=0.1, packing="padded", micro_batch_tokens=1)

    assert counts.rows == {"policy": 2 * 2, "reference": 2 * 2}


def test_unfiltered_and_filtered_values_are_logged_side_by_side(run):
    step = run(DownSampleRollouts("max_variance", keep=2)).metrics[0]
    logged = {name.removeprefix("down_sample/"): step[name] for name in step if name.startswith("down_sample/")}

    # Two groups [0, .5, 1, .9], of which {0, 1} is kept, and two of ones, which are dropped whole.
    assert logged == pytest.approx(
        {
            "sampled": 16,
            "kept": 4,
            "groups": 2,
            "no_contrast": 2,
            "reward": (2 * 2.4 + 8) / 16,
            "reward_kept": 0.5,
            "variance": statistics.pvariance([0, 0.5, 1, 0.9]) / 2,
            "variance_kept": 0.25,
        }
    )
    assert step["train/reward"] == pytest.approx(logged["reward"])


def test_what_was_sampled_is_logged_whatever_another_callback_leaves(run):
    class DropFirst(Callback):
        def select_groups(self, module, groups):
            return groups[1:]

    for callbacks in permutations([DropFirst(), DownSampleRollouts("max_variance", keep=2)]):
        step = run(*callbacks).metrics[0]
        assert step["down_sample/sampled"] == 16
        assert step["down_sample/reward"] == pytest.approx((2 * 2.4 + 8) / 16)


def test_groups_that_are_not_dropped_count_as_kept(run):
    step = run(DownSampleRollouts("max_variance", keep=2), drop_zero_variance_groups=False).metrics[0]

    assert (step["down_sample/kept"], step["down_sample/groups"], step["down_sample/no_contrast"]) == (8, 4, 2)
    assert step["down_sample/reward_kept"] == pytest.approx((2 * 1 + 4) / 8)


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, 2 * 2 * 4),
        ({"drop_zero_variance_groups": False}, 4 * 2 * 4),
        # .9 and 1 are kept of each group with contrast: within a tolerance of .2 they have none.
        ({"zero_variance_tol": 0.2}, 0),
        ({"zero_variance_tol": 0.2, "advantage_statistics": "all"}, 2 * 2 * 4),
    ],
)
def test_groups_without_contrast_are_dropped_whole_where_grpo_says_so(run, options, tokens):
    step = run(DownSampleRollouts("max_reward", keep=2), **options).metrics[0]

    assert step["train/trained_tokens"] == tokens
    assert step["down_sample/no_contrast"] == (4 if tokens == 0 else 2)


def test_a_draw_differs_by_rollout_task_and_seed_and_can_be_repeated(run):
    drawn = []
    for seed in (0, 0, 1):
        watch = Watch()
        run(DownSampleRollouts("random", keep=2, seed=seed), watch)
        drawn.append(_members(watch.groups[0]))

    assert drawn[0] == drawn[1] != drawn[2]
    assert len({tuple(members) for members in drawn[0].values()}) > 1


def test_unscored_trajectories_are_not_kept_and_smaller_groups_are_left_alone(run):
    class KeepOne(Callback):
        def select_groups(self, module, groups):
            return [replace(group, trajectories=group.trajectories[:1]) for group in groups]

    watch, smaller = Watch(), Watch()
    run(DownSampleRollouts("max_variance", keep=3), watch, rewards=(None, 0.5, None, 1.0))
    step = run(KeepOne(), DownSampleRollouts("max_variance", keep=3), smaller).metrics[0]

    assert _members(watch.groups[0])["0"] == [1, 3]
    assert _members(smaller.groups[0])["0"] == [0]
    # A group of one has no contrast.
    assert (step["train/trained_tokens"], step["down_sample/no_contrast"]) == (0, 4)


def test_more_than_a_group_has_is_one_clear_line_before_anything_is_sampled(run):
    watch = Watch()
    with pytest.raises(
        ConfigError, match=r"`down_sample\.keep` to be at most `grpo\.group_size` 4, but got 5"
    ) as error:
        run(DownSampleRollouts("max_variance", keep=5), watch)
    assert "\n" not in str(error.value)
    assert watch.groups == []
    run(DownSampleRollouts("none", keep=5))


def test_one_trajectory_has_contrast_only_with_those_that_were_sampled(run):
    with pytest.raises(ConfigError, match=r"`down_sample\.keep` to be at least 2 .* but got 1"):
        run(DownSampleRollouts("max_reward", keep=1))
    step = run(DownSampleRollouts("max_reward", keep=1), advantage_statistics="all").metrics[0]
    assert step["train/trained_tokens"] == 2 * 1 * 4


def test_to_keep_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"`down_sample\.keep` to be at least 1, but got 0"):
        DownSampleRollouts("random", keep=0)
