"""The cached engine against a naive one that runs the whole prompt again for every token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.rollout.tiny_models import CONFIGS, VOCABULARY, tiny_model

from streakline.errors import ConfigError, EngineError
from streakline.rollout.engine import GenerationRequest
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Completion

STOP = 7
NextPrompt = Callable[[int, int, tuple[int, ...]], tuple[int, ...] | None]


@torch.no_grad()
def naive_turn(model, request: GenerationRequest, sampling: SamplingPolicy) -> Completion:
    """One full forward pass a token, in float64 where it draws."""
    draws = np.random.Generator(np.random.Philox(key=request.seed)).random(request.max_new_tokens)
    ids, logprobs = list(request.prompt_ids), []
    for step in range(request.max_new_tokens):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].double()
        if step < request.min_new_tokens:
            logits[STOP] = -torch.inf
        scores = logits if sampling.greedy else logits / sampling.temperature
        probabilities = scores.softmax(-1).numpy()
        token = int(probabilities.argmax())
        if not sampling.greedy:
            token = int((np.cumsum(probabilities) > draws[step] * probabilities.sum()).argmax())
        ids.append(token)
        logprobs.append(float(np.log(probabilities[token])))
        if token == STOP:
            break
    new = tuple(ids[len(request.prompt_ids) :])
    return Completion(token_ids=new, logprobs=tuple(logprobs), finish_reason="stop" if new[-1] == STOP else "length")


@dataclass
class Play:
    """Plays rows over turns, and keeps what happened: row -> [(prompt, completion)]."""

    prompts: Sequence[tuple[int, ...]]
    next_prompt: NextPrompt
    max_new_tokens: int = 9
    min_new_tokens: int = 0
    seeds: Sequence[int] | None = None
    turns: dict[int, list[tuple[tuple[int, ...], Completion]]] = field(default_factory=dict)

    def request(self, row: int, turn: int, prompt: tuple[int, ...]) -> GenerationRequest:
        name = self.seeds[row] if self.seeds else row
        return GenerationRequest(
            prompt_ids=prompt,
            seed=1000 * name + turn,
            max_new_tokens=self.max_new_tokens,
            min_new_tokens=self.min_new_tokens,
        )

    def on_engine(self, engine: HFEngine, sampling: SamplingPolicy) -> "Play":
        current = dict(enumerate(self.prompts))

        def respond(row: int, completion: Completion) -> GenerationRequest | None:
            turns = self.turns.setdefault(row, [])
            turns.append((current[row], completion))
            prompt = self.next_prompt(row, len(turns), current[row] + completion.token_ids)
            if prompt is None:
                return None
            current[row] = prompt
            return self.request(row, len(turns), prompt)

        requests = [self.request(row, 0, prompt) for row, prompt in enumerate(self.prompts)]
        engine.generate(requests, respond, sampling=sampling)
        return self

    def check(self, model, sampling: SamplingPolicy) -> None:
        model.eval()
        assert sorted(self.turns) == list(range(len(self.prompts)))
        for row, turns in self.turns.items():
            for turn, (prompt, completion) in enumerate(turns):
                expected = naive_turn(model, self.request(row, turn, prompt), sampling)
                assert completion.token_ids == expected.token_ids
                assert completion.finish_reason == expected.finish_reason
                np.testing.assert_allclose(completion.logprobs, expected.logprobs, atol=1e-5, rtol=1e-5)


def inject(row: int, turn: int, so_far: tuple[int, ...]) -> tuple[int, ...] | None:
    """Between one and five turns; between one and nine tokens come back after each."""
    if turn > row % 5:
        return None
    return so_far + tuple((11 * row + 5 * turn + k) % VOCABULARY for k in range(1 + (3 * row + turn) % 9))


def prompts(num_groups: int, group_size: int) -> list[tuple[int, ...]]:
    groups = [tuple((7 * g + 3 * k) % VOCABULARY for k in range(2 + 5 * g)) for g in range(num_groups)]
    return [prompt for prompt in groups for _ in range(group_size)]


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize(
    "sampling", [SamplingPolicy(greedy=True), SamplingPolicy(temperature=0.8)], ids=["greedy", "sampled"]
)
def test_equals_the_naive_engine(family, sampling):
    model = tiny_model(family)
    play = Play(prompts(4, 3), inject).on_engine(HFEngine(model, terminator_ids=[STOP]), sampling)
    play.check(model, sampling)
    assert max(map(len, play.turns.values())) == 5


@pytest.mark.parametrize("max_rows", [1, 2, 5])
def test_rows_enter_as_others_leave(max_rows):
    model, sampling = tiny_model(), SamplingPolicy()
    Play(prompts(3, 4), inject).on_engine(HFEngine(model, terminator_ids=[STOP], max_rows=max_rows), sampling).check(
        model, sampling
    )


@pytest.mark.parametrize("max_step_tokens", [1, 10])
def test_injected_text_beyond_the_step_limit_waits(max_step_tokens):
    model, sampling = tiny_model(), SamplingPolicy()
    engine = HFEngine(model, terminator_ids=[STOP], max_step_tokens=max_step_tokens)
    Play(prompts(3, 4), inject).on_engine(engine, sampling).check(model, sampling)


def test_draws_do_not_depend_on_batch_composition_or_order():
    model, sampling = tiny_model(), SamplingPolicy()
    engine = HFEngine(model, terminator_ids=[STOP])
    rows = prompts(3, 3)
    together = Play(rows, lambda row, turn, ids: None, seeds=range(9)).on_engine(engine, sampling)
    backwards = Play(rows[::-1], lambda row, turn, ids: None, seeds=range(8, -1, -1)).on_engine(engine, sampling)
    alone = [
        Play([prompt], lambda row, turn, ids: None, seeds=[row]).on_engine(engine, sampling).turns[0]
        for row, prompt in enumerate(rows)
    ]
    for row in range(9):
        ids = together.turns[row][0][1].token_ids
        assert backwards.turns[8 - row][0][1].token_ids == ids
        assert alone[row][0][1].token_ids == ids
    assert len({together.turns[row][0][1].token_ids for row in range(9)}) > 6


def test_a_prompt_that_is_no_extension_keeps_the_common_prefix():
    model, sampling = tiny_model(), SamplingPolicy()

    def rewritten(row: int, turn: int, so_far: tuple[int, ...]) -> tuple[int, ...] | None:
        if turn > 4:
            return None
        # Cut inside the tail, inside the shared prompt, everything, and a pure shortening.
        kept = [(*so_far[:-2], 5), (*so_far[:6], 1, 2, 3), (9, 8), so_far[: max(1, len(so_far) // 2)]][(row + turn) % 4]
        return kept if row % 3 else (*so_far, 4, 4)

    Play(prompts(3, 4), rewritten).on_engine(HFEngine(model, terminator_ids=[STOP]), sampling).check(model, sampling)


def test_min_new_tokens_bars_terminators_until_then():
    model, sampling = tiny_model(), SamplingPolicy()
    play = Play(prompts(4, 8), lambda row, turn, ids: None, min_new_tokens=4)
    play.on_engine(HFEngine(model, terminator_ids=[STOP]), sampling).check(model, sampling)
    lengths = [len(completion.token_ids) for turns in play.turns.values() for _, completion in turns]
    assert min(lengths) >= 5
    assert any(completion.finish_reason == "stop" for turns in play.turns.values() for _, completion in turns)


def count_tokens(model, engine) -> list[int]:
    """Tokens of each forward pass from now on; the engine has checked itself before."""
    Play([(1, 2)], lambda row, turn, ids: None).on_engine(engine, SamplingPolicy())
    sizes: list[int] = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    return sizes


def test_a_shared_prompt_is_computed_once():
    model = tiny_model()
    engine = HFEngine(model, terminator_ids=[STOP])
    sizes = count_tokens(model, engine)
    Play([tuple(range(40))] * 6 + [tuple(range(30, 60))] * 6, lambda row, turn, ids: None).on_engine(
        engine, SamplingPolicy()
    )
    assert sizes[0] == 39 + 29
    assert sizes[1] == 12


def test_finished_rows_are_not_computed_any_more():
    model = tiny_model()
    engine = HFEngine(model, terminator_ids=[STOP])
    sizes = count_tokens(model, engine)
    play = Play(prompts(2, 8), lambda row, turn, ids: None, max_new_tokens=20).on_engine(engine, SamplingPolicy())
    lengths = [len(play.turns[row][0][1].token_ids) for row in range(16)]
    assert sizes[1:] == [sum(length > step for length in lengths) for step in range(max(lengths))]


def test_mode_attention_and_gradients_of_the_model_are_as_before():
    model = tiny_model()
    model.model.layers[1].eval()
    modes = [module.training for module in model.modules()]
    Play([(1, 2, 3)], inject).on_engine(HFEngine(model, terminator_ids=[STOP]), SamplingPolicy())
    assert [module.training for module in model.modules()] == modes
    assert model.config._attn_implementation == "sdpa"
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    assert model.model.embed_tokens.weight.grad is not None


def test_the_mode_is_restored_when_a_response_fails():
    model = tiny_model()

    def fail(row: int, turn: int, so_far: tuple[int, ...]) -> None:
        raise KeyError("response")

    with pytest.raises(KeyError, match="response"):
        Play([(1, 2, 3)], fail).on_engine(HFEngine(model, terminator_ids=[STOP]), SamplingPolicy())
    assert model.training
    assert model.config._attn_implementation == "sdpa"


def test_a_row_that_cannot_be_run_is_an_error_completion_and_leaves_the_others_alone():
    model, sampling = tiny_model(), SamplingPolicy()
    play = Play([(1, 2, 3), (1, VOCABULARY), (1,) * 512, (1, 2, 3)], lambda row, turn, ids: None)
    play.on_engine(HFEngine(model, terminator_ids=[STOP]), sampling)
    assert "Expected prompt tokens in [0, 64), but got 64" in play.turns[1][0][1].error
    assert "fewer than 512 tokens" in play.turns[2][0][1].error
    assert play.turns[1][0][1].finish_reason == "error"
    expected = naive_turn(model.eval(), play.request(3, 0, (1, 2, 3)), sampling)
    assert play.turns[3][0][1].token_ids == expected.token_ids


def test_generation_stops_where_the_model_has_no_more_positions():
    model = tiny_model()
    play = Play([(1,) * 508], lambda row, turn, ids: None, max_new_tokens=9, min_new_tokens=9)
    play.on_engine(HFEngine(model, terminator_ids=[STOP]), SamplingPolicy())
    completion = play.turns[0][0][1]
    assert (len(completion.token_ids), completion.finish_reason) == (4, "length")


def test_logits_that_are_not_finite_end_their_row_only():
    model = tiny_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[60] = torch.nan
    model.lm_head.weight = torch.nn.Parameter(torch.randn(VOCABULARY, 32))
    engine = HFEngine(model, terminator_ids=[STOP])
    play = Play([(1, 2, 3), (60, 2, 3), (1, 2, 3)], lambda row, turn, ids: None).on_engine(engine, SamplingPolicy())
    assert play.turns[1][0][1].finish_reason == "error"
    assert "not finite" in play.turns[1][0][1].error
    assert play.turns[0][0][1].finish_reason != "error"
    assert play.turns[2][0][1].finish_reason != "error"


def test_a_failing_forward_pass_is_an_engine_error():
    model = tiny_model()
    engine = HFEngine(model, terminator_ids=[STOP])
    Play([(1, 2)], lambda row, turn, ids: None).on_engine(engine, SamplingPolicy())
    model.lm_head = torch.nn.Linear(5, VOCABULARY)
    with pytest.raises(EngineError, match="The model failed on 1 tokens"):
        Play([(1, 2)], lambda row, turn, ids: None).on_engine(engine, SamplingPolicy())


def test_a_model_that_attends_in_another_way_is_refused():
    model = tiny_model()
    model.model.layers[0].self_attn.register_forward_hook(
        lambda module, args, output: (output[0].cumsum(1), *output[1:])  # state across the flat tokens
    )
    with pytest.raises(EngineError, match="HFEngine can't cache the state of Qwen3ForCausalLM"):
        Play([(1, 2)], inject).on_engine(HFEngine(model, terminator_ids=[STOP]), SamplingPolicy())


def test_new_weights_are_sampled_from_at_once():
    model, sampling = tiny_model(), SamplingPolicy()
    engine = HFEngine(model, terminator_ids=[STOP])
    before = Play([(1, 2, 3)] * 4, inject).on_engine(engine, sampling)
    model.load_state_dict(tiny_model(seed=1).state_dict())
    engine.sync_weights(3)
    after = Play([(1, 2, 3)] * 4, inject).on_engine(engine, sampling)
    after.check(model, sampling)
    assert before.turns[0][0][1].token_ids != after.turns[0][0][1].token_ids
    assert (before.turns[0][0][1].weight_version, after.turns[0][0][1].weight_version) == (0, 3)


@pytest.mark.parametrize("terminators", [[], [VOCABULARY], [-1]])
def test_terminators_outside_the_vocabulary_are_refused(terminators):
    with pytest.raises(ConfigError, match="terminator_ids"):
        HFEngine(tiny_model(), terminator_ids=terminators)


def test_no_requests_are_no_work():
    Play([], inject).on_engine(HFEngine(tiny_model(), terminator_ids=[STOP]), SamplingPolicy())


def test_adapters_are_part_of_the_policy():
    torch.manual_seed(0)
    adapted = get_peft_model(tiny_model(), LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.5)
    sampling = SamplingPolicy()
    play = Play(prompts(3, 3), inject).on_engine(HFEngine(adapted, terminator_ids=[STOP]), sampling)
    play.check(adapted, sampling)
    plain = Play(prompts(3, 3), inject).on_engine(HFEngine(tiny_model(), terminator_ids=[STOP]), sampling)
    assert play.turns[0][0][1].token_ids != plain.turns[0][0][1].token_ids


def test_gradient_checkpointing_does_not_disturb_sampling():
    model, sampling = tiny_model(), SamplingPolicy()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    Play(prompts(3, 3), inject).on_engine(HFEngine(model, terminator_ids=[STOP]), sampling).check(model, sampling)


def test_bfloat16_autocast_stays_near_float32():
    model = tiny_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        play = Play(prompts(3, 3), inject).on_engine(
            HFEngine(model, terminator_ids=[STOP]), SamplingPolicy(greedy=True)
        )
    model.eval()
    gaps = []
    for turns in play.turns.values():
        for prompt, completion in turns:
            ids = torch.tensor([prompt + completion.token_ids])
            with torch.no_grad():
                logprobs = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            exact = logprobs.gather(1, ids[0, len(prompt) :, None])[:, 0]
            gaps += (exact - torch.tensor(completion.logprobs)).abs().tolist()
    assert 0 < np.median(gaps) < 0.1


@pytest.mark.gpu
def test_equals_the_naive_engine_on_a_gpu():
    model, sampling = tiny_model().cuda(), SamplingPolicy()
    play = Play(prompts(4, 3), inject).on_engine(HFEngine(model, terminator_ids=[STOP]), sampling)
    for turns in play.turns.values():
        for prompt, completion in turns:
            ids = torch.tensor([prompt + completion.token_ids], device="cuda")
            with torch.no_grad():
                logprobs = model.eval()(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            exact = logprobs.gather(1, ids[0, len(prompt) :, None])[:, 0]
            np.testing.assert_allclose(completion.logprobs, exact.cpu(), atol=1e-3)
