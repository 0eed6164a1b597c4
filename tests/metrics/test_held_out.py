import pytest

from streakline.metrics.held_out import HeldOutScore, held_out_means

SCORES = [
    HeldOutScore(task_id="a", kind="files", sampled=(1.0, 0.0), greedy=1.0),
    HeldOutScore(task_id="b", kind="files", sampled=(None, 0.5), greedy=0.0),
    HeldOutScore(task_id="c", kind="maths", sampled=(None, None), greedy=None),
]


def test_each_task_weighs_the_same_and_unscored_episodes_are_left_out():
    means = held_out_means(SCORES)

    assert means["success_sampled"] == pytest.approx((0.5 + 0.0) / 2)
    assert means["score_sampled"] == pytest.approx((0.5 + 0.5) / 2)
    assert means["success_greedy"] == pytest.approx(0.5)
    assert means["success_greedy/files"] == pytest.approx(0.5)
    assert means["unscored"] == pytest.approx((0.0 + 0.5 + 1.0) / 3)


def test_what_was_never_scored_has_no_mean():
    assert "success_sampled/maths" not in held_out_means(SCORES)
    assert held_out_means([]) == {}


def test_a_row_of_the_score_file():
    assert SCORES[1].to_json() == {"task_id": "b", "kind": "files", "sampled": [None, 0.5], "greedy": 0.0}
