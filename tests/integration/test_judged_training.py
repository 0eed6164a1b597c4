"""Training on the scores of a judge that fails, is out, or has spent its budget."""

import random
import time
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from tests.fixtures.judge_server import FAST, Answer, data_of, is_probe, judge_at, judge_server
from tests.fixtures.tiny_agents import ParityReward, fit, grpo_module, policy_folder, task_data, trainer
from tests.fixtures.tiny_config import TINY, write_yaml
from torch.multiprocessing.spawn import ProcessRaisedException

from streakline.callbacks.down_sample import DownSampleRollouts
from streakline.callbacks.run_checkpoint import RunCheckpoint
from streakline.callbacks.streak_filter import StreakFilter
from streakline.cli import main
from streakline.errors import JudgeOutageError
from streakline.evaluation.scores import read_scores
from streakline.modules.grpo_config import GRPOConfig
from streakline.rewards.hybrid import HybridReward
from streakline.rewards.judge.case import case_of
from streakline.rewards.judge.judged import JudgedAnswer
from streakline.rewards.judge.patience import Limits
from streakline.rewards.judge.prompt import JudgePrompt
from streakline.rewards.judge.store import Budget

DOWN = Answer(status=503)
# 6 tasks, 2 a step: two epochs of three steps.
EPOCHS, STEPS = 2, 6


def opinion(data):
    """What the scripted judge thinks of an episode: it follows from what it is shown alone."""
    return sha256(data.encode()).digest()[0] % 6


def sound(request, number):
    return Answer(score=opinion(data_of(request)))


class Break(Callback):
    """Has the server go down when a step begins, after it has answered `then` more requests."""

    def __init__(self, server, step, then=0):
        self.server, self.step, self.then = server, step, then

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step == self.step:
            last = len(self.server.requests) + self.then
            self.server.script = lambda request, number: sound(request, number) if number < last else DOWN


class BreakValidation(Callback):
    """Has the server go down when validation begins."""

    def __init__(self, server):
        self.server = server

    def on_validation_start(self, trainer, module):
        self.server.script = lambda request, number: DOWN


class Groups(Callback):
    """Keeps what was sampled and how it was scored."""

    def __init__(self):
        self.groups = []

    def observe_groups(self, module, groups):
        self.groups += groups


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return policy_folder(tmp_path_factory.mktemp("policy"))


@pytest.fixture
def server():
    with judge_server(sound) as running:
        yield running


def judged_run(server, policy, path, *callbacks, ckpt_path=None, updates=1, data=task_data, judge=None, **options):
    """Train in a folder; a second run goes on from `last` where told to."""
    config = GRPOConfig(group_size=4, micro_batch_tokens=600, updates_per_rollout=updates)
    reward = JudgedAnswer(judge_at(server.url, path / "judge.sqlite", **(judge or {})))
    saver = RunCheckpoint(save_last=True, every_n_train_steps=100, enable_version_counter=False)
    resumed = None if ckpt_path is None else str(path / "run" / "checkpoints" / f"{ckpt_path}.ckpt")
    module = grpo_module(policy, grpo=config, reward=reward)
    bounds = {"max_epochs": EPOCHS} | options
    return fit(module, data(), path / "run", *callbacks, saver, ckpt_path=resumed, **bounds)


def last_checkpoint(path):
    return torch.load(path / "run" / "checkpoints" / "last.ckpt", weights_only=True)


@pytest.fixture
def train(server, folder, tmp_path):
    return partial(judged_run, server, folder, tmp_path)


@pytest.fixture
def last(tmp_path):
    return partial(last_checkpoint, tmp_path)


@pytest.fixture(scope="module")
def unbroken(folder, tmp_path_factory):
    """What a run without an outage leaves, and how many verdicts it took."""
    path = tmp_path_factory.mktemp("unbroken")
    with judge_server(sound) as running:
        record = judged_run(running, folder, path)
        return record, last_checkpoint(path), running.num_answered


def tasks(record):
    return [[one.id for one in batch] for batch in record.batches]


def steady(metrics):
    """What does not depend on time, or on what was judged before."""
    return [
        {name: value for name, value in step.items() if not name.startswith(("time/", "train/judge/"))}
        for step in metrics
    ]


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


FAILURES = (
    Answer(status=429, headers={"Retry-After": "0.001"}),
    Answer(status=500),
    Answer(delay_s=0.9),
    Answer(content="Five of five!"),
    Answer(content='{"reason": "goo', finish_reason="length"),
)


def test_with_three_failures_in_ten_no_reward_is_wrong_and_training_goes_on(server, train):
    drawn = random.Random(0)

    def script(request, number):
        with server.lock:
            kind = drawn.choice(FAILURES) if drawn.random() < 0.3 else None
        return kind or sound(request, number)

    server.script = script
    seen = Groups()
    limits = Limits(concurrency=8, timeout_s=0.5, attempts=3, backoff_s=0.001, max_backoff_s=0.01, patience_s=60.0)

    record = train(seen, judge={"limits": limits})

    trajectories = [(group.task, one) for group in seen.groups for one in group.trajectories]
    assert len(trajectories) == 2 * 4 * STEPS
    wanted = [opinion(data_of_case(task, trajectory)) / 5 for task, trajectory in trajectories]
    pairs = [(trajectory.reward, right) for (_, trajectory), right in zip(trajectories, wanted, strict=True)]
    assert all(reward in {None, right} for reward, right in pairs)
    assert sum(reward is not None for reward, _ in pairs) > 0.9 * len(pairs)
    failed = [step["train/judge/failed"] for step in record.metrics]
    assert 0.1 < sum(failed) / len(failed) < 0.5
    assert len(record.metrics) == STEPS


def data_of_case(task, trajectory):
    request = JudgePrompt().render(case_of(task, trajectory))
    return data_of({"messages": [{"content": request.user}]})


def test_an_answer_that_can_not_be_judged_is_masked_and_counted(server, train):
    # Pitfall: [1, 3, 2, failed] has its baseline over the three.
    order, lock = {}, server.lock

    def script(request, number):
        data = data_of(request)
        with lock:
            place = order.setdefault(data, len(order)) % 4
        return (Answer(score=1), Answer(score=3), Answer(score=2), Answer(content="?"))[place]

    server.script = script
    seen = Groups()

    record = train(seen, data=partial(task_data, size=1, batch_size=1), max_epochs=1)

    (group,) = seen.groups
    texts = [data_of_case(group.task, one) for one in group.trajectories]
    assert len(set(texts)) == 4
    rewards = {order[text] % 4: one.reward for text, one in zip(texts, group.trajectories, strict=True)}
    assert rewards == {0: 0.2, 1: 0.6, 2: 0.4, 3: None}
    (step,) = record.metrics
    assert step["train/reward"] == pytest.approx(0.4)
    assert step["train/unscored"] == step["train/judge/unscored"] == 0.25
    assert step["train/judge/failed"] == pytest.approx(3 / 6 if step["train/judge/calls"] == 6 else 0.5)


@pytest.mark.parametrize(
    ("at", "then"),
    [
        (0, 3),  # the first step, inside it
        (1, 0),
        (2, 3),  # the last step of an epoch
        (3, 0),  # the first of the second epoch
        (4, 3),
    ],
)
def test_an_outage_changes_nothing_and_nothing_is_paid_twice(at, then, server, train, last, unbroken):
    expected, expected_checkpoint, paid = unbroken
    with pytest.raises(JudgeOutageError, match=r"judge scripted .*; to go on .* with `--ckpt_path last`$"):
        train(Break(server, at, then))
    server.script = sound

    # Before the first step there is nothing to save.
    resumed = train(ckpt_path="last" if at else None)

    assert tasks(resumed) == tasks(expected)[at:]
    assert str(steady(resumed.metrics)) == str(steady(expected.metrics)[at:])
    checkpoint = last()
    assert_same(checkpoint["state_dict"], expected_checkpoint["state_dict"])
    assert str(checkpoint["optimizer_states"]) == str(expected_checkpoint["optimizer_states"])
    assert server.num_answered == paid


def test_an_outage_in_validation_loses_no_training(server, train, last, unbroken):
    with pytest.raises(JudgeOutageError, match="with `--ckpt_path last`"):
        train(BreakValidation(server), limit_val_batches=1.0)
    server.script = sound

    resumed = train(ckpt_path="last", limit_val_batches=1.0)

    assert tasks(resumed) == tasks(unbroken[0])[3:]
    assert_same(last()["state_dict"], unbroken[1]["state_dict"])


def test_an_outage_between_updates_on_the_same_rollouts_waits_for_the_next_rollouts(server, train, last):
    with pytest.raises(JudgeOutageError):
        train(Break(server, 3), updates=2, max_epochs=1)

    # The second update on the second rollouts, of three, needs no judge.
    assert last()["global_step"] == 4


def test_a_spent_budget_ends_a_run_that_a_larger_one_goes_on_with(server, train, last, unbroken):
    with pytest.raises(JudgeOutageError, match="within its budget, but it has spent 20 calls and 2000 tokens"):
        train(judge={"budget": Budget(max_calls=20)})
    assert last()["global_step"] == 2

    resumed = train(judge={"budget": Budget(max_calls=100)}, ckpt_path="last")
    assert len(resumed.metrics) == STEPS - 2
    assert server.num_answered == unbroken[2]


def test_the_process_alone_goes_on_where_the_judge_is_out(server, folder, tmp_path, recwarn, capsys):
    judge = judge_at(server.url, tmp_path / "judge.sqlite")
    answer = JudgedAnswer(judge, on_outage="unscored")
    reward = HybridReward(answer, {"parity": ParityReward()}, without_answer="process")
    seen = Groups()
    module = grpo_module(folder)
    module._reward = reward

    class Back(Break):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            super().on_train_batch_start(trainer, module, batch, batch_idx)
            if trainer.global_step == 4:
                self.server.script = sound

    record = fit(module, task_data(), tmp_path, Back(server, 2), seen, max_epochs=EPOCHS)

    assert len(record.metrics) == STEPS
    by_step = [seen.groups[place : place + 2] for place in range(0, 2 * STEPS, 2)]
    for step, groups in enumerate(by_step):
        for one in (one for group in groups for one in group.trajectories):
            assert (one.reward_terms["trust"] == 0) == (step in {2, 3})
            if step in {2, 3}:
                assert one.reward == one.reward_terms["parity"] == one.reward_terms["process"]
    told = [str(warning.message) for warning in recwarn.list]
    assert len([line for line in told if "answers stay unscored until it is back" in line]) == 1
    assert capsys.readouterr().out.count("judge scripted is back\n") == 1
    # In an outage each step has at least its probe.
    assert [record.metrics[step]["train/judge/failed"] for step in (1, 2, 3, 4)] == [0.0, 1.0, 1.0, 0.0]
    assert len([line for line in told if "go by their process alone" in line]) == 1
    recwarn.clear()


def test_held_out_runs_count_what_is_unscored_and_end_with_a_line_in_an_outage(server, folder, tmp_path):
    server.script = lambda request, number: Answer(content="?") if "test-0" in data_of(request) else Answer(score=5)

    def module():
        return grpo_module(folder, reward=JudgedAnswer(judge_at(server.url, tmp_path / "judge.sqlite")))

    (found,) = trainer(tmp_path).test(module(), datamodule=task_data(), verbose=False)
    scores = {score.task_id: (*score.sampled, score.greedy) for score in read_scores(tmp_path / "test_scores.jsonl")}
    assert scores == {"test/test-0": (None,) * 3, "test/test-1": (1.0,) * 3, "test/test-2": (1.0,) * 3}
    assert found["test/unscored"] == pytest.approx(1 / 3)
    assert found["test/judge/unscored"] == pytest.approx(1 / 3)
    assert found["test/judge/failed"] > 0.3

    server.script = lambda request, number: DOWN
    with pytest.raises(JudgeOutageError, match="repeat the command when it is back: what it has judged is kept"):
        trainer(tmp_path, limit_val_batches=1.0).validate(module(), datamodule=task_data(), verbose=False)


def config(folder, url):
    """A training run of the command line, judged by a server."""
    judge = {
        "class_path": "streakline.rewards.judge.openai_judge.OpenAIJudge",
        "init_args": {
            "endpoint": {"model": "scripted", "base_url": url, "api_key_env": ""},
            "store": "judge.sqlite",
            "limits": asdict(FAST),
        },
    }
    term = {"class_path": "streakline.rewards.judge.judged.JudgedAnswer", "init_args": {"judge": judge}}
    reward = {"class_path": "streakline.rewards.base.Reward", "init_args": {"terms": {"answer": term}}}
    train = {"class_path": "tests.fixtures.tiny_agents.WordTasks", "init_args": {"size": 6}}
    return TINY | {
        "model": {
            "class_path": "streakline.modules.grpo.GRPOModule",
            "init_args": {
                "policy": {"name_or_path": folder, "init": "random"},
                "reward": reward,
                "sampling": {"max_new_tokens": 4, "max_tokens": 512},
                "episode": {"max_turns": 1},
                "grpo": {"group_size": 4},
                "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.05, "weight_decay": 0.0}},
            },
        },
        "data": {
            "class_path": "streakline.data.tasks.TaskDataModule",
            "init_args": {
                "train": train,
                "environment": "tests.fixtures.tiny_agents.EchoEnvironment",
                "batch_size": 2,
            },
        },
    }


def test_the_command_line_ends_with_one_line_and_goes_on_where_that_says(server, folder, capsys):
    arguments = ["fit", "--config", write_yaml("judged.yaml", config(folder, server.url))]
    server.script = lambda request, number: sound(request, number) if number < 12 else DOWN

    assert main(arguments) == 1
    said = capsys.readouterr()
    assert "judge scripted does not answer (Error code: 503 - scripted failure): waiting for up to 0.05 s" in said.out
    (line,) = [line for line in said.err.splitlines() if line.startswith("streakline: ")]
    assert line.startswith("streakline: Expected judge scripted to answer, but got: Error code: 503")
    assert line.endswith("; to go on from the last step, repeat the command with `--ckpt_path last`")

    server.script = sound
    assert main([*arguments, "--ckpt_path", "last"]) == 0
    assert "resumed at step 1" in capsys.readouterr().out
    assert server.num_answered == 3 * 8


class Saved(Callback):
    """Writes which processes came to save, since they share no memory."""

    def save_broken_step(self, trainer):
        folder = Path(trainer.default_root_dir)
        (folder / f"saved-{trainer.global_rank}").touch()
        # Who launched the processes stops the others when one has ended.
        deadline = time.monotonic() + 30
        while len(list(folder.glob("saved-*"))) < trainer.world_size and time.monotonic() < deadline:
            time.sleep(0.01)


@pytest.mark.slow
def test_an_outage_of_one_process_ends_all_of_them_after_they_have_saved(server, folder, tmp_path):
    # Of two tasks a step, each process has one; in the second step the first process's can't be judged.
    def script(request, number):
        return DOWN if is_probe(request) or "train-2." in data_of(request) else sound(request, number)

    server.script = script
    module = grpo_module(folder, reward=JudgedAnswer(judge_at(server.url, tmp_path / "judge.sqlite")))
    saver = RunCheckpoint(save_last=True, every_n_train_steps=100, enable_version_counter=False)
    run = trainer(tmp_path, saver, Saved(), devices=2, strategy="ddp_fork")

    with pytest.raises(ProcessRaisedException, match="to go on from the last step, repeat the command with"):
        run.fit(module, datamodule=task_data(size=4, shuffle=False))
    assert {path.name for path in tmp_path.glob("saved-*")} == {"saved-0", "saved-1"}
    assert torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == 1


@pytest.mark.parametrize("at", [3, 4], ids=["at the start of an epoch", "inside it"])
def test_an_outage_changes_nothing_about_which_tasks_are_skipped(at, server, train, last, folder, tmp_path):
    def solved(request, number):
        data = data_of(request)
        return Answer(score=5 if "train-0." in data or "train-1." in data else opinion(data))

    def techniques():
        return StreakFilter(k=1, reentry="cooldown", cooldown=1, probe_fraction=0.5), DownSampleRollouts(
            "max_variance", keep=2
        )

    bounds = {"max_epochs": -1, "max_steps": 7}
    server.script = solved
    expected = judged_run(server, folder, tmp_path / "unbroken", *techniques(), **bounds)
    expected_checkpoint = last_checkpoint(tmp_path / "unbroken")

    with pytest.raises(JudgeOutageError):
        train(Break(server, at), *techniques(), **bounds)
    server.script = solved
    resumed = train(*techniques(), ckpt_path="last", **bounds)

    assert tasks(resumed) == tasks(expected)[at:]
    assert str(steady(resumed.metrics)) == str(steady(expected.metrics)[at:])
    assert any(step["filter/skipped"] for step in expected.metrics)
    assert_same(last()["state_dict"], expected_checkpoint["state_dict"])
    assert last()["callbacks"]["StreakFilter"] == expected_checkpoint["callbacks"]["StreakFilter"]
