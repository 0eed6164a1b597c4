"""Requests side by side: each with its attempts, all with one view of whether the server still answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import final

from streakline.errors import JudgeOutageError
from streakline.rewards.judge.endpoint import Connection, Reply
from streakline.rewards.judge.extras import require
from streakline.rewards.judge.faults import Fault, RefusalFault, RequestFault, ServerFault
from streakline.rewards.judge.patience import BREAK_AFTER, Gate, Limits
from streakline.rewards.judge.prompt import JudgeRequest
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
    """Asks one server for verdicts, and keeps them."""

    def __init__(
        self, connection: Connection, store: JudgeStore, limits: Limits, budget: Budget, *, judge: str
    ) -> None:
        self._connection, self._store, self._limits, self._budget = connection, store, limits, budget
        self._judge = judge
        self._gate = Gate(limits)
        self._tenacity = require("tenacity")
        self._breaks = True
        self._failures_in_a_row = 0
        # Why nothing more is asked at all: a message.
        self._end = ""
        self._is_spent = False

    def begin(self, *, breaks: bool) -> None:
        """Begin a round. With `breaks` nothing more is sent after several failures of the server in a row."""
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
        limits, tenacity = self._limits, self._tenacity
        verdict.fault, verdict.tries = None, 0
        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(self._is_worth_another),
            stop=lambda state: self._is_enough(verdict, seconds=state.seconds_since_start),
            wait=tenacity.wait_exponential(multiplier=limits.backoff_s, max=limits.max_backoff_s)
            + tenacity.wait_random(0, limits.backoff_s),
            reraise=True,
        )
        try:
            verdict.score, verdict.reason = await attempts(self._attempt, request, verdict)
        except Fault as fault:
            verdict.fault = fault
        else:
            verdict.fault = None
            self._store.put(key, score=verdict.score, reason=verdict.reason)

    async def probe(self) -> str:
        """Find out whether the server answers, whatever it says; gives the error, empty = it does.

        Raises:
            JudgeOutageError: Waiting would not help.
        """
        self.begin(breaks=False)
        try:
            await self._attempt(_PROBE, Verdict())
        except ServerFault as fault:
            self.raise_if_ended()
            return str(fault)
        except Fault:
            self.raise_if_ended()
        return ""

    async def _attempt(self, request: JudgeRequest, verdict: Verdict) -> tuple[int, str]:
        async with self._gate.passing():
            self._require_open()
            verdict.calls += 1
            start = time.monotonic()
            try:
                reply = await self._connection.ask(request)
                self._failures_in_a_row = 0
                verdict.tokens += reply.tokens
                self._store.pay_tokens(self._judge, reply.tokens)
                return _read(reply)
            except Fault as fault:
                verdict.failed_calls += 1
                self._note(fault, verdict)
                raise
            finally:
                verdict.seconds += time.monotonic() - start

    def _require_open(self) -> None:
        if self._end or self._is_spent:
            raise RequestFault(self._end or "the budget is spent")
        if self._is_broken:
            raise ServerFault("it failed too often in a row")
        if not self._store.pay_call(self._judge, budget=self._budget):
            self._is_spent = True
            raise RequestFault("the budget is spent")

    def _note(self, fault: Fault, verdict: Verdict) -> None:
        verdict.fault = fault
        verdict.tries += not (isinstance(fault, ServerFault) and fault.is_busy)
        if isinstance(fault, RefusalFault):
            self._end = f"Expected judge {self._judge} to take requests, but got {fault}"
        if isinstance(fault, ServerFault):
            self._failures_in_a_row += 1
            if fault.wait_s > self._limits.patience_s:
                self._end = (
                    f"Expected judge {self._judge} to answer, but it asks to wait for {fault.wait_s:g} s: {fault}"
                )
            self._gate.hold(fault.wait_s)

    def _is_enough(self, verdict: Verdict, *, seconds: float) -> bool:
        # A server that is busy takes patience, not attempts.
        is_busy = isinstance(verdict.fault, ServerFault) and verdict.fault.is_busy
        return seconds >= self._limits.patience_s if is_busy else verdict.tries >= self._limits.attempts

    @property
    def _is_broken(self) -> bool:
        return self._breaks and self._failures_in_a_row >= BREAK_AFTER

    def _is_worth_another(self, error: BaseException) -> bool:
        if not isinstance(error, Fault) or isinstance(error, RequestFault | RefusalFault):
            return False
        return not self._is_broken and not self._end and not self._is_spent


def _read(reply: Reply) -> tuple[int, str]:
    if not reply.is_whole:
        raise Fault("a reply that was cut off")
    try:
        return read_verdict(reply.text)
    except VerdictError as error:
        raise Fault(f"a reply that is no verdict: {error}") from error
