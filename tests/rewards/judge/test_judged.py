"""A judge's score as a reward term."""

import math
from dataclasses import replace

import pytest
from tests.fixtures.episodes import call, episode
from tests.fixtures.worlds import world

from streakline.errors import JudgeOutageError
from streakline.rewards.answer import NonEmptyAnswer
from streakline.rewards.base import Reward, Tally
from streakline.rewards.hybrid import HybridReward
from streakline.rewards.judge.base import Judge, Judgment
from streakline.rewards.judge.case import case_of
from streakline.rewards.judge.judged import JudgedAnswer
from streakline.rewards.judge.panel import JudgePanel
from streakline.types import Message, Role, Termination

TASK = replace(world(gold=((call("ls", a=True),), (call("pwd"),))), replies=("One.", "Two."), system="Be kind.")


class Says(Judge):
    """Gives scores in order, again and again; None = unscored, an error = an outage."""

    def __init__(self, *scores):
        self.scores = scores

    @property
    def name(self):
        return "says"

    def judge_all(self, cases):
        if isinstance(self.scores[0], Exception):
            raise self.scores[0]
        found = [self.scores[place % len(self.scores)] for place in range(len(cases))]
        return [
            Judgment(
                score=one, failure="" if one is not None else "mute", calls=2, failed_calls=1, tokens=10, seconds=0.5
            )
            for one in found
        ]


OUT = JudgeOutageError("Expected judge says to answer, but got: nothing")


def episodes(count):
    return [(TASK, episode(TASK, [[[call("ls", a=True)]], []], group_member=member)) for member in range(count)]


def test_scores_become_shares_of_five_and_failures_none():
    assert JudgedAnswer(Says(1, 3, 2, None)).score_all(episodes(4)) == [0.2, 0.6, 0.4, None]
    assert JudgedAnswer(Says(5)).score(*episodes(1)[0]) == 1.0
    assert JudgedAnswer(Says(5)).score_all([]) == []


def test_what_judging_took_is_counted_since_it_was_last_asked():
    term = JudgedAnswer(Says(1, 3, 2, None))
    term.score_all(episodes(4))

    assert term.metrics() == {
        "judge/failed": Tally(total=4, per=8),
        "judge/unscored": Tally(total=1, per=4),
        "judge/cached": Tally(total=0, per=4),
        "judge/calls": Tally(total=8),
        "judge/tokens": Tally(total=40),
        "judge/seconds": Tally(total=2.0, per=8),
        "judge/agreement": Tally(total=0, per=0),
    }
    assert term.metrics()["judge/calls"] == Tally(total=0)


def test_agreement_of_a_panel_is_counted():
    term = JudgedAnswer(JudgePanel([Says(1, 3, 5), Says(1, 3, 5)]))
    term.score_all(episodes(3))

    assert term.metrics()["judge/agreement"] == Tally(total=3.0, per=3.0)


def test_a_step_without_any_score_is_warned_of():
    with pytest.warns(UserWarning, match="judge says scored none of 2 answers: mute"):
        JudgedAnswer(Says(None)).score_all(episodes(2))


def test_an_outage_ends_the_run_or_leaves_answers_unscored_with_one_warning():
    with pytest.raises(JudgeOutageError):
        JudgedAnswer(Says(OUT)).score_all(episodes(2))

    judge = Says(OUT)
    term = JudgedAnswer(judge, on_outage="unscored")
    with pytest.warns(UserWarning, match="Expected judge says to answer.*; answers stay unscored until it is back"):
        assert term.score_all(episodes(2)) == [None, None]
    assert term.score_all(episodes(2)) == [None, None]
    judge.scores = (5,)
    assert term.score_all(episodes(2)) == [1.0, 1.0]


def test_an_outage_keeps_what_was_judged_counts_what_failed_and_its_end_is_told(capsys):
    outage = JudgeOutageError("Expected judge says to answer, but got: nothing")
    outage.judgments = (Judgment(score=5), Judgment(score=None, failure="nothing", calls=3, failed_calls=3))
    judge = Says(outage)
    term = JudgedAnswer(judge, on_outage="unscored")

    with pytest.warns(UserWarning, match="answers stay unscored until it is back"):
        assert term.score_all(episodes(2)) == [1.0, None]
    assert term.metrics()["judge/failed"] == Tally(total=3, per=3)
    assert capsys.readouterr().out == ""
    judge.scores = (5,)
    term.score_all(episodes(2))
    term.score_all(episodes(2))
    assert capsys.readouterr().out == "judge says is back\n"


def test_what_one_judge_of_a_panel_scored_in_an_outage_is_no_score_of_the_panel():
    outage = JudgeOutageError("Expected judge says to answer, but got: nothing")
    outage.judgments = (Judgment(score=5),)
    term = JudgedAnswer(JudgePanel([Says(outage), Says(1)]), on_outage="unscored")

    with pytest.warns(UserWarning, match="answers stay unscored"):
        assert term.score_all(episodes(1)) == [None]


def hybrid(*scores, **options):
    answer = JudgedAnswer(Says(*scores), on_outage="unscored")
    reward = HybridReward(answer, {"said": NonEmptyAnswer()}, **options)
    (group,) = reward.score_groups([(TASK, [trajectory for _, trajectory in episodes(2)])])
    return group


def test_the_reason_of_a_score_or_of_none_stands_with_the_trajectory():
    class Explains(Judge):
        name = "explains"

        def judge_all(self, cases):
            right = Judgment(score=5, reason="It is right.")
            return [right, Judgment(score=None, failure="cut off"), Judgment(score=4, reason="r" * 1000)]

    reward = HybridReward(JudgedAnswer(Explains()), {"said": NonEmptyAnswer()})
    (group,) = reward.score_groups([(TASK, [trajectory for _, trajectory in episodes(3)])])

    assert [one.reward_notes["answer"] for one in group] == [
        "It is right.",
        "no score: cut off",
        "r" * 400 + " [... 600 characters]",
    ]


def test_one_measure_holds_in_a_group():
    alone = "no answer of a group could be scored: such groups go by their process alone"
    with pytest.warns(UserWarning, match="scored none of 2"), pytest.warns(UserWarning, match=alone):
        group = hybrid(None, without_answer="process")
    assert [one.reward for one in group] == [1.0, 1.0]
    assert [one.reward_terms["trust"] for one in group] == [0.0, 0.0]

    # One that was scored is enough for the others to be left out.
    assert [one.reward for one in hybrid(0, None, without_answer="process")] == [pytest.approx(0.4), None]
    with pytest.warns(UserWarning, match="scored none of 2"):
        assert [one.reward for one in hybrid(None)] == [None, None]


def test_terms_that_are_shaped_or_weighted_pass_on_what_was_counted():
    term = JudgedAnswer(Says(4))
    reward = Reward({"answer": term})
    reward(*episodes(1)[0])

    assert reward.metrics()["judge/calls"] == Tally(total=2)
    assert math.isclose(reward(*episodes(1)[0]).reward, 0.8)


def test_a_case_holds_all_that_was_said_and_done():
    task, trajectory = episodes(1)[0]

    case = case_of(task, trajectory)

    roles = [message.role.value for message in case.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "assistant"]
    assert case.answers == ("Done.", "Done.")
    assert (case.references, case.cut_off, case.final_answer) == (("One.", "Two."), "", "Done.")


def test_a_user_turn_that_was_not_reached_has_an_empty_answer():
    cut = replace(episode(TASK, [[[call("ls", a=True)]]]), termination=Termination.MAX_TURNS)

    case = case_of(TASK, cut)

    assert case.answers == ("Done.", "")
    assert (case.final_answer, case.cut_off) == ("", "max_turns")


def test_what_comes_beside_a_call_is_no_answer():
    trajectory = episode(TASK, [[[call("ls", a=True)]]])
    calling = replace(trajectory.turns[0].message, content="I look.")
    cut = replace(trajectory, turns=tuple(replace(turn, message=calling) for turn in trajectory.turns))

    assert case_of(TASK, cut).answers == ("", "")
    assert (
        Message(role=Role.ASSISTANT, content="I look.", tool_calls=(call("ls", a=True),)) in case_of(TASK, cut).messages
    )
