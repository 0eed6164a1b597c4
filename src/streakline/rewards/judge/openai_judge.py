"""A judge behind any OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from statistics import fmean
from typing import Any, TypeVar, final

from typing_extensions import override

from streakline.errors import ConfigError, JudgeOutageError
from streakline.rewards.judge.asking import Verdict
from streakline.rewards.judge.base import Judge, Judgment
from streakline.rewards.judge.case import JudgeCase
from streakline.rewards.judge.endpoint import Endpoint
from streakline.rewards.judge.faults import Fault
from streakline.rewards.judge.patience import Limits
from streakline.rewards.judge.prompt import JudgePrompt, JudgeRequest
from streakline.rewards.judge.server import Server
from streakline.rewards.judge.store import Budget, JudgeStore

ResultT = TypeVar("ResultT")
# Defaults of the signature; frozen, so that sharing them is safe.
_PROMPT, _LIMITS, _BUDGET = JudgePrompt(), Limits(), Budget()


@final
class OpenAIJudge(Judge):
    """Asks a chat model for a score of 0 to 5 and a reason, as JSON that is checked.

    Failures of one request (429, 5xx, time-outs, replies that are no verdict) are met by further attempts; what fails
    for good while the server answers others is unscored. Where it answers nothing, the judge waits, and raises after
    `limits.patience_s`; where it gives no verdict for any of several requests, nor for a probe, it raises. Verdicts are
    kept in the store by hash of model, decoding, prompt and episode.

    Args:
        endpoint: The model.
        store: SQLite file of verdicts and of what was spent; several processes and runs may share it.
        prompt: What the model reads.
        limits: How it is asked.
        budget: What may be spent.
        both_orders: Ask twice, with the final answer after the episode and before it, and take the mean.
        order_tolerance: Difference of the two from which on the answer is unscored.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        store: str,
        prompt: JudgePrompt = _PROMPT,
        limits: Limits = _LIMITS,
        budget: Budget = _BUDGET,
        both_orders: bool = False,
        order_tolerance: int = 2,
    ) -> None:
        if order_tolerance < 1:
            raise ConfigError(f"Expected `order_tolerance` to be at least 1, but got {order_tolerance}")
        self._endpoint, self._store, self._prompt = endpoint, store, prompt
        self._orders = (False, True) if both_orders else (False,)
        self._order_tolerance = order_tolerance
        self._server = Server(endpoint, limits, budget)

    @property
    @override
    def name(self) -> str:
        return self._endpoint.model

    @override
    def judge_all(self, cases: Sequence[JudgeCase]) -> list[Judgment]:
        """See `Judge.judge_all`."""
        requests = [[self._prompt.render(case, answer_first=first) for first in self._orders] for case in cases]
        keys = [[self._key(request) for request in pair] for pair in requests]
        wanted = {key: request for row in zip(keys, requests, strict=True) for key, request in zip(*row, strict=True)}
        verdicts, probes = {key: Verdict() for key in wanted}, Verdict()
        try:
            _run(self._fill_in(wanted, verdicts, probes))
        except JudgeOutageError as outage:
            for verdict in verdicts.values():
                verdict.fault = verdict.fault or Fault(str(outage))
            outage.judgments = tuple(self._judgments(keys, verdicts, probes))
            raise
        return self._judgments(keys, verdicts, probes)

    def _key(self, request: JudgeRequest) -> bytes:
        parts = [self._endpoint.identity(), self._prompt.digest, request.system, request.user]
        return sha256(json.dumps(parts, sort_keys=True).encode()).digest()

    def _judgments(
        self, keys: Sequence[Sequence[bytes]], verdicts: Mapping[bytes, Verdict], probes: Verdict
    ) -> list[Judgment]:
        # A request that several episodes share was sent for the first of them.
        spent: set[bytes] = set()
        judgments = []
        for pair in keys:
            judgments.append(self._judgment([verdicts[key] for key in pair], is_first=spent.isdisjoint(pair)))
            spent.update(pair)
        # So were probes for the first answer that was not judged before.
        for place, judgment in enumerate(judgments):
            if not judgment.cached:
                judgments[place] = _with_calls(judgment, probes)
                break
        return judgments

    def _judgment(self, verdicts: Sequence[Verdict], *, is_first: bool) -> Judgment:
        scores = [verdict.score for verdict in verdicts if verdict.score is not None]
        failure = next((str(verdict.fault) for verdict in verdicts if verdict.score is None), "")
        if not failure and max(scores) - min(scores) >= self._order_tolerance:
            failure = f"{scores[0]} with the answer last, {scores[1]} with it first"
        took = verdicts if is_first else ()
        return Judgment(
            score=None if failure else fmean(scores),
            reason=verdicts[0].reason,
            failure=failure,
            calls=sum(verdict.calls for verdict in took),
            failed_calls=sum(verdict.failed_calls for verdict in took),
            tokens=sum(verdict.tokens for verdict in took),
            seconds=sum(verdict.seconds for verdict in took),
            cached=all(verdict.score is not None and (verdict.cached or not is_first) for verdict in verdicts),
        )

    async def _fill_in(
        self, wanted: Mapping[bytes, JudgeRequest], verdicts: Mapping[bytes, Verdict], probes: Verdict
    ) -> None:
        with JudgeStore(self._store) as store:
            for key, verdict in verdicts.items():
                if (known := store.get(key)) is not None:
                    verdict.score, verdict.reason = known
                    verdict.cached = True
            left = {key: wanted[key] for key in wanted if verdicts[key].score is None}
            if left:
                await self._server.ask_all(left, verdicts, store, probes)


def _with_calls(judgment: Judgment, probes: Verdict) -> Judgment:
    return replace(
        judgment,
        calls=judgment.calls + probes.calls,
        failed_calls=judgment.failed_calls + probes.failed_calls,
        tokens=judgment.tokens + probes.tokens,
        seconds=judgment.seconds + probes.seconds,
    )


def _run(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run to the end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
