import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    LlamaConfig,
    OPTConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from streakline.algorithms.logprobs import token_logprobs

SHAPE = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "pad_token_id": 0,
}


def _qwen(**options):
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, **options)).eval()


_REAL = torch.arange(9) < torch.tensor([[9], [6], [4]])


def _batch():
    generator = torch.Generator().manual_seed(1)
    input_ids = torch.randint(1, 61, (3, 9), generator=generator)
    loss_mask = _REAL & (torch.rand(3, 9, generator=generator) > 0.4)
    loss_mask[:, 0] = False
    return {"input_ids": input_ids, "loss_mask": loss_mask}


def _oracle(model, input_ids, loss_mask, temperature=1.0, barred=None):
    """Each row alone, without padding, by numpy."""
    token, places = barred or (0, torch.zeros_like(loss_mask))
    result = np.zeros(input_ids.shape)
    entropy = np.zeros(input_ids.shape)
    for row in range(len(input_ids)):
        length = int(_REAL[row].sum())
        with torch.no_grad():
            logits = model(input_ids=input_ids[row : row + 1, :length]).logits[0].double().numpy() / temperature
        for column in range(1, length):
            if loss_mask[row, column]:
                # Without its place, what is left of the vocabulary is the distribution.
                left = np.delete(logits[column - 1], token) if places[row, column] else logits[column - 1]
                logprobs = left - np.log(np.exp(left).sum())
                index = int(input_ids[row, column]) - bool(places[row, column] and input_ids[row, column] > token)
                result[row, column] = logprobs[index]
                entropy[row, column] = -(np.exp(logprobs) * logprobs).sum()
    return result, entropy


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk", [2048, 3])
def test_equals_full_logits_row_by_row(temperature, chunk):
    model, batch = _qwen(), _batch()

    scores = token_logprobs(model, **batch, temperature=temperature, chunk=chunk)

    logprobs, entropy = _oracle(model, **batch, temperature=temperature)
    np.testing.assert_allclose(scores.logprobs.detach().numpy(), logprobs, atol=2e-6)
    np.testing.assert_allclose(scores.entropy.numpy(), entropy, atol=2e-6)


@pytest.mark.parametrize("chunk", [2048, 3])
def test_a_token_that_could_not_be_drawn_has_no_share(chunk):
    model, batch = _qwen(), _batch()
    input_ids = batch["input_ids"].masked_fill_(batch["input_ids"] == 7, 8)
    barred = (7, torch.arange(9).expand_as(input_ids) < 5)

    scores = token_logprobs(model, **batch, temperature=0.7, barred=barred, chunk=chunk)

    logprobs, entropy = _oracle(model, **batch, temperature=0.7, barred=barred)
    np.testing.assert_allclose(scores.logprobs.detach().numpy(), logprobs, atol=2e-6)
    np.testing.assert_allclose(scores.entropy.numpy(), entropy, atol=2e-6)
    plain = token_logprobs(model, **batch, temperature=0.7).logprobs
    differs = (plain - scores.logprobs).abs() > 1e-3
    assert torch.equal(differs, barred[1] & batch["loss_mask"])
    scores.logprobs.sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


def test_gradients_equal_those_of_full_logits_however_they_are_chunked():
    batch = _batch()

    def gradients(score):
        model = _qwen()
        score(model).sum().backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    def full(model):
        logits = model(input_ids=batch["input_ids"], attention_mask=_REAL).logits[:, :-1]
        picked = logits.log_softmax(-1).gather(-1, batch["input_ids"][:, 1:, None]).squeeze(-1)
        return picked[batch["loss_mask"][:, 1:]]

    expected = gradients(full)
    for chunk in (2048, 2):
        found = gradients(lambda model, chunk=chunk: token_logprobs(model, **batch, chunk=chunk).logprobs)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_the_head_runs_only_where_a_token_is_trained():
    model, batch = _qwen(), _batch()
    token_logprobs(model, **batch)  # the probe, once a model
    rows = []
    model.lm_head.register_forward_hook(lambda _module, inputs, _output: rows.append(inputs[0].shape[0]))

    token_logprobs(model, **batch)

    assert sum(rows) == int(batch["loss_mask"].sum())


@pytest.mark.parametrize("chunk", [2048, 2])
def test_entropy_has_a_gradient_where_it_is_asked_for(chunk):
    model, batch = _qwen(), _batch()
    places = torch.zeros_like(batch["loss_mask"])
    options = {"temperature": 0.7, "barred": (7, places), "chunk": chunk}

    plain = token_logprobs(model, **batch, **options)
    entropy = token_logprobs(model, **batch, **options, entropy_gradient=True).entropy
    (found,) = torch.autograd.grad(entropy.sum(), model.model.embed_tokens.weight)

    probabilities = (model(input_ids=batch["input_ids"]).logits[:, :-1] / 0.7).softmax(-1)
    each = torch.distributions.Categorical(probs=probabilities).entropy()
    (expected,) = torch.autograd.grad(each[batch["loss_mask"][:, 1:]].sum(), model.model.embed_tokens.weight)
    assert not plain.entropy.requires_grad
    torch.testing.assert_close(plain.entropy, entropy.detach())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("cap", [0.05, 30.0])
def test_a_soft_cap_on_logits_is_honoured(cap):
    torch.manual_seed(0)
    config = Gemma2Config(**SHAPE, final_logit_softcapping=cap, sliding_window=32, attn_logit_softcapping=None)
    model, batch = Gemma2ForCausalLM(config).eval(), _batch()

    scores = token_logprobs(model, **batch)

    np.testing.assert_allclose(scores.logprobs.detach().numpy(), _oracle(model, **batch)[0], atol=2e-6)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SHAPE),
        Gemma2Config(**SHAPE, sliding_window=3),
        GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=2, n_positions=16),
        OPTConfig(vocab_size=61, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=2),
        BloomConfig(vocab_size=61, hidden_size=32, n_layer=2, n_head=2),
    ],
    ids=lambda config: config.model_type,
)
def test_what_stands_in_the_padding_changes_nothing(config, attention):
    torch.manual_seed(0)
    options = {} if config.model_type == "bloom" else {"attn_implementation": attention}  # Bloom has but one
    model = AutoModelForCausalLM.from_config(config, **options).eval()
    batch = _batch()
    batch["input_ids"] = batch["input_ids"].masked_fill(~_REAL, 1)
    garbage = batch | {"input_ids": batch["input_ids"].masked_fill(~_REAL, 60)}

    def scored(batch):
        model.zero_grad()
        logprobs = token_logprobs(model, **batch).logprobs
        logprobs.sum().backward()
        return logprobs.detach().numpy(), [p.grad.clone() for p in model.parameters() if p.grad is not None]

    logprobs, gradients = scored(batch)

    np.testing.assert_allclose(logprobs, _oracle(model, **batch)[0], atol=2e-6)
    for one, other in zip(gradients, scored(garbage)[1], strict=True):
        torch.testing.assert_close(one, other)


def test_works_under_lora_and_sees_the_adapter():
    base, batch = _qwen(), _batch()
    plain = token_logprobs(base, **batch).logprobs.detach()
    model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))

    adapted = token_logprobs(model, **batch)

    np.testing.assert_allclose(adapted.logprobs.detach().numpy(), _oracle(model.eval(), **batch)[0], atol=2e-6)
    assert not torch.allclose(adapted.logprobs, plain, atol=1e-3)
    with model.disable_adapter():
        torch.testing.assert_close(token_logprobs(model, **batch).logprobs, plain)


def test_marks_the_likeliest_tokens():
    model, batch = _qwen(), _batch()
    with torch.no_grad():
        likeliest = model(input_ids=batch["input_ids"]).logits.argmax(-1)
    batch["input_ids"][0, 5] = likeliest[0, 4]
    batch["loss_mask"][0, 5] = True

    scores = token_logprobs(model, **batch)

    assert bool(scores.is_argmax[0, 5])
    assert not bool(scores.is_argmax[~batch["loss_mask"]].any())


def test_a_batch_without_a_trained_token_scores_nothing():
    model, batch = _qwen(), _batch()
    batch["loss_mask"] = torch.zeros_like(batch["loss_mask"])

    assert not bool(token_logprobs(model, **batch).logprobs.any())


def test_the_probe_leaves_the_generators_alone():
    model, batch = _qwen(attention_dropout=0.5).train(), _batch()
    torch.manual_seed(7)
    first = token_logprobs(model, **batch).logprobs
    torch.manual_seed(7)

    assert torch.equal(token_logprobs(model, **batch).logprobs, first)
