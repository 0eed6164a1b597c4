import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streakline.algorithms.streaks import StreakTable
from streakline.errors import ConfigError, RecordError

RIGHT, WRONG = [1.0, 1.0], [1.0, 0.0]


def _activity(epochs, **options):
    """Which of epochs trains on a task that is right whenever it is trained on."""
    table = StreakTable(**{"probe_fraction": 0.0} | options)
    active = []
    for epoch in range(epochs):
        table.begin_epoch(epoch)
        active.append(table.is_active("a"))
        if active[-1]:
            table.observe("a", RIGHT)
    return "".join(".x"[on] for on in active)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"k": 1, "rest": 1}, "x.x.x.x."),
        ({"k": 2, "rest": 1}, "xx.xx.xx"),
        ({"k": 1, "rest": 3}, "x...x..."),
        ({"k": 2, "rest": None}, "xx......"),
    ],
)
def test_a_solved_task_is_skipped_and_comes_back(options, expected):
    assert _activity(8, **options) == expected


@given(st.lists(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), max_size=2), max_size=8), st.integers(1, 3))
def test_without_a_way_back_an_epoch_skips_what_the_papers_counter_says(epochs, k):
    # [epochs][visits][right or wrong]; the counter written out, an epoch without a visit leaves it.
    table, counter = StreakTable(k=k, rest=None, probe_fraction=0.0), 0
    for epoch, visits in enumerate(epochs):
        table.begin_epoch(epoch)
        assert table.is_active("a") == (counter < k)
        for visit in visits:
            table.observe("a", [float(right) for right in visit])
        if visits:
            counter = counter + 1 if all(all(visit) for visit in visits) else 0


def test_all_wrong_tasks_are_never_skipped():
    table = StreakTable()
    for epoch in range(3):
        table.begin_epoch(epoch)
        assert table.is_active("a")
        table.observe("a", [0.0, 0.0])


def test_a_graded_reward_is_right_from_the_threshold():
    table = StreakTable(threshold=0.8)
    table.observe("a", [0.8, 0.95])
    table.observe("b", [0.79, 1.0])
    table.begin_epoch(1)

    assert table.skipped == ("a",)


def test_a_task_that_reaches_k_is_trained_until_the_epoch_ends():
    table = StreakTable(k=1)
    table.observe("a", RIGHT)

    assert table.is_active("a")
    assert table.begin_epoch(1)
    assert not table.is_active("a")
    assert not table.begin_epoch(1)


def test_a_wrong_probe_breaks_the_streak_at_once_and_a_right_one_does_not_hold_the_task_back():
    broken, held = (StreakTable(k=2, rest=3, probe_fraction=1.0) for _ in range(2))
    for table in (broken, held):
        for epoch in range(2):
            table.begin_epoch(epoch)
            table.observe("a", RIGHT)
        table.begin_epoch(2)
        assert table.is_probe("a")
    broken.observe("a", WRONG)
    held.observe("a", RIGHT)

    assert broken.state_dict()["streaks"]["a"] == 0
    active = []
    for epoch in (3, 4, 5):
        for table in (broken, held):
            table.begin_epoch(epoch)
        active.append((broken.is_active("a"), held.is_active("a")))
    assert active == [(True, False), (True, False), (True, True)]


def test_an_unscored_trajectory_neither_makes_nor_saves_a_streak():
    cases = {"open": [1.0, None], "wrong": [0.0, None], "nothing": [None], "empty": [], "right": [1.0]}
    table = StreakTable(k=1)
    verdicts = {name: table.observe(name, rewards) for name, rewards in cases.items()}
    table.begin_epoch(1)

    assert verdicts == {"open": None, "wrong": False, "nothing": None, "empty": None, "right": True}
    assert table.skipped == ("right",)


def test_probes_are_a_share_of_the_skipped_that_changes_by_epoch_and_seed():
    names = [str(index) for index in range(2000)]
    chosen = []
    for seed, epoch in ((0, 1), (0, 2), (1, 1), (0, 1)):
        table = StreakTable(rest=None, probe_fraction=0.05, seed=seed)
        for name in names:
            table.observe(name, RIGHT)
        table.observe("wrong", WRONG)
        for number in range(1, epoch + 1):
            table.begin_epoch(number)
        chosen.append({name for name in [*names, "wrong"] if table.is_probe(name)})

    assert chosen[0] == chosen[3]
    assert len({frozenset(probes) for probes in chosen}) == 3
    assert all(70 <= len(probes) <= 130 for probes in chosen)
    assert "wrong" not in set.union(*chosen)


def test_state_survives_json_in_the_middle_of_an_epoch():
    def play(table, epochs):
        for epoch in epochs:
            table.begin_epoch(epoch)
            for name in "abcd":
                if table.is_active(name):
                    table.observe(name, WRONG if name == "a" and epoch == 2 else RIGHT)
            table.observe("d", WRONG)

    whole, first = StreakTable(k=2, rest=2), StreakTable(k=2, rest=2)
    play(whole, range(6))
    play(first, range(3))
    resumed = StreakTable(k=2, rest=2)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert first.state_dict() == resumed.state_dict()
    play(resumed, range(3, 6))

    assert resumed.state_dict() == whole.state_dict()


def test_a_saved_state_is_a_copy():
    table = StreakTable()
    table.observe("a", RIGHT)
    state = table.state_dict()
    table.observe("b", RIGHT)

    assert state["streaks"] == {"a": 1}


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("k", "k", 0),
        ("rest", "cooldown", 0),
        ("probe_fraction", "probe_fraction", -0.1),
        ("probe_fraction", "probe_fraction", 1.5),
        ("threshold", "threshold", float("nan")),
    ],
)
def test_a_value_out_of_range_is_named_with_its_option(option, name, value):
    with pytest.raises(ConfigError, match=rf"Expected `streak_filter\.{name}` to be .*, but got {value}"):
        StreakTable(**{option: value})


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(RecordError, match="rewards to be numbers or None"):
        StreakTable().observe("a", [1.0, float("nan")])
