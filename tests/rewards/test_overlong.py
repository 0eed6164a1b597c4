import json
from pathlib import Path

import pytest
from tests.fixtures.tiny_agents import ConstantReward, task

from streakline.errors import ConfigError
from streakline.rewards.base import Reward, Tally
from streakline.rewards.overlong import OverlongShaping
from streakline.types import Message, Role, Sample, Termination, Trajectory, Turn

END = 9
TRL = json.loads((Path(__file__).parents[1] / "algorithms" / "trl_reference.json").read_text())["overlong"]
"""What TRL gives (`tools/trl_reference.py`)."""


def _trajectory(*lengths, truncated=False):
    """Turns of so many sampled tokens, terminators among them; a truncated last one has an added terminator besides."""
    turns, ids, mask = [], [1], [False]
    for number, length in enumerate(lengths):
        cut = truncated and number == len(lengths) - 1
        start = len(ids)
        ids += [2] * (length - 1 + cut) + [END, 3]
        mask += [True] * (length - 1 + cut) + [not cut, False]
        turns.append(Turn(sample=0, start=start, end=len(ids) - 1, message=Message(role=Role.ASSISTANT), truncated=cut))
    return Trajectory(
        task_id="test/a",
        samples=(Sample(token_ids=tuple(ids), loss_mask=tuple(mask)),),
        turns=tuple(turns),
        termination=Termination.LENGTH if truncated else Termination.ANSWER,
        terminator_id=END,
    )


@pytest.mark.parametrize(
    ("lengths", "punishment"),
    [((6,), 0.0), ((3, 3), 0.0), ((7,), -0.25), ((4, 4), -0.5), ((5, 5), -1.0), ((40,), -1.0)],
)
def test_the_punishment_is_that_of_the_equation(lengths, punishment):
    # L_max = 10, L_cache = 4: ((10 - 4) - length) / 4 in between.
    shaped = OverlongShaping(ConstantReward(1.0), max_tokens=10, buffer_tokens=4)

    assert shaped.score(task("a"), _trajectory(*lengths)) == pytest.approx(1.0 + punishment)


@pytest.mark.parametrize(("longest", "buffer", "length", "punishment"), TRL)
def test_the_punishment_is_that_of_trl(longest, buffer, length, punishment):
    shaped = OverlongShaping(ConstantReward(0.0), max_tokens=longest, buffer_tokens=buffer)

    assert shaped.score(task("a"), _trajectory(length)) == pytest.approx(punishment)


def test_a_terminator_that_was_added_was_not_sampled():
    shaped = OverlongShaping(ConstantReward(0.0), max_tokens=10, buffer_tokens=4)

    assert shaped.score(task("a"), _trajectory(8)) == shaped.score(task("a"), _trajectory(8, truncated=True)) == -0.5


def test_a_short_right_trajectory_is_still_right_and_an_unscored_one_unscored():
    reward = Reward({"success": OverlongShaping(ConstantReward(1.0), max_tokens=10, buffer_tokens=4)})

    assert reward(task("a"), _trajectory(3)).reward == 1.0
    unscored = OverlongShaping(ConstantReward(None), max_tokens=10, buffer_tokens=4)
    assert unscored.score(task("a"), _trajectory(40)) is None


def test_a_term_that_judges_side_by_side_still_does():
    class Together(ConstantReward):
        asked = 0

        def score_all(self, episodes):
            self.asked += 1
            return [1.0, None]

        def metrics(self):
            return {"judge/calls": Tally(total=2)}

    term = Together()
    shaped = OverlongShaping(term, max_tokens=10, buffer_tokens=4)
    episodes = [(task("a"), _trajectory(8)), (task("a"), _trajectory(3))]

    assert shaped.score_all(episodes) == [0.5, None]
    assert term.asked == 1
    assert shaped.metrics() == {"judge/calls": Tally(total=2)}


@pytest.mark.parametrize("buffer_tokens", [0, 11])
def test_a_buffer_that_does_not_fit_is_refused(buffer_tokens):
    with pytest.raises(ConfigError, match=rf"`buffer_tokens` to be in 1 \.\.\. 10, but got {buffer_tokens}"):
        OverlongShaping(ConstantReward(1.0), max_tokens=10, buffer_tokens=buffer_tokens)
