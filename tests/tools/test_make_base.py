"""The base checkpoint that comes with the project, and the scripts that made it."""

from __future__ import annotations

import hashlib
import json
import random
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from transformers import Qwen3Config, Qwen3ForCausalLM

from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.tokenizer import load_tokenizer
from streakline.types import Message, Role, Sample

ROOT = Path(__file__).resolve().parents[2]
BASE, TOOLS = ROOT / "data" / "base", ROOT / "tools"


@pytest.fixture
def record() -> dict:
    return json.loads((BASE / "base.json").read_text(encoding="utf-8"))


def test_the_record_tells_the_digest_of_the_weights(record) -> None:
    assert hashlib.sha256((BASE / "model.safetensors").read_bytes()).hexdigest() == record["sha256"]


def test_the_checkpoint_is_small_enough_for_a_repository(record) -> None:
    assert sum(path.stat().st_size for path in BASE.rglob("*")) < 10_000_000
    with safe_open(BASE / "model.safetensors", framework="pt") as weights:
        numbers = sum(weights.get_tensor(name).numel() for name in weights.keys())  # noqa: SIM118
    assert 500_000 <= numbers <= 3_000_000
    assert numbers == record["parameters"]


def test_the_record_tells_the_recipe_that_the_script_follows(load_tool, record) -> None:
    tool = load_tool("make_base")
    assert json.loads(json.dumps(tool.asdict(tool.Recipe()))) == record["recipe"]


# The training


def _train(tool) -> dict[str, torch.Tensor]:
    """Weights after a training of seconds."""
    recipe = tool.Recipe(tasks=(32, 32), layers=1, hidden=32, ffn=48)
    torch.manual_seed(recipe.seed)
    tokenizer = load_tokenizer(str(BASE))
    renderer = ChatTemplateRenderer(tokenizer, RenderingPolicy(schema_style="short"))
    phases = [tool.encode_phase(recipe, phase, renderer) for phase in range(2)]
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.hidden,
            intermediate_size=recipe.ffn,
            num_hidden_layers=recipe.layers,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=32,
            tie_word_embeddings=True,
        )
    )
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    tokens = tool.train(model, phases, recipe)
    assert tokens == sum(len(sample.token_ids) for phase in phases for sample in phase)
    after = model.state_dict()
    assert not any(torch.equal(before[name], after[name]) for name in after)
    return after


def test_the_same_seed_gives_the_same_weights_bit_for_bit(load_tool) -> None:
    tool = load_tool("make_base")
    first, second = _train(tool), _train(tool)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_iteration_brings_singular_values_near_to_one(load_tool) -> None:
    tool = load_tool("make_base")
    generator = torch.Generator().manual_seed(0)
    for shape in ((2, 8, 16), (2, 16, 8)):
        values = torch.linalg.svdvals(tool.orthogonal(torch.randn(shape, generator=generator)))
        assert values.min() > 0.5
        assert values.max() < 1.5


def test_the_loss_is_the_weighted_mean_over_real_tokens(load_tool) -> None:
    tool = load_tool("make_base")
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=20,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=16,
        )
    )
    rows = [
        Sample(token_ids=(1, 2, 3, 4, 5), loss_mask=(False, False, True, True, True)),
        Sample(token_ids=(6, 7, 8), loss_mask=(False, True, False)),
    ]
    total = mass = 0.0
    for row in rows:
        scores = model(input_ids=torch.tensor([row.token_ids])).logits[0].log_softmax(-1)
        for position in range(1, len(row.token_ids)):
            weight = 1.0 if row.loss_mask[position] else 0.1
            total -= weight * scores[position - 1, row.token_ids[position]].item()
            mass += weight
    assert tool.weighted_loss(model, rows, other_weight=0.1).item() == pytest.approx(total / mass, rel=1e-5)


def test_each_sample_comes_once_a_pass(load_tool) -> None:
    tool = load_tool("make_base")
    samples = [Sample(token_ids=(0,) * n, loss_mask=(False,) * n) for n in range(1, 41)]
    rows = list(tool.batches(samples, tool.Recipe(batch=16), random.Random(0)))
    assert sorted(len(sample.token_ids) for row in rows for sample in row) == list(range(1, 41))
    assert sorted(len(row) for row in rows) == [8, 16, 16]


# The tokenizer


@pytest.fixture(scope="module")
def texts_and_tokenizer():
    tool = SimpleNamespace(**runpy.run_path(str(TOOLS / "make_tokenizer.py")))
    requests, texts = tool.read_texts(150)
    return tool, requests, texts, tool.build_tokenizer(requests, texts)


def test_texts_come_back_as_they_were(texts_and_tokenizer) -> None:
    _, _, texts, tokenizer = texts_and_tokenizer
    others = ["Zoë paid 3,50 € — twice!\n\n  indented\ttabs", "x_y.z'w", "", "<think>no</think>", '{"a": [1, -2.5e3]}']
    for text in [*texts[::7], *others]:
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_a_value_is_the_same_tokens_in_quotes_and_after_a_space(texts_and_tokenizer) -> None:
    tool, requests, _, tokenizer = texts_and_tokenizer
    phrases = set(tool.common_words(requests))
    found = {word for text in requests for word in re.findall(r"[A-Za-z_]{3,}", text)}
    values = sorted((found | {"quarterly_notes", "Zanzibar"}) - phrases)
    assert len(values) > 50
    for value in values:
        alone = tokenizer.tokenize(value)
        spaced, quoted = tokenizer.tokenize(f"to {value} now"), tokenizer.tokenize(f'{{"name": "{value}"}}')
        assert any(spaced[at : at + len(alone)] == alone for at in range(len(spaced))), value
        assert any(quoted[at : at + len(alone)] == alone for at in range(len(quoted))), value


def test_digits_stand_alone_and_markers_are_one_token(texts_and_tokenizer) -> None:
    tool, _, _, tokenizer = texts_and_tokenizer
    assert tokenizer.tokenize("2026") == list("2026")
    assert all(len(tokenizer.tokenize(marker)) == 1 for marker in (*tool.MARKERS, *tool.SPECIAL))
    assert len(tokenizer) <= tool.VOCABULARY


def test_the_tokenizer_can_be_saved_loaded_and_rendered_with(texts_and_tokenizer, tmp_path: Path) -> None:
    tokenizer = texts_and_tokenizer[-1]
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(str(tmp_path))
    assert again.encode("Book 2 seats for Mona.") == tokenizer.encode("Book 2 seats for Mona.")
    renderer = ChatTemplateRenderer(again, RenderingPolicy(schema_style="short"))
    prompt = renderer.prompt([Message(role=Role.USER, content="Hi")], tools=())
    assert again.decode(prompt).endswith("<|im_start|>assistant\n")
