import pytest

from streakline.errors import DataError
from streakline.rendering.tokenizer import first_line, resolve_source


def test_a_folder_is_told_from_a_model_id(tmp_path):
    (tmp_path / "data").mkdir()
    assert resolve_source("data") == ("data", True)
    assert resolve_source("./data/") == ("data", True)
    assert resolve_source("Qwen/Qwen3-0.6B") == ("Qwen/Qwen3-0.6B", False)
    assert resolve_source("gpt2") == ("gpt2", False)


@pytest.mark.parametrize("name", ["data/bsae", "a/b/c", "/data", "./nothing", "../nothing", "~", "models/", "my model"])
def test_what_can_only_be_a_folder_is_not_looked_for_on_the_hub(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    (tmp_path / "inner" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(DataError, match=f"Expected `name_or_path` to be a folder or a model id, but got {name!r}"):
        resolve_source(name)


def test_of_a_message_the_first_line_is_told():
    assert first_line(OSError("\nno file\nadvice")) == "no file"
    assert first_line(KeyError()) == "KeyError"
