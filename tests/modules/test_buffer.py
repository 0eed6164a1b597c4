import pytest
import torch

from streakline.data.rows import TrainingRow
from streakline.modules.buffer import RolloutBuffer, training_rows
from streakline.modules.grpo_config import GRPOConfig
from streakline.types import Group, Message, Role, Sample, Task, Termination, Trajectory, Turn

END = 9
TASK = Task(id="t", source="test", kind="k", tools=(), requests=((Message(role=Role.USER, content="x"),),))


def _trajectory(reward, *, tokens=3, termination=Termination.ANSWER):
    truncated = termination is Termination.LENGTH
    ids = (1, *(2 for _ in range(tokens - 1)), END)
    mask = (False, *(True for _ in range(tokens - 1)), not truncated)
    turn = Turn(sample=0, start=1, end=len(ids), message=Message(role=Role.ASSISTANT), truncated=truncated)
    return Trajectory(
        task_id="t",
        samples=(Sample(token_ids=ids, loss_mask=mask, logprobs_engine=tuple(-0.1 if on else 0.0 for on in mask)),),
        turns=(turn,),
        termination=termination,
        terminator_id=END,
        reward=reward,
    )


def _group(*trajectories, all_rewards=None):
    rewards = tuple(item.reward for item in trajectories) if all_rewards is None else all_rewards
    return Group(task=TASK, trajectories=trajectories, all_rewards=rewards)


def test_groups_without_contrast_are_left_out():
    groups = [_group(_trajectory(0.4), _trajectory(0.4)), _group(_trajectory(0.0), _trajectory(1.0))]

    dropped = training_rows(groups, config=GRPOConfig())
    kept = training_rows(groups, config=GRPOConfig(drop_zero_variance_groups=False))

    assert [round(row.advantage, 3) for row in dropped] == [-0.707, 0.707]
    assert [row.advantage for row in kept][:2] == [0.0, 0.0]
    assert len(kept) == 4


def test_unscored_trajectories_leave_numerator_and_denominator():
    group = _group(*(_trajectory(reward) for reward in (1.0, 3.0, 2.0, None)))
    buffer = RolloutBuffer()
    buffer.fill(training_rows([group], config=GRPOConfig(advantage_scale="none")), updates=1)

    assert [row.advantage for row in buffer.rows] == [-1.0, 1.0, 0.0]
    assert buffer.num_trained_tokens == 9


@pytest.mark.parametrize(("masked", "tokens"), [(True, 100), (False, 200)])
def test_a_masked_truncated_sample_leaves_the_denominator(masked, tokens):
    group = _group(_trajectory(1.0, tokens=100), _trajectory(0.0, tokens=101, termination=Termination.LENGTH))
    buffer = RolloutBuffer()
    buffer.fill(training_rows([group], config=GRPOConfig(mask_truncated=masked)), updates=1)

    assert buffer.num_trained_tokens == tokens


def test_statistics_over_all_give_a_kept_pair_of_equals_its_contrast():
    group = _group(_trajectory(1.0), _trajectory(1.0), all_rewards=(0.0, 0.0, 1.0, 1.0))

    assert training_rows([group], config=GRPOConfig()) == ()
    over_all = training_rows([group], config=GRPOConfig(advantage_statistics="all", advantage_scale="none"))
    assert [row.advantage for row in over_all] == [0.5, 0.5]


def test_tokens_of_a_trajectory_are_counted_over_its_rows():
    sample = Sample(token_ids=(1, 2, 3), loss_mask=(False, True, True))
    buffer = RolloutBuffer()
    buffer.fill(
        [TrainingRow(sample=sample, trajectory_index=0), TrainingRow(sample=sample, trajectory_index=0),
         TrainingRow(sample=sample, trajectory_index=1)],
        updates=1,
    )  # fmt: skip

    assert buffer.tokens_of_trajectory == [4, 4, 2]


def test_rows_serve_their_updates_and_are_dropped():
    buffer = RolloutBuffer()
    buffer.fill(training_rows([_group(_trajectory(0.0), _trajectory(1.0))], config=GRPOConfig()), updates=2)
    first = [torch.tensor([0.0, -1.0, -2.0, -3.0])] * 2

    assert buffer.logprobs_old is None
    buffer.finish_update(first)
    assert buffer.logprobs_old is not None
    assert torch.equal(buffer.logprobs_old[0], first[0])
    buffer.finish_update([torch.zeros(4)] * 2)
    assert buffer.rows == ()
    assert buffer.logprobs_old is None


@pytest.mark.parametrize("updates", [0, 1])
def test_state_survives_a_file_of_plain_types(updates, tmp_path):
    buffer = RolloutBuffer()
    group = _group(_trajectory(0.0, tokens=5), _trajectory(1.0))
    buffer.fill(training_rows([group], config=GRPOConfig(), min_new_tokens=2), updates=2)
    for _ in range(updates):
        buffer.finish_update([torch.rand(6), torch.rand(4)])
    torch.save(buffer.state_dict(), tmp_path / "state.pt")

    restored = RolloutBuffer()
    restored.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))

    assert restored.rows == buffer.rows
    assert restored.updates_left == buffer.updates_left
    old, expected = restored.logprobs_old, buffer.logprobs_old
    assert (old is None) == (expected is None)
    if old is not None and expected is not None:
        assert all(torch.equal(one, other) for one, other in zip(old, expected, strict=True))


def test_an_empty_buffer_has_a_state(tmp_path):
    restored = RolloutBuffer()
    restored.load_state_dict(RolloutBuffer().state_dict())

    assert restored.rows == ()
