import json

import pytest

from streakline.data.jsonl import parse_object, read_jsonl, write_jsonl
from streakline.errors import DataError


def test_what_is_written_is_read_with_its_lines(tmp_path):
    path = tmp_path / "folder" / "rows.jsonl"
    write_jsonl(path, [{"a": "n\u00f6tes"}, {"b": [1, None]}])

    assert list(read_jsonl(path)) == [(1, {"a": "n\u00f6tes"}), (2, {"b": [1, None]})]
    assert "n\u00f6tes" in path.read_text(encoding="utf-8")


def test_empty_lines_are_skipped_but_counted(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('\n{"a": 1}\n  \n\n{"a": 2}')

    assert list(read_jsonl(path)) == [(2, {"a": 1}), (5, {"a": 2})]


def test_a_line_cut_anywhere_is_named_in_one_line(tmp_path):
    whole = json.dumps({"messages": ["hello", None], "n": 12})
    path = tmp_path / "rows.jsonl"
    for length in range(1, len(whole)):
        path.write_text(f"{whole}\n{whole[:length]}\n")

        with pytest.raises(DataError) as error:
            list(read_jsonl(path))

        message = str(error.value)
        assert message.startswith(f"Expected a JSON object in {path}, line 2, but got ")
        assert "\n" not in message


@pytest.mark.parametrize(
    "tail", ['{"messages": [{"role": "user"', '{"task_id": "a", "messages"', '{"task_id": "unfini']
)
def test_a_line_that_breaks_off_says_where(tmp_path, tail):
    path = tmp_path / "rows.jsonl"
    path.write_text(tail + "\n")

    with pytest.raises(DataError) as error:
        list(read_jsonl(path))

    assert str(error.value) == f"Expected a JSON object in {path}, line 1, but got text that breaks off after {tail!r}"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{broken}", r"line 1, but got 'broken}' at column 2: Expecting property name"),
        ("[1]", "line 1, but got list"),
        ("null", "line 1, but got NoneType"),
    ],
)
def test_anything_but_an_object_is_refused(tmp_path, line, complaint):
    path = tmp_path / "rows.jsonl"
    path.write_text(line)

    with pytest.raises(DataError, match=complaint):
        list(read_jsonl(path))


@pytest.mark.parametrize("line", [b'{"a": "\xe4"}', "[" * 100_000, f'{{"a": {"9" * 5000}}}'])
def test_bytes_and_depths_that_no_reader_takes_are_faults_of_the_data(line):
    with pytest.raises(DataError, match="Expected a JSON object in here, but got"):
        parse_object(line, where="here")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r"Expected a readable file at .*none\.jsonl, but got: No such file"):
        list(read_jsonl(tmp_path / "none.jsonl"))
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"a": "\xe4"}')
    with pytest.raises(DataError, match=r"Expected UTF-8 text in .*latin\.jsonl"):
        list(read_jsonl(path))


def test_a_failed_write_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"a": 1}])

    def rows():
        yield {"a": 2}
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left on device"):
        write_jsonl(path, rows())
    assert list(read_jsonl(path)) == [(1, {"a": 1})]
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_lone_surrogate_is_written_as_the_escape_that_it_was_read_from(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [{"a": "\ud800"}])

    assert (tmp_path / "rows.jsonl").read_text(encoding="utf-8") == '{"a": "\\ud800"}\n'
    assert list(read_jsonl(tmp_path / "rows.jsonl")) == [(1, {"a": "\ud800"})]
