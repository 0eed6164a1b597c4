"""A local model as judge, through any rollout engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias, final

import torch
from peft import PeftModel
from transformers import PreTrainedModel
from typing_extensions import override

from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rewards.judge.base import Judge, Judgment
from streakline.rewards.judge.case import JudgeCase
from streakline.rewards.judge.prompt import JudgePrompt
from streakline.rewards.judge.verdict import VerdictError, read_verdict
from streakline.rollout.engine import GenerationRequest, RolloutEngine
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Completion

MakeEngine: TypeAlias = Callable[[PreTrainedModel | PeftModel, Sequence[int]], RolloutEngine]
"""Makes an engine from a model and the tokens that end a turn."""
_PROMPT = JudgePrompt()  # frozen, so that sharing it is safe


@final
class LocalJudge(Judge):
    """Asks a model in this process for the same verdict as an API is asked for, greedily.

    Args:
        policy: The model, which is loaded at the first use, on the CPU or the first GPU.
        engine: Makes the engine that samples.
        prompt: What the model reads, by its own chat template.
        max_new_tokens: Limit on the reply.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        engine: MakeEngine = HFEngine,
        prompt: JudgePrompt = _PROMPT,
        max_new_tokens: int = 256,
    ) -> None:
        self._policy, self._make_engine = policy, engine
        self._prompt, self._max_new_tokens = prompt, max_new_tokens

    @property
    @override
    def name(self) -> str:
        return self._policy.name_or_path

    @cached_property
    def _parts(
        self,
    ) -> tuple[RolloutEngine, Callable[[JudgeCase], tuple[str, tuple[int, ...]]], Callable[[Sequence[int]], str]]:
        tokenizer = load_tokenizer(
            self._policy.name_or_path, chat_template=self._policy.chat_template, gguf_file=self._policy.gguf_file
        )
        # What is drawn for random weights is no part of the run that is judged.
        with torch.random.fork_rng(devices=[]):
            model = load_policy(self._policy)
        model.to("cuda" if torch.cuda.is_available() else "cpu").requires_grad_(requires_grad=False)  # type: ignore[arg-type]

        def encode(case: JudgeCase) -> tuple[str, tuple[int, ...]]:
            request = self._prompt.render(case)
            messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]
            text = str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
            # Some templates open the thinking, which is then no part of the reply.
            opening = "<think>" if text.rstrip().endswith("<think>") else ""
            return opening, tuple(tokenizer.encode(text, add_special_tokens=False))

        def decode(ids: Sequence[int]) -> str:
            return str(tokenizer.decode(list(ids), skip_special_tokens=True))

        return self._make_engine(model, (int(tokenizer.eos_token_id),)), encode, decode

    @override
    def judge_all(self, cases: Sequence[JudgeCase]) -> list[Judgment]:
        """See `Judge.judge_all`."""
        engine, encode, decode = self._parts
        limit = self._max_new_tokens
        prompts = [encode(case) for case in cases]
        requests = [GenerationRequest(prompt_ids=ids, seed=0, max_new_tokens=limit) for _, ids in prompts]
        found: dict[int, Judgment] = {}

        def keep(row: int, completion: Completion) -> None:
            tokens = len(requests[row].prompt_ids) + len(completion.token_ids)
            found[row] = _judgment(completion, prompts[row][0] + decode(completion.token_ids), tokens=tokens)

        if requests:
            sampling = SamplingPolicy(greedy=True, max_new_tokens=limit)
            with torch.inference_mode(mode=False), torch.no_grad():
                engine.generate(requests, keep, sampling=sampling)
        return [found[row] for row in range(len(cases))]


def _judgment(completion: Completion, text: str, *, tokens: int) -> Judgment:
    failure = completion.error or ("a reply that was cut off" if completion.finish_reason == "length" else "")
    if not failure:
        try:
            score, reason = read_verdict(text)
            return Judgment(score=score, reason=reason, calls=1, tokens=tokens)
        except VerdictError as error:
            failure = f"a reply that is no verdict: {error}"
    return Judgment(score=None, failure=failure, calls=1, failed_calls=1, tokens=tokens)
