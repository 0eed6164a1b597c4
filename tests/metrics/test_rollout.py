import math
from dataclasses import replace

import pytest

from streakline.metrics.rollout import RolloutMetrics
from streakline.types import Group, Message, Role, Sample, Task, Termination, ToolCall, ToolResult, Trajectory, Turn

TASK = Task(id="t", source="test", kind="k", tools=(), requests=((Message(role=Role.USER, content="x"),),))


def _trajectory(reward, *, tokens=4, termination=Termination.ANSWER, results=()):
    calls = tuple(ToolCall(name=result.name) for result in results)
    said = Message(role=Role.ASSISTANT, tool_calls=calls)
    turn = Turn(sample=0, start=1, end=tokens, message=said, results=results)
    return Trajectory(
        task_id="t",
        samples=(Sample(token_ids=(1,) * (tokens - 1) + (9,), loss_mask=(False,) + (True,) * (tokens - 1)),),
        turns=(turn,),
        termination=termination,
        terminator_id=9,
        reward=reward,
    )


def _group(*trajectories):
    return Group(task=TASK, trajectories=trajectories, all_rewards=tuple(item.reward for item in trajectories))


def test_means_over_trajectories_and_shares_of_groups():
    failed = ToolResult(name="f", content="", is_error=True)
    metrics = RolloutMetrics()
    metrics.update(
        [_group(_trajectory(1.0), _trajectory(0.0, tokens=8, results=(failed, ToolResult(name="f", content=""))))]
    )
    metrics.update(
        [
            _group(_trajectory(1.0), _trajectory(1.0, termination=Termination.LENGTH)),
            _group(_trajectory(0.0), _trajectory(None)),
        ]
    )

    values = metrics.compute()

    assert values["reward"] == values["success"] == pytest.approx(3 / 5)
    assert values["unscored"] == pytest.approx(1 / 6)
    assert values["zero_variance"] == pytest.approx(2 / 3)
    assert values["all_correct"] == pytest.approx(1 / 3)
    assert values["all_wrong"] == 0  # what could not be scored is not wrong
    assert values["failed_calls"] == pytest.approx(1 / 2)
    assert values["tokens"] == pytest.approx(28 / 6)
    assert values["sampled_tokens"] == pytest.approx(22 / 6)
    assert values["termination/length"] == pytest.approx(1 / 6)


def test_each_reward_term_has_a_mean_over_what_could_be_scored():
    metrics = RolloutMetrics(terms=("a", "b", "c"))
    first = replace(_trajectory(1.0), reward_terms={"a": 1.0, "b": None, "c": None})
    second = replace(_trajectory(0.0), reward_terms={"a": 0.5, "b": 0.25, "c": None})
    metrics.update([_group(first, second)])

    values = metrics.compute()

    assert (values["reward_term/a"], values["reward_term/b"]) == (0.75, 0.25)
    assert math.isnan(values["reward_term/c"])


def test_termination_shares_sum_to_one():
    metrics = RolloutMetrics()
    metrics.update([_group(*(_trajectory(1.0, termination=reason) for reason in Termination))])

    values = metrics.compute()

    assert sum(value for name, value in values.items() if name.startswith("termination/")) == pytest.approx(1.0)


def test_a_graded_reward_is_a_success_from_the_threshold_on():
    metrics = RolloutMetrics(success_threshold=0.5)
    metrics.update([_group(_trajectory(0.4), _trajectory(0.6))])

    values = metrics.compute()

    assert (values["success"], values["reward"], values["all_correct"], values["all_wrong"]) == (0.5, 0.5, 0.0, 0.0)


def test_turns_whose_thinking_was_closed_are_counted():
    closed = _trajectory(1.0)
    closed = replace(closed, turns=(replace(closed.turns[0], closed_thinking=True),))
    metrics = RolloutMetrics()
    metrics.update([_group(closed, _trajectory(0.0)), _group(closed)])

    assert metrics.compute()["closed_thinking"] == 2


def test_reset_forgets():
    metrics = RolloutMetrics()
    metrics.update([_group(_trajectory(1.0), _trajectory(0.0))])
    metrics.reset()
    metrics.update([_group(_trajectory(0.0), _trajectory(0.0))])

    assert metrics.compute()["reward"] == 0.0
