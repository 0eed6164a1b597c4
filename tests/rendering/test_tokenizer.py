import pytest
from tests.fixtures.tokenizers import byte_tokenizer, chat_template

from streakline.errors import ConfigError, DataError
from streakline.rendering.tokenizer import load_tokenizer, read_chat_template


@pytest.fixture
def folder(tmp_path):
    byte_tokenizer("qwen3").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def bare_folder(tmp_path):
    tokenizer = byte_tokenizer("qwen3")
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "bare")
    return tmp_path / "bare"


def test_a_tokenizer_comes_with_its_own_template(folder):
    assert load_tokenizer(str(folder)).chat_template == chat_template("qwen3")


def test_a_template_file_replaces_it(folder, tmp_path):
    path = tmp_path / "own.jinja"
    path.write_text("{{ messages[0].content }}")
    assert load_tokenizer(str(folder), chat_template=str(path)).chat_template == "{{ messages[0].content }}"


def test_a_template_that_comes_with_the_package_is_known_by_name(bare_folder):
    tokenizer = load_tokenizer(str(bare_folder), chat_template="hermes_chatml")
    assert tokenizer.chat_template == read_chat_template("hermes_chatml")
    assert "<tool_call>" in tokenizer.chat_template


def test_a_model_without_template_is_refused_in_one_line(bare_folder):
    with pytest.raises(ConfigError, match="to have a chat template, but it has none") as caught:
        load_tokenizer(str(bare_folder))
    assert "\n" not in str(caught.value)


def test_a_missing_tokenizer_is_named_in_one_line(tmp_path):
    with pytest.raises(DataError, match="Expected a tokenizer at") as caught:
        load_tokenizer(str(tmp_path / "nothing"))
    assert "\n" not in str(caught.value)


def test_a_missing_template_is_named_with_those_there_are(folder):
    with pytest.raises(DataError, match=r"one of \['hermes_chatml'\]"):
        load_tokenizer(str(folder), chat_template="no/such.jinja")
