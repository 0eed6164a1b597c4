import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lightning.pytorch import Callback
from tests.fixtures.tiny_agents import fit, grpo_module, policy_folder, task, task_data, trainer
from torch.utils.data import DataLoader

from streakline.callbacks.down_sample import DownSampleRollouts
from streakline.callbacks.streak_filter import StreakFilter, task_key
from streakline.data.tasks import PlansEpochs
from streakline.errors import ConfigError
from streakline.modules.grpo_config import GRPOConfig
from streakline.modules.hooks import ObservesGroups, SelectsGroups, SelectsTasks
from streakline.rewards.base import RewardTerm
from streakline.rollout.agent_loop import EpisodeConfig
from streakline.types import Message, Role

SIZE = 8


class Solved(RewardTerm):
    """1 for tasks of these numbers; of the others, one trajectory in a group is wrong."""

    def __init__(self, *numbers):
        self.numbers = set(numbers)

    def score(self, task, trajectory):
        return float(_number(task) in self.numbers or trajectory.group_member > 0)


class Watch(Callback):
    """Which tasks were rolled out and which were left to train on, by epoch; may change what is solved."""

    def __init__(self, reward=None, by_epoch=()):
        self.reward = reward
        self.by_epoch = by_epoch
        self.rolled_out = []
        self.trained = []

    def on_train_epoch_start(self, trainer, module):
        self.rolled_out.append([])
        self.trained.append([])
        if self.by_epoch:
            self.reward.numbers = self.by_epoch[trainer.current_epoch]

    def observe_groups(self, module, groups):
        assert all(len(group.trajectories) == len(group.all_rewards) == 4 for group in groups)
        self.rolled_out[-1] += [_number(group.task) for group in groups]

    def select_groups(self, module, groups):
        self.trained[-1] += [_number(group.task) for group in groups]
        return groups


def _number(task):
    return int(task.id.rpartition("-")[2])


def _config(**options):
    return GRPOConfig(**{"group_size": 4, "micro_batch_tokens": 600} | options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


@pytest.fixture
def run(folder, tmp_path):
    def run(*callbacks, epochs=3, reward=None, data=None, **options):
        module = grpo_module(folder, lr=0.0, reward=reward or Solved(0, 1, 2, 3), grpo=_config(), **options)
        return fit(module, data or task_data(size=SIZE), tmp_path, *callbacks, max_epochs=epochs)

    return run


def _sorted(epochs):
    return [sorted(epoch) for epoch in epochs]


EVERYTHING, REST = list(range(8)), [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"k": 1}, [EVERYTHING, REST, EVERYTHING, REST]),
        ({"k": 2}, [EVERYTHING, EVERYTHING, REST, EVERYTHING]),
        ({"k": 1, "reentry": "cooldown", "cooldown": 2}, [EVERYTHING, REST, REST, EVERYTHING]),
        ({"k": 1, "reentry": "never"}, [EVERYTHING, REST, REST, REST]),
        ({"k": 1, "epoch": "refill"}, [EVERYTHING, sorted(REST * 2), EVERYTHING, sorted(REST * 2)]),
        ({}, [EVERYTHING] * 4),
    ],
    ids=str,
)
def test_solved_tasks_are_not_rolled_out(run, options, expected):
    watch = Watch()
    run(StreakFilter(probe_fraction=0.0, **options), watch, epochs=4)

    assert _sorted(watch.rolled_out) == expected
    assert _sorted(watch.trained) == expected


def test_a_lower_threshold_takes_a_graded_reward_for_right(run):
    watch = Watch()
    run(StreakFilter(k=1, threshold=0.0, probe_fraction=0.0), watch, epochs=2)

    assert watch.rolled_out[1] == []


def test_probes_are_rolled_out_but_not_trained_on(run):
    watch = Watch()
    record = run(StreakFilter(k=1, probe_fraction=1.0), watch, epochs=2)

    assert _sorted(watch.rolled_out) == [EVERYTHING, EVERYTHING]
    assert _sorted(watch.trained) == [EVERYTHING, REST]
    last = record.metrics[-1]
    assert (last["filter/probes"], last["filter/persistence"], last["filter/rollouts_saved"]) == (4, 1.0, 0)


def test_a_probe_comes_once_in_an_epoch_that_is_refilled(run):
    watch = Watch()
    options = {"k": 1, "reentry": "never", "epoch": "refill", "probe_fraction": 0.5}
    record = run(
        StreakFilter(**options), watch, epochs=4, reward=Solved(*EVERYTHING), data=task_data(size=8, batch_size=2)
    )

    assert any(watch.rolled_out[1:])
    assert all(len(set(epoch)) == len(epoch) for epoch in watch.rolled_out)
    assert record.metrics[-1]["filter/probes"] == len(watch.rolled_out[-1])


def test_a_probe_that_could_not_be_scored_says_nothing_of_persistence(run):
    class Unscored(Solved):
        def score(self, task, trajectory):
            return super().score(task, trajectory) if self.numbers else None

    reward = Unscored()
    watch = Watch(reward, by_epoch=[set(EVERYTHING), set()])
    last = run(StreakFilter(k=1, probe_fraction=1.0), watch, epochs=2, reward=reward).metrics[-1]

    assert last["filter/probes"] == 8
    assert math.isnan(last["filter/persistence"])


def test_a_wrong_probe_brings_its_task_back_in_the_next_epoch(run):
    reward = Solved()
    watch = Watch(reward, by_epoch=[{0, 1, 2, 3}, {0, 1, 2}, {0, 1, 2}])
    filter_ = StreakFilter(k=1, reentry="never", probe_fraction=1.0)
    record = run(filter_, watch, reward=reward)

    assert _sorted(watch.trained) == [EVERYTHING, REST, [3, *REST]]
    assert record.metrics[7]["filter/persistence"] == 0.75


def test_what_was_skipped_is_logged_and_the_reward_over_all_tasks_is_not_biased(run):
    # Tasks 0 to 3 have reward 1, the others 0.75: over all .875, though the last epoch's active tasks have .75.
    record = run(StreakFilter(k=1, probe_fraction=0.5, seed=1), epochs=2)

    first, last = record.metrics[3], record.metrics[-1]
    assert (first["filter/active_share"], first["filter/skipped"], first["filter/rollouts_saved"]) == (1.0, 0, 0)
    assert (last["filter/active_share"], last["filter/skipped"]) == (0.5, 4)
    assert 0 < last["filter/probes"] < 4
    assert last["filter/rollouts_saved"] == 4 * (4 - last["filter/probes"])
    assert first["filter/reward_all"] == last["filter/reward_all"] == 0.875


class DropAllCorrect(Callback):
    """A callback of a user's own, through the same two hooks: no task number 7, no group that is all right."""

    def select_tasks(self, module, tasks):
        return [task for task in tasks if _number(task) != 7]

    def select_groups(self, module, groups):
        return [group for group in groups if min(group.all_rewards) < 1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_order_of_callbacks_changes_neither_what_is_observed_nor_what_is_trained(run, order):
    callbacks = [
        StreakFilter(k=1, probe_fraction=0.5, seed=1),
        DownSampleRollouts("max_variance", keep=2),
        DropAllCorrect(),
    ]
    kept, seen = [], []

    class Last(Callback):
        def on_train_epoch_end(self, trainer, module):
            seen.append(callbacks[0].state_dict()["table"]["streaks"])

        def select_groups(self, module, groups):
            kept.extend((_number(group.task), [item.group_member for item in group.trajectories]) for group in groups)
            return groups

    run(*(callbacks[index] for index in order), Last(), epochs=2)

    names = {f"test/train-{number}": number for number in range(SIZE)}
    assert {names[key]: value for key, value in seen[0].items()} == {0: 1, 1: 1, 2: 1, 3: 1, 4: 0, 5: 0, 6: 0}
    assert sorted(kept) == sorted([(number, [0, 3]) for number in (4, 5, 6)] * 2)


def test_under_another_datamodule_skipped_tasks_leave_their_batches(run):
    watch, steps = Watch(), []
    data = task_data(size=SIZE)
    # Asks no callback: the same tasks come in every epoch, one of each kind in a batch.
    tasks = [task(f"train-{number}") for number in (0, 4, 1, 5, 2, 6, 3, 7)]
    data.train_dataloader = lambda: DataLoader(tasks, batch_size=2, collate_fn=list)

    class Steps(Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            steps.append(trainer.global_step)

    run(StreakFilter(k=1, probe_fraction=0.0), watch, Steps(), epochs=2, data=data)

    assert _sorted(watch.rolled_out) == [EVERYTHING, REST]
    assert steps == list(range(1, 9))


def test_without_k_it_logs_nothing_and_keeps_nothing(run):
    filter_ = StreakFilter()
    record = run(filter_, epochs=1)

    assert not any(name.startswith("filter/") for name in record.metrics[-1])
    assert filter_.state_dict() == {}
    assert filter_.select_groups(SimpleNamespace(), [1, 2]) == [1, 2]


def test_a_run_that_begins_to_filter_starts_with_no_streak():
    filter_ = StreakFilter(k=1)
    filter_.load_state_dict(StreakFilter().state_dict())

    assert filter_.state_dict() == StreakFilter(k=1).state_dict()


def test_loaders_are_rebuilt_each_epoch_only_where_it_is_on(folder, tmp_path):
    for filter_, every in ((StreakFilter(), 0), (StreakFilter(k=1), 1)):
        runner = trainer(tmp_path, filter_)
        filter_.setup(runner, grpo_module(folder), "fit")
        assert runner.reload_dataloaders_every_n_epochs == every

    runner = trainer(tmp_path, reload_dataloaders_every_n_epochs=2)
    with pytest.raises(ConfigError, match=r"`trainer\.reload_dataloaders_every_n_epochs` to be 1, but got 2"):
        StreakFilter(k=1).setup(runner, grpo_module(folder), "fit")


def test_a_streak_belongs_to_a_task_and_to_its_turn_where_one_turn_is_attempted(folder):
    requests = tuple((Message(role=Role.USER, content=text),) for text in "ab")
    two = replace(task("x"), requests=requests)
    connected, turn = (grpo_module(folder, episode=EpisodeConfig(mode=mode)) for mode in ("connected", "turn"))

    assert task_key(connected, two) == "test/x"
    assert task_key(turn, two) == "test/x@1"
    assert task_key(turn, replace(two, requests=requests[:1])) == "test/x@0"


def test_it_has_all_hooks():
    assert all(isinstance(StreakFilter(), hook) for hook in (SelectsTasks, SelectsGroups, ObservesGroups, PlansEpochs))


@pytest.mark.parametrize(
    ("option", "value"), [("k", 0), ("cooldown", 0), ("probe_fraction", 1.1), ("threshold", float("inf"))]
)
def test_a_value_out_of_range_is_one_clear_line(option, value):
    with pytest.raises(ConfigError, match=rf"Expected `streak_filter\.{option}` to be .*, but got {value}") as error:
        StreakFilter(**{"k": 1, "reentry": "cooldown"} | {option: value})
    assert "\n" not in str(error.value)
