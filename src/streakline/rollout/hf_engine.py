"""An engine that samples from a transformers model in this process: the policy itself, no copy of its weights."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import final

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from streakline.errors import ConfigError, EngineError
from streakline.policy.probe import eval_mode, rounding_tolerance
from streakline.rollout.batch import RolloutBatch
from streakline.rollout.cached_attention import ATTENTION_NAME, Step
from streakline.rollout.engine import GenerationRequest, Respond, RolloutEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Completion


@final
class HFEngine(RolloutEngine):
    """Continuous batching over one model in this process.

    Each step is one forward pass over the new tokens of all rows: one token for a row that is being sampled, several
    for a row whose tool has just answered. A prompt is computed once however many rows share it, keys and values
    stay for the whole rollout, and a finished row leaves at once.

    Args:
        model: The policy. It is switched to eval mode, and back, by each `generate`.
        terminator_ids: Tokens that end an assistant turn.
        max_rows: Rows that run at once; further ones enter as others leave.
        max_step_tokens: Limit on the prompt or injected tokens of one forward pass; a single longer prompt or
            injected text is computed alone.

    Raises:
        ConfigError: If a number is out of its range, or a terminator is not in the vocabulary.
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        terminator_ids: Sequence[int],
        *,
        max_rows: int = 256,
        max_step_tokens: int = 8192,
    ) -> None:
        network = model.get_base_model() if isinstance(model, PeftModel) else model
        if not isinstance(network, PreTrainedModel):
            raise ConfigError(f"Expected `model` to be a transformers model, but got {type(network).__name__}")
        embeddings = network.get_input_embeddings()
        if not isinstance(embeddings, torch.nn.Embedding):
            raise ConfigError(f"Expected the model to embed tokens by a table, but got {type(embeddings).__name__}")
        vocabulary = embeddings.num_embeddings
        if not terminator_ids or not all(0 <= token < vocabulary for token in terminator_ids):
            raise ConfigError(
                f"Expected `terminator_ids` to be tokens in [0, {vocabulary}), but got {list(terminator_ids)}"
            )
        if max_rows < 1 or max_step_tokens < 1:
            raise ConfigError(
                f"Expected `max_rows` and `max_step_tokens` to be positive, but got {max_rows} and {max_step_tokens}"
            )
        # PEFT puts its adapters into the network in place, so the network is the adapted policy.
        self._network = network
        self._vocabulary = vocabulary
        self._make_batch = partial(
            RolloutBatch,
            forward=self._forward,
            terminator_ids=tuple(terminator_ids),
            max_rows=max_rows,
            max_step_tokens=max_step_tokens,
            max_positions=network.config.to_dict().get("max_position_embeddings") or sys.maxsize,
            vocabulary=vocabulary,
        )
        self._weight_version = 0
        self._is_verified = False

    def generate(self, requests: Sequence[GenerationRequest], respond: Respond, *, sampling: SamplingPolicy) -> None:
        """Run every row to its end; see `RolloutEngine.generate`."""
        if not self._is_verified:
            self._verify()
            self._is_verified = True
        self._run(requests, respond, sampling=sampling)

    def sync_weights(self, version: int) -> None:
        """Record the version: the policy's own weights are sampled from, and no cache outlives a `generate`."""
        self._weight_version = version

    def _run(self, requests: Sequence[GenerationRequest], respond: Respond, *, sampling: SamplingPolicy) -> None:
        # no_grad, not inference_mode: tensors made under the latter can't enter a loss later on.
        with torch.no_grad(), _sampling_mode(self._network):
            self._make_batch(
                requests=requests,
                respond=respond,
                sampling=sampling,
                weight_version=self._weight_version,
                device=self._network.device,
            ).run()

    def _forward(self, step: Step) -> torch.Tensor:
        """Logits [D, V]; a pass without a draw computes those of one token, the least that transformers allows."""
        device = self._network.device
        try:
            output = self._network(
                input_ids=torch.tensor([step.token_ids], device=device),
                position_ids=torch.tensor([step.positions], device=device),
                use_cache=False,
                logits_to_keep=torch.tensor(step.drawn_from or [0], device=device),
                rollout_step=step,
            )
        except (RuntimeError, TypeError, ValueError) as error:
            raise EngineError(f"The model failed on {len(step.token_ids)} tokens: {error}") from error
        logits: torch.Tensor = output.logits[0]
        return logits

    def _verify(self) -> None:
        """Compare a small rollout with the model's own forward pass.

        Attention that is not plain softmax attention, state that is not keys and values, or a model that doesn't
        place tokens by `position_ids` would otherwise sample from another distribution without a word.
        """
        first = tuple(token % self._vocabulary for token in (3, 1, 4, 1, 5, 9))
        requests = [GenerationRequest(prompt_ids=first[:length], seed=0, max_new_tokens=2) for length in (4, 4, 6)]
        prompts = {index: request.prompt_ids for index, request in enumerate(requests)}
        turns: list[tuple[tuple[int, ...], Completion]] = []

        def extend_once(row: int, completion: Completion) -> GenerationRequest | None:
            turns.append((prompts[row], completion))
            prompts[row] = (*prompts[row], *completion.token_ids, *first[: 1 + row])
            return GenerationRequest(prompt_ids=prompts[row], seed=0, max_new_tokens=2) if len(turns) <= 3 else None

        # Mixed precision rounds the two computations apart, which would hide or feign a difference.
        with torch.autocast(self._network.device.type, enabled=False):
            self._run(requests, extend_once, sampling=SamplingPolicy(greedy=True))
            gap = max(self._gap(prompt, completion) for prompt, completion in turns)
        tolerance = rounding_tolerance(self._network)
        if not gap <= tolerance:
            raise EngineError(
                f"Expected log-probabilities within {tolerance} of the model's own forward pass, but got a difference "
                f"of {gap:.2g}: HFEngine can't cache the state of {type(self._network).__name__}"
            )

    @torch.no_grad()
    def _gap(self, prompt: tuple[int, ...], completion: Completion) -> float:
        ids = torch.tensor([prompt + completion.token_ids], device=self._network.device)
        with eval_mode(self._network):
            logprobs = (
                self._network(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
            )
        expected = logprobs.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()
        return max((abs(a - b) for a, b in zip(expected, completion.logprobs, strict=True)), default=0.0)


@contextmanager
def _sampling_mode(network: PreTrainedModel) -> Iterator[None]:
    """Eval mode with the cached attention; afterwards everything is as it was."""
    implementation = network.config._attn_implementation
    with eval_mode(network):
        network.set_attn_implementation(ATTENTION_NAME)
        try:
            yield
        finally:
            network.set_attn_implementation(implementation)
