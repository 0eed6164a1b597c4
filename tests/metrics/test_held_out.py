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
    row = {"task_id": "b", "kind": "files", "sampled": [None, 0.5], "greedy": 0.0, "terms": {}}
    assert SCORES[1].to_json() == row


def test_every_term_has_a_mean_for_each_way_of_decoding():
    terms = {"lenient": (1.0, 0.0, 1.0), "strict": (None, 0.0, 0.0), "judge": (None, None, None)}
    means = held_out_means([HeldOutScore(task_id="a", kind="x", sampled=(1.0, 0.0), greedy=1.0, terms=terms)])

    found = {name: mean for name, mean in means.items() if name.startswith("reward_term")}
    assert found == {
        "reward_term_sampled/lenient": 0.5,
        "reward_term_greedy/lenient": 1.0,
        "reward_term_sampled/strict": 0.0,
        "reward_term_greedy/strict": 0.0,
    }


def test_an_unscored_greedy_episode_is_counted_where_one_was_run():
    unscored = HeldOutScore(task_id="a", kind="x", sampled=(1.0,), greedy=None, terms={"t": (1.0, None)})
    scored = HeldOutScore(task_id="b", kind="x", sampled=(1.0,), greedy=1.0, terms={"t": (1.0, 1.0)})
    not_run = HeldOutScore(task_id="c", kind="x", sampled=(1.0,), greedy=None, terms={"t": (1.0,)})

    assert held_out_means([unscored, scored, not_run])["unscored_greedy"] == 0.5
