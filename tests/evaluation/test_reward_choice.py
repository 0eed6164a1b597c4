import pytest
from tests.fixtures.reward_rows import row, scored, write

from streakline.errors import ConfigError, DataError
from streakline.evaluation.reward_choice import choose, rank, trajectory_files


def _run(tmp_path, *names):
    for name in names:
        write(tmp_path / "trajectories" / name, row())
    return tmp_path


@pytest.mark.parametrize(
    ("stage", "found"),
    [
        (None, ["test.jsonl"]),
        ("train", ["train-000000.jsonl", "train-000010.jsonl"]),
        ("all", ["test.jsonl", "train-000000.jsonl", "train-000010.jsonl"]),
    ],
)
def test_the_files_of_a_stage(tmp_path, stage, found):
    run = _run(tmp_path, "train-000010.jsonl", "train-000000.jsonl", "test.jsonl")

    assert [path.name for path in trajectory_files(run, stage=stage)] == found


def test_a_run_that_was_only_trained_shows_its_training(tmp_path):
    run = _run(tmp_path, "train-000000.jsonl")

    assert [path.name for path in trajectory_files(run)] == ["train-000000.jsonl"]
    with pytest.raises(DataError, match=r"trajectories of `test` in .*trajectories, but got those of train"):
        trajectory_files(run, stage="test")


def test_a_file_is_taken_as_it_is_and_a_folder_without_any_is_refused(tmp_path):
    path = write(tmp_path / "mine.jsonl", row())

    assert trajectory_files(path) == (path,)
    with pytest.raises(DataError, match=r"but got none: `python main\.py test` writes them"):
        trajectory_files(tmp_path / "nowhere")


def test_rows_of_a_kind_and_of_a_task(tmp_path):
    rows = scored(tmp_path, row(), row(kind="numbers", task_id="test/b"), row(task_id="test/b"))

    assert [one.where[-1] for one in choose(rows, kind="words")] == ["1", "3"]
    assert [one.where[-1] for one in choose(rows, kind="words", task="test/b")] == ["3"]
    with pytest.raises(ConfigError, match="Expected trajectories of task 'test/a' and kind 'numbers', but got none"):
        choose(rows, kind="numbers", task="test/a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "x"}, "Expected `kind` to be one of words, but got 'x'"),
        ({"task": "x"}, "Expected `task` to be one of test/a, but got 'x'"),
        ({"sort": "x"}, "Expected `sort` to be one of answer, leak, names, process, reward, trust, untiered, but got"),
    ],
)
def test_names_that_no_row_has_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        choose(scored(tmp_path, row()), **options)


def _places(rows):
    return [int(one.where.rsplit(" ", 1)[1]) for one in rows]


def test_the_ends_are_apart_and_unscored_rows_are_in_neither(tmp_path):
    found = rank(scored(tmp_path, *map(row, (0.5, None, 1.0, 0.0))), top=2, bottom=2)

    assert [_places(end) for end in (found.highest, found.lowest, found.unscored)] == [[3, 1], [4], [2]]


@pytest.mark.parametrize(
    ("top", "bottom", "ends"),
    [(5, 5, ([1, 2], [3])), (0, 5, ([], [3, 2, 1])), (9, 0, ([1, 2, 3], [])), (0, 0, ([], []))],
)
def test_few_rows_are_shared_out_between_the_ends(tmp_path, top, bottom, ends):
    found = rank(scored(tmp_path, *map(row, (1.0, 0.5, 0.0))), top=top, bottom=bottom)

    assert (_places(found.highest), _places(found.lowest)) == ends


def test_any_term_decides_what_is_high(tmp_path):
    terms = [{"judge": value} for value in (0.2, None, 0.9)]
    rows = scored(tmp_path, *(row(1.0, terms=each) for each in terms), row(1.0, terms={"other": 1.0}))
    found = rank(rows, sort="judge", top=1, bottom=1)

    assert [_places(end) for end in (found.highest, found.lowest, found.unscored)] == [[3], [1], [2, 4]]


def test_of_equal_rewards_each_kind_comes_once_before_any_comes_twice(tmp_path):
    rows = scored(tmp_path, *(row(1.0, kind=kind) for kind in ("a", "a", "b", "c", "b")), row(0.0, kind="a"))

    assert _places(rank(rows, top=5, bottom=1).highest) == [1, 3, 4, 2, 5]


def test_none_of_an_end_may_be_asked_for(tmp_path):
    found = rank(scored(tmp_path, row(), row(0.0)), top=0, bottom=1)

    assert (_places(found.highest), _places(found.lowest)) == ([], [2])
