"""Every invariant of the records is checked when they are built."""

from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from streakline.errors import RecordError
from streakline.types import (
    Completion,
    Group,
    Message,
    Role,
    Sample,
    Task,
    Termination,
    Tier,
    ToolCall,
    ToolResult,
    TrainingBatch,
    Trajectory,
    Turn,
)

END = 9
SAID = Message(role=Role.ASSISTANT, content="a")
CALLED = Message(role=Role.ASSISTANT, tool_calls=(ToolCall(name="f"), ToolCall(name="g")))


def two_turns(**changes: object) -> Trajectory:
    """The worked example of the docstring: P0 P1 | A0 A1 E | R0 R1 | A2 E."""
    fields = {
        "task_id": "t",
        "samples": (
            Sample(
                token_ids=(1, 2, 3, 4, END, 5, 6, 7, END),
                loss_mask=(False, False, True, True, True, False, False, True, True),
                logprobs_engine=(0.0, 0.0, -1.0, -1.0, -0.1, 0.0, 0.0, -2.0, -0.2),
            ),
        ),
        "turns": (
            Turn(sample=0, start=2, end=5, message=CALLED, results=(ToolResult(name="f", content="1"),)),
            Turn(sample=0, start=7, end=9, message=SAID),
        ),
        "termination": Termination.ANSWER,
        "terminator_id": END,
    }
    return Trajectory(**{**fields, **changes})


def with_mask(*mask: bool) -> tuple[Sample]:
    return (Sample(token_ids=(1, 2, 3, 4, END, 5, 6, 7, END), loss_mask=mask),)


def test_the_worked_example_is_valid() -> None:
    trajectory = two_turns()
    assert trajectory.num_trained_tokens == 5
    trained_ends = sum(trajectory.samples[turn.sample].loss_mask[turn.end - 1] for turn in trajectory.turns)
    assert trained_ends == sum(not turn.truncated for turn in trajectory.turns) == 2


def test_records_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        two_turns().reward = 1.0


def test_lengths_must_be_equal() -> None:
    with pytest.raises(RecordError, match="equal lengths"):
        Sample(token_ids=(1, 2), loss_mask=(True,))
    with pytest.raises(RecordError, match="equal lengths"):
        Sample(token_ids=(1, 2), loss_mask=(False, True), logprobs_engine=(0.0,))
    with pytest.raises(RecordError, match="equal lengths"):
        Completion(token_ids=(1, 2), logprobs=(0.0,), finish_reason="stop")


def test_nothing_outside_a_turn_is_trained() -> None:
    with pytest.raises(RecordError, match="False outside turns"):
        two_turns(samples=with_mask(True, False, True, True, True, False, False, True, True))


@pytest.mark.parametrize("span", [(2, 4), (7, 8), (2, 9)])
def test_a_turn_ends_with_its_only_terminator(span: tuple[int, int]) -> None:
    with pytest.raises(RecordError, match="one terminator"):
        two_turns(turns=(Turn(sample=0, start=span[0], end=span[1], message=SAID),))


def test_the_terminator_of_a_whole_turn_is_trained() -> None:
    with pytest.raises(RecordError, match=r"terminator .* to be trained"):
        two_turns(samples=with_mask(False, False, True, True, False, False, False, True, True))


def test_the_terminator_of_a_truncated_turn_is_not_trained() -> None:
    cut = (two_turns().turns[0], replace(two_turns().turns[1], truncated=True))
    with pytest.raises(RecordError, match="truncated=True"):
        two_turns(turns=cut, termination=Termination.LENGTH)
    two_turns(
        turns=cut,
        termination=Termination.LENGTH,
        samples=with_mask(False, False, True, True, True, False, False, True, False),
    )


def test_a_mask_of_zeros_is_refused_unless_every_turn_is_truncated() -> None:
    zeros = with_mask(*[False] * 9)
    with pytest.raises(RecordError, match="Expected a trained token"):
        two_turns(samples=zeros)
    two_turns(samples=zeros, turns=tuple(replace(turn, truncated=True) for turn in two_turns().turns))


def test_a_whole_turn_is_trained_unless_the_history_policy_left_it_out() -> None:
    last_only = with_mask(*[False] * 7, True, True)
    with pytest.raises(RecordError, match="Expected a trained token in each whole turn"):
        two_turns(samples=last_only)
    assert two_turns(samples=last_only, untrained_turns=1).num_trained_tokens == 2


def test_turns_do_not_overlap() -> None:
    turn = Turn(sample=0, start=4, end=5, message=SAID)
    with pytest.raises(RecordError, match="not to overlap"):
        two_turns(turns=(two_turns().turns[0], turn))


def test_no_result_answers_nothing() -> None:
    with pytest.raises(RecordError, match="one result a call, but got 1 for 0"):
        Turn(sample=0, start=0, end=1, message=SAID, results=(ToolResult(name="f", content=""),))


def test_values_outside_their_meaning_are_refused() -> None:
    with pytest.raises(RecordError, match="`similarity`"):
        ToolResult(name="f", content="", similarity=1.5)
    with pytest.raises(RecordError, match="finish_reason 'error' alone"):
        Completion(token_ids=(), logprobs=(), finish_reason="error")
    with pytest.raises(RecordError, match="0 where `loss_mask` is False"):
        Sample(token_ids=(1, 2), loss_mask=(False, True), logprobs_engine=(-1.0, -1.0))


def test_turns_lie_inside_their_sample() -> None:
    with pytest.raises(RecordError, match="inside sample"):
        two_turns(turns=(Turn(sample=1, start=2, end=5, message=SAID),))
    with pytest.raises(RecordError, match="`start` < `end`"):
        Turn(sample=0, start=5, end=5, message=SAID)


def test_only_the_assistant_calls_tools() -> None:
    with pytest.raises(RecordError, match="only on an assistant message"):
        Message(role=Role.USER, tool_calls=(ToolCall(name="f"),))


def test_the_worst_tier_decides() -> None:
    results = tuple(ToolResult(name="f", content="", tier=tier) for tier in (Tier.EXACT, Tier.FUZZY))
    turns = (replace(two_turns().turns[0], results=results), two_turns().turns[1])
    assert two_turns(turns=turns).worst_tier is Tier.FUZZY
    assert two_turns(turns=two_turns().turns[1:], samples=with_mask(*[False] * 7, True, True)).worst_tier is Tier.LIVE
    assert sorted(Tier, key=lambda tier: tier.rank)[-1] is Tier.MISS


def test_terminations_tell_limits_from_faults() -> None:
    assert Termination.LENGTH.is_truncated
    assert not Termination.LENGTH.is_error
    assert Termination.TOOL_ERROR.is_error
    assert not Termination.ANSWER.is_truncated


def test_tasks_agree_over_user_turns() -> None:
    asked = (Message(role=Role.USER, content="q"),)
    with pytest.raises(RecordError, match="2 user turns, but got 1"):
        Task(id="t", source="s", kind="k", tools=(), requests=(asked, asked), gold=((),))
    with pytest.raises(RecordError, match="at least one user turn"):
        Task(id="t", source="s", kind="k", tools=(), requests=())


def test_a_group_holds_trajectories_of_its_task_and_all_rewards() -> None:
    task = Task(id="t", source="s", kind="k", tools=(), requests=((Message(role=Role.USER, content="q"),),))
    kept = Group(task=task, trajectories=(two_turns(reward=1.0),), all_rewards=(1.0, 0.0, None))
    assert kept.rewards == (1.0,)
    with pytest.raises(RecordError, match="of task t"):
        Group(task=task, trajectories=(two_turns(task_id="other"),), all_rewards=(0.0,))
    with pytest.raises(RecordError, match="at most 0"):
        Group(task=task, trajectories=(two_turns(),), all_rewards=())


def batch(**changes: torch.Tensor) -> TrainingBatch:
    fields = {
        "input_ids": torch.ones(2, 3, dtype=torch.int64),
        "attention_mask": torch.tensor([[True, True, True], [True, True, False]]),
        "loss_mask": torch.tensor([[False, True, True], [False, True, False]]),
        "advantages": torch.zeros(2),
        "logprobs_old": torch.zeros(2, 3),
        "logprobs_engine": torch.zeros(2, 3),
        "trajectory_index": torch.arange(2),
        "num_barred": torch.zeros(2, dtype=torch.int64),
    }
    return TrainingBatch(**{**fields, **changes})


def test_a_batch_is_rectangular() -> None:
    batch()
    with pytest.raises(RecordError, match="`logprobs_old` of shape"):
        batch(logprobs_old=torch.zeros(2, 2))
    for name in ("advantages", "num_barred"):
        with pytest.raises(RecordError, match=f"`{name}` of shape"):
            batch(**{name: torch.zeros(3)})


def test_padding_and_the_first_column_are_not_trained() -> None:
    with pytest.raises(RecordError, match="False on padding"):
        batch(loss_mask=torch.tensor([[False, True, True], [False, True, True]]))
    with pytest.raises(RecordError, match="first column"):
        batch(loss_mask=torch.tensor([[True, True, True], [False, True, False]]))
