import gguf
import pytest
from tests.fixtures.tokenizers import byte_tokenizer, chat_template
from tokenizers import pre_tokenizers

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


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "models/base/nothing", "~/no-such-folder"])
def test_a_missing_folder_is_told_without_asking_for_a_repository(name):
    with pytest.raises(DataError) as caught:
        load_tokenizer(name)
    assert str(caught.value) == f"Expected `name_or_path` to be a folder or a model id, but got {name!r}"


def test_a_model_that_no_hub_gives_is_named_in_one_line():
    with pytest.raises(DataError, match="Expected a tokenizer at 'nobody/nothing', but got") as caught:
        load_tokenizer("nobody/nothing")
    assert "\n" not in str(caught.value)


def test_a_tokenizer_is_read_from_a_gguf_file(tmp_path):
    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "he", "ll"]
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([3] * 3 + [1] * (len(words) - 3))
    writer.add_token_merges(["h e", "l l"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    tokenizer = load_tokenizer(str(tmp_path), gguf_file="tiny.gguf", chat_template="hermes_chatml")
    assert tokenizer.encode("hell<|im_end|>", add_special_tokens=False) == [words.index(w) for w in ("he", "ll")] + [2]


def test_a_missing_gguf_file_is_named(folder):
    with pytest.raises(DataError, match=r"Expected `gguf_file` to be a file in .*, but got 'nothing\.gguf'"):
        load_tokenizer(str(folder), gguf_file="nothing.gguf")


def test_a_missing_template_is_named_with_those_there_are(folder):
    with pytest.raises(DataError, match=r"one of \['hermes_chatml'\]"):
        load_tokenizer(str(folder), chat_template="no/such.jinja")
