import json

import gguf
import numpy as np
import pytest
import torch
from peft import PeftModel
from tests.policy.checkpoints import architecture, rewrite_config, write
from transformers import AutoModelForCausalLM, LlamaConfig

from streakline.errors import ConfigError, DataError
from streakline.policy.config import LoraConfig, PolicyConfig
from streakline.policy.load import load_policy


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "model", dtype=torch.bfloat16)
    return tmp_path / "model"


def policy(folder, **options):
    return load_policy(PolicyConfig(name_or_path=str(folder), **options))


def test_bfloat16_checkpoints_become_float32_masters_in_train_mode(folder):
    assert AutoModelForCausalLM.from_pretrained(folder).dtype == torch.bfloat16  # what transformers does by itself
    model = policy(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_small_updates_reach_float32_masters(folder):
    model = policy(folder)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0)
    for _ in range(20):
        model(input_ids=torch.tensor([[1, 2, 3, 4]]), labels=torch.tensor([[1, 2, 3, 4]])).loss.backward()
        optimizer.step()
    weight = model.model.layers[0].mlp.down_proj.weight
    old = before[[name for name, _ in model.named_parameters()].index("model.layers.0.mlp.down_proj.weight")]
    assert (weight != old).float().mean() > 0.99


def test_bfloat16_can_be_asked_for(folder):
    assert policy(folder, dtype="bfloat16").dtype == torch.bfloat16


def test_attention_implementation_is_passed_on(folder):
    assert policy(folder, attn_implementation="eager").config._attn_implementation == "eager"


def test_weights_are_those_of_the_checkpoint(tmp_path):
    written = write(tmp_path / "model")
    loaded = policy(tmp_path / "model")
    for name, value in written.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value, rtol=0, atol=0)


def test_random_weights_follow_the_seed_and_need_only_a_config(tmp_path):
    architecture().save_pretrained(tmp_path)
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(policy(tmp_path, init="random"))
    first, again, other = (model.lm_head.weight for model in models)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert models[0].lm_head.weight is models[0].model.embed_tokens.weight
    assert models[0].training


def test_lora_trains_float32_adapters_only(folder):
    model = policy(folder, lora=LoraConfig(r=2))
    assert isinstance(model, PeftModel)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all("lora_" in name for name in trained)
    assert len(trained) == 2 * 2 * 7  # A and B, layers, linear maps of a layer
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.training


def test_lora_targets_by_name(folder):
    model = policy(folder, lora=LoraConfig(r=2, target_modules=["q_proj"]))
    assert all("q_proj" in name for name, parameter in model.named_parameters() if parameter.requires_grad)


def test_lora_without_a_target_is_refused(folder):
    with pytest.raises(ConfigError, match=r"Expected `lora` to fit the model, but got: Target modules"):
        policy(folder, lora=LoraConfig(target_modules=["nowhere"]))


def test_frozen_parameters_are_not_trained(folder):
    model = policy(folder, freeze=[r"embed_tokens", r"layers\.0\."])
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert "model.embed_tokens.weight" in frozen
    assert all("embed_tokens" in name or "layers.0." in name for name in frozen)


@pytest.mark.parametrize(("patterns", "reason"), [(["nowhere"], "to match a parameter"), (["."], "to train")])
def test_freezing_nothing_or_everything_is_refused(folder, patterns, reason):
    with pytest.raises(ConfigError, match=reason):
        policy(folder, freeze=patterns)


def test_gradient_checkpointing_gives_the_same_gradients(folder):
    gradients = []
    for checkpointing in (False, True):
        model = policy(folder, gradient_checkpointing=checkpointing)
        assert model.is_gradient_checkpointing is checkpointing
        model(input_ids=torch.tensor([[1, 2, 3, 4]]), labels=torch.tensor([[1, 2, 3, 4]])).loss.backward()
        gradients.append(model.model.layers[0].mlp.up_proj.weight.grad)
    torch.testing.assert_close(*gradients)


def test_a_missing_path_is_told_at_once(tmp_path):
    for name in (str(tmp_path / "nothing"), "./nothing", "a/b/c"):
        with pytest.raises(DataError, match=r"Expected `name_or_path` to be a folder or a model id, but got"):
            load_policy(PolicyConfig(name_or_path=name))


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch):
    with pytest.raises(DataError, match="which is no folder, and: ") as caught:
        load_policy(PolicyConfig(name_or_path="nobody/nothing"))
    assert "\n" not in str(caught.value)


def test_a_folder_without_weights(tmp_path):
    architecture().save_pretrained(tmp_path)
    with pytest.raises(DataError, match="to hold a causal LM in the Hugging Face layout, but got: Error no file named"):
        policy(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}, "11 missing, such as model.layers.2"),
        ({"num_hidden_layers": 1, "layer_types": ["full_attention"]}, "11 left over, such as model.layers.1"),
        ({"intermediate_size": 40}, "6 of another shape, such as model.layers.0.mlp"),
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, "left over, such as model.layers.0"),
    ],
)
def test_a_checkpoint_of_another_architecture_is_one_line(folder, changes, reason, caplog):
    rewrite_config(folder, **changes)
    with pytest.raises(DataError, match=reason) as caught:
        policy(folder)
    assert "\n" not in str(caught.value)
    assert caplog.text == ""


def test_extra_weights_outside_the_layers_are_a_warning(folder):
    write(folder, num_hidden_layers=2, tie_word_embeddings=True)
    tensors = dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())
    from safetensors.torch import save_file

    del tensors["lm_head.weight"]
    save_file(tensors | {"value_head.weight": torch.zeros(1)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.warns(UserWarning, match="Ignoring 1 weights of .*, such as value_head.weight"):
        policy(folder)


@pytest.mark.parametrize("model_type", ["nonsense", "t5"])
def test_a_model_that_is_no_causal_lm(folder, model_type):
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    with pytest.raises(DataError, match="to hold a causal LM"):
        policy(folder)
    if model_type == "t5":
        with pytest.raises(ConfigError, match="to be a causal LM"):
            policy(folder, init="random")


def test_a_gguf_file_is_read_and_can_be_saved_again(tmp_path):
    model = _write_gguf(tmp_path)
    loaded = policy(tmp_path, gguf_file="model.gguf")
    assert loaded.dtype == torch.float32
    ids = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(loaded.eval()(ids).logits, model.eval()(ids).logits, rtol=1e-4, atol=1e-4)
    loaded.save_pretrained(tmp_path / "saved")
    again = policy(tmp_path / "saved")
    torch.testing.assert_close(again.eval()(ids).logits, loaded(ids).logits)
    again.save_pretrained(tmp_path / "saved again")


def test_a_missing_gguf_file(tmp_path):
    architecture().save_pretrained(tmp_path)
    with pytest.raises(DataError, match="Expected `gguf_file` to be a file in"):
        policy(tmp_path, gguf_file="nothing.gguf")


def _write_gguf(folder):
    """A Llama model in GGUF's names, with query and key rows in its own order of rotary pairs."""
    heads, kv_heads, width = 4, 2, 32
    config = LlamaConfig(
        vocab_size=64, hidden_size=width, intermediate_size=64, num_hidden_layers=1, num_attention_heads=heads,
        num_key_value_heads=kv_heads, max_position_embeddings=128, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(64)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    for name, tensor in model.state_dict().items():
        values = tensor.numpy().astype(np.float32)
        for part, count in (("q_proj", heads), ("k_proj", kv_heads)):
            if part in name:
                pairs = values.reshape(count, 2, values.shape[0] // count // 2, values.shape[1])
                values = pairs.swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model
