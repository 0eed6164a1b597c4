import os

import pytest
import torch
from safetensors import safe_open
from tests.fixtures.tokenizers import byte_tokenizer
from tests.policy.checkpoints import write
from transformers import AutoTokenizer

from streakline.errors import DataError
from streakline.policy.config import LoraConfig, PolicyConfig
from streakline.policy.export import export_policy
from streakline.policy.load import load_policy
from streakline.rendering.tokenizer import load_tokenizer

IDS = torch.tensor([[1, 2, 3, 4]])


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer("hermes_chatml")


def loaded(folder, **options):
    return load_policy(PolicyConfig(name_or_path=str(folder), **options))


def keys(folder) -> set[str]:
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return set(file.keys())


@pytest.mark.parametrize("tied", [True, False])
def test_an_export_loads_again_with_equal_weights_and_the_names_of_the_family(tmp_path, tokenizer, tied):
    write(tmp_path / "base", tie_word_embeddings=tied)
    model = loaded(tmp_path / "base")
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(1.5)
    export_policy(model, tokenizer, tmp_path / "export")
    again = loaded(tmp_path / "export")
    torch.testing.assert_close(again.eval()(IDS).logits, model.eval()(IDS).logits, rtol=0, atol=0)
    assert keys(tmp_path / "export") == keys(tmp_path / "base")
    assert ("lm_head.weight" in keys(tmp_path / "export")) is not tied
    # The names that vLLM's loader for this family maps: no prefix of a trainer, an adapter or a compiler.
    assert all(
        key.startswith(("model.embed_tokens.", "model.layers.", "model.norm.", "lm_head."))
        for key in keys(tmp_path / "export")
    )


def test_the_tokenizer_comes_with_its_template(tmp_path, tokenizer):
    write(tmp_path / "base")
    export_policy(loaded(tmp_path / "base"), tokenizer, tmp_path / "export")
    again = load_tokenizer(str(tmp_path / "export"))
    assert again.chat_template == tokenizer.chat_template
    text = "<|im_start|>user\nthe name<|im_end|>"
    assert AutoTokenizer.from_pretrained(tmp_path / "export").encode(text) == tokenizer.encode(text)


def adapted(folder):
    model = loaded(folder, lora=LoraConfig(r=2))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return model


def test_adapters_are_merged_and_the_policy_in_training_is_left_alone(tmp_path, tokenizer):
    write(tmp_path / "base")
    model = adapted(tmp_path / "base")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    export_policy(model, tokenizer, tmp_path / "export")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert keys(tmp_path / "export") == keys(tmp_path / "base")
    merged = loaded(tmp_path / "export").eval()(IDS).logits
    torch.testing.assert_close(merged, model.eval()(IDS).logits, rtol=1e-4, atol=1e-5)
    assert (merged - loaded(tmp_path / "base").eval()(IDS).logits).abs().max() > 1e-3


def test_adapters_can_be_written_alone(tmp_path, tokenizer):
    write(tmp_path / "base")
    export_policy(adapted(tmp_path / "base"), tokenizer, tmp_path / "export", merge_lora=False)
    assert (tmp_path / "export" / "adapter_model.safetensors").exists()
    assert not (tmp_path / "export" / "model.safetensors").exists()


def test_an_export_replaces_an_earlier_one_as_a_whole(tmp_path, tokenizer):
    write(tmp_path / "base")
    model = loaded(tmp_path / "base")
    export_policy(model, tokenizer, tmp_path / "export")
    (tmp_path / "export" / "stale.txt").write_text("old")
    export_policy(model, tokenizer, tmp_path / "export")
    assert not (tmp_path / "export" / "stale.txt").exists()
    assert sorted(os.listdir(tmp_path)) == ["base", "export"]


def test_a_failed_export_leaves_the_earlier_one(tmp_path, tokenizer, monkeypatch):
    write(tmp_path / "base")
    model = loaded(tmp_path / "base")
    export_policy(model, tokenizer, tmp_path / "export")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(tokenizer), "save_pretrained", full)
    with pytest.raises(DataError, match=r"Expected to write the policy to .*export, but got: .*No space left"):
        export_policy(model, tokenizer, tmp_path / "export")
    assert keys(tmp_path / "export") == keys(tmp_path / "base")
    assert sorted(os.listdir(tmp_path)) == ["base", "export"]
