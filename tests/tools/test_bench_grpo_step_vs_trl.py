"""The benchmark of a GRPO step beside TRL's: its prompts, and the loss of a step on rollouts of another trainer."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM


@pytest.fixture
def bench(load_tool):
    return load_tool("bench/grpo_step_vs_trl")


@pytest.fixture
def model(bench, tmp_path):
    folder = tmp_path / "model"
    bench.write_model(folder, hidden=64, layers=1, vocabulary=1500)
    return str(folder)


def test_prompts_have_the_asked_length_and_survive_a_tokenizer(bench, model):
    renderer = bench.make_renderer(model)
    tasks = bench.make_tasks(renderer, length=70, count=3, seed=0)
    prompts = [bench.prompt_of(renderer, task) for task in tasks]
    assert {len(prompt) for prompt in prompts} == {70}
    assert len(set(prompts)) == 3
    for prompt in prompts:
        assert tuple(renderer.tokenizer(renderer.tokenizer.decode(list(prompt)))["input_ids"]) == prompt


def test_the_loss_on_given_rollouts_is_that_of_the_formula(bench, model, tmp_path):
    draw = torch.Generator().manual_seed(0)
    prompts = [[3, 4, 5, 6], [3, 4, 5, 6], [7, 8]]
    completions = [torch.randint(1500, (length,), generator=draw).tolist() for length in (3, 2, 4)]
    old = [[-7.3 + torch.rand((), generator=draw).item() for _ in completion] for completion in completions]
    advantages = [1.0, -0.5, 0.25]
    rollouts = {
        "prompt_ids": prompts,
        "completion_ids": completions,
        "advantages": advantages,
        "old_logprobs": [row + [0.0] * (4 - len(row)) for row in old],
    }
    network = AutoModelForCausalLM.from_pretrained(model)
    total = 0.0
    for prompt, completion, values, advantage in zip(prompts, completions, old, advantages, strict=True):
        with torch.no_grad():
            logprobs = network(torch.tensor([prompt + completion])).logits[0].log_softmax(-1)
        for place, (token, value) in enumerate(zip(completion, values, strict=True), start=len(prompt) - 1):
            ratio = math.exp(logprobs[place, token].item() - value)
            total -= min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
    own = bench.our_loss(rollouts, model=model, folder=tmp_path, threads=1)
    assert own["loss"] == pytest.approx(total / 9, abs=1e-6)
    assert own["grad_norm"] > 0


def test_without_the_environment_of_trl_one_line_says_what_to_do(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["grpo_step_vs_trl.py", "--trl-python", str(tmp_path / "python")])
    with pytest.raises(SystemExit, match="run `make bench-trl`"):
        bench.main()
