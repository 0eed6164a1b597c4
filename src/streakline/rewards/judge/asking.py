"""Requests side by side: each with its attempts, all with one view of whether the server still answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import final

from streakline.errors import JudgeOutageError
from streakline.rewards.judge.endpoint import Connection
from streakline.rewards.judge.extras import require
from streakline.rewards.judge.faults import Fault, RefusalFault, RequestFault, ServerFault
from streakline.rewards.judge.patience import BREAK_AFTER, Gate, Limits, Silence
from streakline.rewards.judge.prompt import JudgeRequest
from streakline.rewards.judge.reply import Reply
from streakline.rewards.judge.store import Budget, JudgeStore
from streakline.rewards.judge.verdict import VerdictError, read_verdict

_PROBE = JudgeRequest(system="Answer in JSON.", user='Reply with {"reason": "", "score": 0} and nothing else.')


@dataclass(slots=True)
class Verdict:
    """What became of one request, over all its attempts."""

    score: int | None = None
    reason: str = ""
    fault: Fault | None = None
    calls: int = 0
    failed_calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cached: bool = False
    tries: int = 0


@final
class Asking:
    """Asks one server for verdicts, and keeps them.

    `silence` is how long it has brought nothing; what probing it takes is noted in `probes`.
    """

    def __init__(
        self,
        connection: Connection,
        store: JudgeStore,
        limits: Limits,
        budget: Budget,
        *,
        judge: str,
        probes: Verdict,
    ) -> None:
        self._connection, self._store, self._limits, self._budget = connection, store, limits, budget
        self._judge = judge
        self._gate = Gate(limits)
        self.silence = Silence(limits, judge=judge)
        self._probes = probes
        self._tenacity = require("tenacity")
        self._breaks = True
        self._failures_in_a_row = 0
        # Why nothing more is asked at all: a message.
        self._end = ""
        self._is_spent = False

    def begin(self, *, breaks: bool) -> None:
        """Begin a round. With `breaks` nothing more is sent after several failures in a row, or when patience ends."""
        self._breaks, self._failures_in_a_row = breaks, 0

    def raise_if_ended(self) -> None:
        """Raise `JudgeOutageError` where waiting would not help."""
        if self._is_spent:
            calls, tokens = self._store.spent(self._judge)
            raise JudgeOutageError(
                f"Expected judge {self._judge} to stay within its budget, but it has spent {calls} calls and {tokens} "
                "tokens: raise `budget.max_calls` or `budget.max_tokens`"
            )
        if self._end:
            raise JudgeOutageError(self._end)

    async def ask(self, request: JudgeRequest, verdict: Verdict, key: bytes) -> None:
        """Send a request until there is a verdict, or no use in another attempt; either is noted in `verdict`."""
        limits, tenacity, silence = self._limits, self._tenacity, self.silence
        verdict.fault, verdict.tries = None, 0
        pause = tenacity.wait_exponential(multiplier=limits.backoff_s, max=limits.max_backoff_s)
        pause += tenacity.wait_random(0, limits.backoff_s)
        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(self._is_worth_another),
            stop=lambda state: self._is_enough(verdict, seconds=state.seconds_since_start),
            wait=lambda state: min(pause(state), silence.left_s),
            reraise=True,
        )
        try:
            score, reason = await attempts(self._attempt, request, verdict)
        except Fault as fault:
            verdict.fault = fault
        else:
            verdict.fault = None
            verdict.score, verdict.reason = self._store.put(key, score=score, reason=reason)

    async def probe(self) -> Fault | None:
        """Find out, by a request like all others, whether the server answers; gives what came in place of a verdict.

        Raises:
            JudgeOutageError: Waiting would not help.
        """
        self.begin(breaks=False)
        try:
            await self._attempt(_PROBE, self._probes)
        except Fault as fault:
            self.raise_if_ended()
            return fault
        return None

    async def _attempt(self, request: JudgeRequest, verdict: Verdict) -> tuple[int, str]:
        was_structured = self._connection.structured
        try:
            return await self._call(request, verdict, structured=was_structured)
        except RequestFault:
            if not was_structured or self._is_ended:
                raise
        # It may be the request, or the server may not know structured output.
        return await self._call(request, verdict, structured=False)

    async def _call(self, request: JudgeRequest, verdict: Verdict, *, structured: bool) -> tuple[int, str]:
        async with self._gate.passing():
            self._require_open(verdict)
            verdict.calls += 1
            start = time.monotonic()
            try:
                reply = await self._connection.ask(request, structured=structured)
                self._note_answer()
                self._connection.structured &= structured
                verdict.tokens += reply.tokens
                self._store.pay_tokens(self._judge, reply.tokens)
                return _read(reply)
            except Fault as fault:
                verdict.failed_calls += 1
                self._note(fault, verdict, since=start)
                raise
            finally:
                verdict.seconds += time.monotonic() - start

    def _require_open(self, verdict: Verdict) -> None:
        if self._is_ended:
            raise RequestFault(self._end or "the budget is spent")
        if verdict is not self._probes and self._is_closed:
            raise ServerFault("it failed too often in a row, or for too long")
        if not self._store.pay_call(self._judge, budget=self._budget):
            self._is_spent = True
            raise RequestFault("the budget is spent")

    def _note_answer(self) -> None:
        self._failures_in_a_row = 0
        self.silence.end()

    def _note(self, fault: Fault, verdict: Verdict, *, since: float) -> None:
        verdict.fault = fault
        if isinstance(fault, ServerFault):
            verdict.tries += not fault.is_busy
            self._failures_in_a_row += 1
            self._note_wait(fault, since=since)
        elif isinstance(fault, RefusalFault):
            self._failures_in_a_row += 1
            if fault.is_certain or verdict is self._probes:
                self._end = f"Expected judge {self._judge} to take requests, but got {fault}"
        else:
            # What is asked again without structured output is still the same try.
            verdict.tries += not isinstance(fault, RequestFault)
            self._note_answer()

    def _note_wait(self, fault: ServerFault, *, since: float) -> None:
        if fault.wait_s > self._limits.patience_s:
            self._end = f"Expected judge {self._judge} to answer, but it asks to wait for {fault.wait_s:g} s: {fault}"
        self.silence.note(fault, since=since, wait_s=fault.wait_s)
        self._gate.hold(min(fault.wait_s, self.silence.left_s))

    def _is_enough(self, verdict: Verdict, *, seconds: float) -> bool:
        # A server that is busy takes patience, not attempts.
        is_busy = isinstance(verdict.fault, ServerFault) and verdict.fault.is_busy
        return seconds >= self._limits.patience_s if is_busy else verdict.tries >= self._limits.attempts

    @property
    def _is_ended(self) -> bool:
        return bool(self._end) or self._is_spent

    @property
    def _is_closed(self) -> bool:
        return self._breaks and (self.silence.is_over or self._failures_in_a_row >= BREAK_AFTER)

    def _is_worth_another(self, error: BaseException) -> bool:
        if not isinstance(error, Fault) or isinstance(error, RequestFault | RefusalFault):
            return False
        return not self._is_closed and not self._is_ended


def _read(reply: Reply) -> tuple[int, str]:
    if not reply.is_whole:
        raise Fault("a reply that was cut off")
    try:
        return read_verdict(reply.text)
    except VerdictError as error:
        raise Fault(f"a reply that is no verdict: {error}") from error
    except Exception as error:  # Such as one that is too deep.
        raise Fault(f"a reply that can't be read: {type(error).__name__}") from error
