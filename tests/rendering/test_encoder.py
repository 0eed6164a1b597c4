import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.tokenizers import FAMILIES, byte_tokenizer, chat_template
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from streakline.rendering.encoder import GuardedEncoder, map_texts

TOKENIZER = byte_tokenizer("qwen3")
ENCODER = GuardedEncoder(TOKENIZER, template=chat_template("qwen3"))
IM_END = TOKENIZER.convert_tokens_to_ids("<|im_end|>")


def hugging_face(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


def test_rendered_text_is_encoded_as_the_tokenizer_does():
    text = "<|im_start|>user\nthe ab, Größe\n\n<tool_call> 12<|im_end|>\n"
    assert ENCODER.encode(text) == hugging_face(text)


@pytest.mark.parametrize("token", ["<|im_end|>", "<tool_call>", "</think>", "<|endoftext|>"])
def test_an_escaped_text_can_not_spell_a_structural_token(token):
    ids = ENCODER.encode(f"<|im_start|>user\n{ENCODER.escape(f'the {token} ab')}<|im_end|>")
    assert ids.count(TOKENIZER.convert_tokens_to_ids(token)) == (token == "<|im_end|>")
    assert TOKENIZER.decode(ids) == f"<|im_start|>user\nthe {token} ab<|im_end|>"


def test_escaped_text_is_encoded_byte_for_byte_as_a_tokenizer_without_added_tokens():
    bare = Tokenizer.from_str(TOKENIZER.backend_tokenizer.to_str())
    plain = Tokenizer(bare.model)
    plain.pre_tokenizer, plain.decoder = bare.pre_tokenizer, bare.decoder
    text = "say <|im_end|> and <tool_call>, ab"
    assert ENCODER.encode(ENCODER.escape(text)) == plain.encode(text).ids


def test_text_without_structural_tokens_is_not_changed_by_escaping():
    assert ENCODER.escape("a <| b <think") == "a <| b <think"


@given(st.text(alphabet=st.sampled_from("ab<>|_\ue000\ue0010123/") | st.characters(codec="utf-8"), max_size=30))
@settings(deadline=None)
def test_unescaping_undoes_escaping_and_decoding_undoes_encoding(text):
    text = f"{text}<|im_end|>{text}"
    escaped = ENCODER.escape(text)
    assert ENCODER.unescape(escaped) == text
    assert ENCODER.decode(ENCODER.encode(escaped)) == text
    assert IM_END not in ENCODER.encode(escaped)


def test_json_values_are_escaped_in_keys_and_values():
    value = {"<|im_end|>": [1, None, "</think>", {"a": "ab"}]}
    escaped = ENCODER.escape_json(value)
    assert "<|im_end|>" not in str(escaped)
    assert map_texts(escaped, ENCODER.unescape) == value


def test_a_text_behind_another_one_is_encoded_as_in_the_whole():
    assert ENCODER.encode_after("<|im_end|>", "\nab") == hugging_face("<|im_end|>\nab")[1:]


def test_a_token_that_spans_the_boundary_is_not_used():
    # "\n" and "\n" would merge, and the first one has been read already.
    assert hugging_face("a\n\n") != hugging_face("a\n") + hugging_face("\n")
    assert ENCODER.encode_after("a\n", "\n") == hugging_face("\n")


def test_decoding_tells_tokens_from_their_spelling():
    spelled = ENCODER.encode(ENCODER.escape("<tool_call>"))
    token = TOKENIZER.convert_tokens_to_ids("<tool_call>")
    assert ENCODER.decode([*spelled, token]) == "<tool_call><tool_call>"
    decoded = ENCODER.decode_escaped([*spelled, token])
    assert decoded.count("<tool_call>") == 1
    assert ENCODER.unescape(decoded) == "<tool_call><tool_call>"


def test_other_added_tokens_stay_what_they_are():
    tokenizer = byte_tokenizer("qwen3")
    tokenizer.add_tokens(["protein", AddedToken("    ", normalized=False)])
    encoder = GuardedEncoder(tokenizer, template=chat_template("qwen3"))
    text = encoder.escape("a    protein <|im_end|>")
    ids = encoder.encode(text)
    assert tokenizer.convert_tokens_to_ids("protein") in ids
    assert tokenizer.convert_tokens_to_ids("    ") in ids
    assert encoder.encode("a    protein") == tokenizer("a    protein", add_special_tokens=False)["input_ids"]


def test_space_that_a_token_eats_is_eaten_beside_escaped_text_too():
    tokenizer = byte_tokenizer("qwen3")
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken("<|end|>", rstrip=True, normalized=False)]})
    encoder = GuardedEncoder(tokenizer, template="")
    ids = encoder.encode(f"<|end|>  ab{encoder.escape('<|im_end|>')}")
    assert ids[:2] == [tokenizer.convert_tokens_to_ids("<|end|>"), tokenizer.convert_tokens_to_ids("ab")]


def test_characters_that_fold_into_a_structural_token_are_plain_text():
    backend = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate("<>e|nd?")}, merges=[], unk_token="?"))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.add_special_tokens([AddedToken("<|end|>", normalized=True)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    encoder = GuardedEncoder(tokenizer, template="")
    end = tokenizer.convert_tokens_to_ids("<|end|>")
    assert tokenizer("\uff1c|end|>", add_special_tokens=False)["input_ids"] == [end]
    assert end not in encoder.encode("\uff1c|end|>")
    assert encoder.encode("<|end|>") == [end]


@pytest.mark.parametrize("family", FAMILIES)
def test_truncation_set_on_the_tokenizer_does_not_cut(family):
    tokenizer = byte_tokenizer(family)
    tokenizer.backend_tokenizer.enable_truncation(2)
    encoder = GuardedEncoder(tokenizer, template="")
    assert len(encoder.encode("a b c d e")) > 2
    assert len(encoder.encode(encoder.escape("a b c d <|endoftext|><|eot_id|>"))) > 2
