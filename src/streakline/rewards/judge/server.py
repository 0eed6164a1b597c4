"""A server over all steps of a run: asked in rounds, seen to be out, and taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import final

from streakline.errors import JudgeOutageError
from streakline.rewards.judge.asking import Asking, Verdict
from streakline.rewards.judge.endpoint import Connection, Endpoint
from streakline.rewards.judge.faults import RefusalFault, RequestFault, ServerFault
from streakline.rewards.judge.patience import Limits, wait_for_server
from streakline.rewards.judge.prompt import JudgeRequest
from streakline.rewards.judge.store import Budget, JudgeStore


@final
class Server:
    """What is known of a server from one step to the next.

    Args:
        endpoint: Where it is.
        limits: How it is asked.
        budget: What may be spent.
    """

    def __init__(self, endpoint: Endpoint, limits: Limits, budget: Budget) -> None:
        self._endpoint, self._limits, self._budget = endpoint, limits, budget
        self._name = endpoint.model
        self._structured = endpoint.structured
        # Once patience was in vain, one try a step is enough.
        self._is_out = False
        # Whether that try has to bring a verdict: it answered all, but with nothing of use.
        self._is_useless = False

    async def ask_all(
        self,
        wanted: Mapping[bytes, JudgeRequest],
        verdicts: Mapping[bytes, Verdict],
        store: JudgeStore,
        probes: Verdict,
    ) -> None:
        """Fill in the verdicts that are wanted, of all those of a step.

        Args:
            wanted: Requests by key.
            verdicts: Of all keys of the step; those that were kept before have a score.
            store: Where verdicts are kept.
            probes: Where it is noted what seeing whether the server answers took.

        Raises:
            JudgeOutageError: The server is out. What it has judged stands in `verdicts`.
        """
        connection = Connection(self._endpoint, timeout_s=self._limits.timeout_s, structured=self._structured)
        async with connection:
            asking = Asking(connection, store, self._limits, self._budget, judge=self._name, probes=probes)
            try:
                if self._is_out:
                    await (self._require_verdict(asking) if self._is_useless else self._require_server(asking))
                    self._is_out = self._is_useless = False
                await self._ask_in_rounds(asking, wanted, verdicts)
                if len(wanted) > 1 and all(verdict.score is None for verdict in verdicts.values()):
                    await self._require_verdict(asking)
            except JudgeOutageError:
                self._is_out = True
                raise
            finally:
                self._structured = connection.structured

    async def _ask_in_rounds(
        self, asking: Asking, wanted: Mapping[bytes, JudgeRequest], verdicts: Mapping[bytes, Verdict]
    ) -> None:
        """Fill in verdicts; what failed while the server answers others is asked once more."""
        left, is_second = wanted, False
        while left:
            asking.begin(breaks=not is_second)
            await asyncio.gather(*(asking.ask(left[key], verdicts[key], key) for key in left))
            asking.raise_if_ended()
            left = {key: left[key] for key in left if isinstance(verdicts[key].fault, ServerFault)}
            was_out = bool(left) and await self._require_server(asking)
            if is_second and not was_out:
                break
            is_second = not was_out
        # Was that single request refused, or are all?
        if any(isinstance(verdicts[key].fault, RefusalFault) for key in wanted):
            await self._require_server(asking)

    async def _require_server(self, asking: Asking) -> bool:
        """See that the server answers, whatever it says; gives whether it had to be waited for.

        Raises:
            JudgeOutageError: It doesn't, or takes no request of ours.
        """
        fault = await asking.probe()
        must_wait = isinstance(fault, ServerFault)
        if isinstance(fault, ServerFault) and not self._is_out:
            fault = await wait_for_server(asking.probe, limits=self._limits, silence=asking.silence, fault=fault)
        if isinstance(fault, ServerFault):
            raise JudgeOutageError(f"Expected judge {self._name} to answer, but got: {fault}")
        return must_wait

    async def _require_verdict(self, asking: Asking) -> None:
        """See that the server can give a verdict at all, where it gave none for several requests.

        Raises:
            JudgeOutageError: It can't, and waiting would not help: it does not take the request, or garbles the reply.
        """
        await self._require_server(asking)
        for _ in range(self._limits.attempts):
            fault = await asking.probe()
            if fault is None:
                return
            if isinstance(fault, RequestFault):
                break
        self._is_useless = True
        none = "it gave none, also not for the smallest request"
        raise JudgeOutageError(f"Expected judge {self._name} to give verdicts, but {none}: {fault}")
