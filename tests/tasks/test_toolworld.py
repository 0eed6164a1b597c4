from collections import Counter

import pytest
from tests.fixtures.toolworld_values import calls_of, owned_values

from streakline.environment.replay import gold_outcomes, replay
from streakline.errors import ConfigError
from streakline.tasks.toolworld import HABITS, KINDS, ToolWorldTaskSet
from streakline.tasks.toolworld.catalogue import tools_of
from streakline.tasks.toolworld.kinds import PHRASES
from streakline.tasks.toolworld.values import owner

SPLITS = ("train", "validation", "test")
MINIMUM_PHRASES = {"base": 3, "train": 4, "validation": 2, "test": 3}


@pytest.mark.parametrize("split", SPLITS)
def test_gold_calls_succeed_in_every_task_and_writes_change_the_world(split):
    for task in ToolWorldTaskSet(200, split=split, seed=11, user_turns=(1, 2, 3)):
        outcomes = gold_outcomes(task)
        start = replay(task, [()])[0].state
        assert not [result for outcome in outcomes for result in outcome.results if result.is_error], task.id
        if task.kind in {"write_note", "file_away", "close_open_ticket", "start_engine", "swap_watch", "buy_at_market"}:
            assert outcomes[0].state != start, task.id


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_changes_the_world_or_reads_or_calls_nothing(kind):
    (task,) = ToolWorldTaskSet(1, split="train", kinds=[kind], user_turns=(1, 2))
    changed = replay(task, [()])[0].state != gold_outcomes(task)[-1].state
    assert changed == (kind not in {"missing_tool", "sum_then_scale"})
    assert task.kind == kind


@pytest.mark.parametrize("schema", ["short", "long"])
def test_a_task_depends_on_seed_and_index_alone(schema):
    small = ToolWorldTaskSet(20, split="train", seed=4, schema=schema).tasks()
    large = ToolWorldTaskSet(40, split="train", seed=4, schema=schema)
    assert small == large.tasks()[:20]
    assert large[39] == large[39]
    assert len({task.id for task in large}) == 40
    assert small[3].id == f"toolworld/train/{schema}/4/3"


def test_options_that_change_the_tasks_change_the_ids():
    def first_id(**options):
        return ToolWorldTaskSet(1, split="train", **options)[0].id

    variants = [
        {},
        {"seed": 1},
        {"levels": (1,)},
        {"user_turns": (1,)},
        {"distractors": 3},
        {"schema": "long"},
        {"kinds": ["open_ticket"]},
    ]
    ids = {first_id(**options) for options in variants}
    assert len(ids) == len(variants)
    assert first_id(levels=(2, 1, 3, 4), user_turns=(2, 1), distractors=2) == first_id()


def test_kinds_are_balanced():
    counts = Counter(task.kind for task in ToolWorldTaskSet(10 * len(KINDS), split="test"))
    assert counts == dict.fromkeys(KINDS, 10)


def test_no_phrase_occurs_twice_and_every_split_has_enough():
    seen = set()
    for kind, splits in PHRASES.items():
        for split, phrases in splits.items():
            assert len(phrases) >= MINIMUM_PHRASES[split], (kind, split)
            for phrase in phrases:
                assert phrase not in seen, phrase
                seen.add(phrase)
    assert set(PHRASES) == set(KINDS) - {"missing_tool"}


def test_splits_share_no_value():
    values = {}
    for split in SPLITS:
        tasks = ToolWorldTaskSet(400, split=split, seed=2, user_turns=(1, 2, 3)).tasks()
        values[split] = set().union(*map(owned_values, tasks))
        # What a conversion returns follows from an amount that is owned, and so occurs in one split only as well.
        strangers = {value for value in values[split] if owner(value) != split and "." not in value}
        assert not strangers
    for split in SPLITS:
        assert len(values[split]) > 300
        for other in SPLITS:
            assert split == other or not values[split] & values[other]


def test_texts_hold_the_values_that_must_be_copied():
    for task in ToolWorldTaskSet(
        200, split="test", kinds=["message_by_name", "open_ticket", "swap_watch"], user_turns=(1,)
    ):
        arguments = {
            str(value) for call in calls_of(task) for name, value in call.arguments.items() if name != "receiver_id"
        }
        assert all(value in task.requests[0][0].content for value in arguments)


def test_a_looked_up_value_is_not_in_the_request():
    for task in ToolWorldTaskSet(50, split="test", kinds=["message_by_name", "buy_at_market"]):
        used = task.gold[0][1][0].arguments
        value = used["receiver_id"] if "receiver_id" in used else used["price"]
        assert str(value) not in task.requests[0][0].content
        assert str(value) in gold_outcomes(task)[0].results[0].content


def test_tools_are_those_needed_and_distractors():
    for task in ToolWorldTaskSet(200, split="train", user_turns=(1, 2, 3), distractors=3):
        shown = [schema.name for schema in task.tools]
        revealed = {schema.name for schemas in task.revealed_tools.values() for schema in schemas}
        needed = {call.name for call in calls_of(task)} - revealed
        assert len(set(shown)) == len(shown)
        assert needed <= set(shown)
        assert not revealed & set(shown)
        assert len(shown) == len(needed) + 3


def test_an_agent_with_fixed_tools_sees_all_of_its_simulators_but_what_is_withheld():
    for task in ToolWorldTaskSet(60, split="train", user_turns=(1, 2, 3), distractors="simulators"):
        shown = [schema.name for schema in task.tools]
        revealed = {schema.name for schemas in task.revealed_tools.values() for schema in schemas}
        assert len(set(shown)) == len(shown)
        assert not revealed & set(shown)
        everything = {name for simulator in task.simulators for name in tools_of(simulator)}
        assert set(shown) <= everything
        assert len(everything - set(shown)) == (task.kind in {"late_tool", "missing_tool"})


def test_a_tool_that_comes_late_is_not_shown_before():
    for task in ToolWorldTaskSet(40, split="train", kinds=["late_tool"], user_turns=(2, 3)):
        (tool,) = task.revealed_tools[1]
        assert tool.name in task.requests[1][0].content
        assert task.gold[0] == ()
        assert task.gold[1][0][0].name == tool.name


def test_a_missing_tool_stays_missing():
    for task in ToolWorldTaskSet(40, split="train", kinds=["missing_tool"], user_turns=(1,)):
        assert task.gold == ((),)
        assert task.tools
        assert task.replies == ("I can't do that.",)
        assert not task.revealed_tools


def test_levels_count_calls():
    for level in (1, 2, 3, 4):
        for task in ToolWorldTaskSet(30, split="train", levels=(level,), user_turns=(1, 2, 3)):
            calls = sum(max(1, sum(len(step) for step in steps)) for steps in task.gold)
            assert task.level == level == min(calls, 4)


def test_the_number_of_user_turns_is_as_asked():
    turns = {
        len(task.requests) for task in ToolWorldTaskSet(200, split="train", user_turns=(1, 3), levels=(1, 2, 3, 4))
    }
    assert turns == {1, 3}
    kinds = {task.kind for task in ToolWorldTaskSet(100, split="train", user_turns=(1,))}
    assert kinds == set(KINDS) - {"remove_unnamed", "late_tool"}


def test_long_schemas_are_the_benchmarks_own():
    short = ToolWorldTaskSet(30, split="train")
    long = ToolWorldTaskSet(30, split="train", schema="long")

    def characters(tasks):
        sizes = [sum(len(tool.description) + len(str(tool.parameters)) for tool in task.tools) for task in tasks]
        return sum(sizes) / len(sizes)

    assert 4000 < characters(long) < 8000
    assert characters(short) < 1200
    assert any("Tool description: " in tool.description for tool in long[0].tools)
    assert all(
        "description" not in tool.parameters["properties"].get("title", {}) for task in short for tool in task.tools
    )
    assert all(tool.description.endswith(".") and len(tool.description) < 130 for task in short for tool in task.tools)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "base"}, "Expected `split` to be one of train, validation, test, but got 'base'"),
        ({"kinds": ["no_such"]}, r"Expected `kinds` to be among write_note, .* but got \['no_such'\]"),
        ({"kinds": []}, "Expected `kinds`"),
        ({"kinds": ["late_tool"], "user_turns": (1,)}, "Expected `kinds` to be possible with"),
        ({"levels": (5,)}, "Expected `levels`"),
        ({"user_turns": ()}, "Expected `user_turns`"),
        ({"distractors": -1}, "Expected `distractors`"),
        ({"distractors": "all"}, "Expected `distractors` to be at least 0 or 'simulators', but got 'all'"),
        ({"schema": "medium"}, "Expected `schema`"),
        ({"size": -1}, "Expected `size`"),
    ],
)
def test_options_outside_what_they_can_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        ToolWorldTaskSet(**{"size": 3, "split": "train", **options})


def test_a_level_out_of_reach_is_refused():
    with pytest.raises(ConfigError, match=r"Expected `kinds` to be possible with levels \[4\] and user turns \(1,\)"):
        ToolWorldTaskSet(1, split="train", kinds=["open_ticket"], user_turns=(1,), levels=(4,))
    with pytest.raises(ConfigError, match="Expected `kinds`"):
        ToolWorldTaskSet(1, split="train", user_turns=(1,), levels=(4,))


def test_an_index_outside_the_set_is_an_index_error():
    with pytest.raises(IndexError):
        ToolWorldTaskSet(3, split="train")[3]


def test_about_half_of_the_kinds_have_a_habit_that_is_often_shown():
    shares = [habit.share for habit in HABITS.values()]
    assert sum(0.45 <= share <= 0.6 for share in shares) >= len(KINDS) // 2
    assert all(share <= 0.1 or 0.45 <= share <= 0.6 for share in shares)
