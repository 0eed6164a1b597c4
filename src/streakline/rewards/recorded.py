"""Success without a world: the calls that were made amount to the gold calls, by what a cache knows of its tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import final

from streakline.cache.canonical import call_key, canonical_text, entry_key
from streakline.cache.lookup import CacheOptions, ToolCache
from streakline.cache.state import StateTracker
from streakline.cache.store import CacheStore
from streakline.environment.tool_traits import initial_state
from streakline.errors import CacheError, ConfigError
from streakline.rewards.base import RewardTerm
from streakline.types import Task, Tier, ToolCall, ToolResult, Trajectory

_RAN = frozenset({Tier.LIVE, Tier.EXACT})


@final
class RecordedSuccess(RewardTerm):
    """1 if every user turn came out right, else 0; no tool runs, so that training needs none (paper B).

    A user turn is right when the writes so far are those of the gold calls, state by state and in their order, and the
    reads of its gold calls were made in the same states. So it is stricter than `StateSuccess` where another order of
    writes leads to the same world or another read tells the same. A user turn without gold calls is right when nothing
    was called in it. A served write counts as made whatever its result says, unless the result is exact.

    Args:
        cache: File of the store, which says what each tool reads and writes. It is read once: in mode `record`, where
            more is learned of the tools and they can run anyway, take `StateSuccess`.
    """

    def __init__(self, cache: str) -> None:
        self._path = cache
        self._tools: ToolCache | None = None

    def score(self, task: Task, trajectory: Trajectory) -> float | None:
        """Success of one trajectory; None where the machinery failed.

        Raises:
            ConfigError: The task has no gold calls, or the store doesn't know their tools.
            CacheError: The store can't be read.
        """
        if not task.gold:
            raise ConfigError(f"Expected a task with gold calls for RecordedSuccess, but got {task.id}")
        for name in {call.name for steps in task.gold for calls in steps for call in calls}:
            if not self._opened().knows(name):
                raise ConfigError(f"Expected `{self._path}` to know the tools of {task.id}, but got no `{name}` in it")
        if trajectory.termination.is_error:
            return None
        finished = trajectory.num_user_turns == len(task.gold) and trajectory.termination.is_finished
        return float(finished and self._is_right(task, trajectory))

    def _is_right(self, task: Task, trajectory: Trajectory) -> bool:
        made: list[list[tuple[ToolCall, bool]]] = [[] for _ in task.gold]
        for turn in trajectory.turns:
            pairs = zip(turn.message.tool_calls, turn.results, strict=False)
            made[turn.user_turn] += [(call, _took_effect(result)) for call, result in pairs]
        gold = [[(call, True) for calls in steps for call in calls] for steps in task.gold]
        seen: Counter[bytes] = Counter()
        outcomes = zip(self._outcomes(task, made), self._outcomes(task, gold), made, gold, strict=True)
        for (state, reads), (wanted_state, wanted_reads), calls, wanted in outcomes:
            seen.update(reads)
            if not (wanted_reads <= seen and state == wanted_state if wanted else not calls):
                return False
        return True

    def _outcomes(
        self, task: Task, calls_by_user_turn: Iterable[Sequence[tuple[ToolCall, bool]]]
    ) -> Iterator[tuple[dict[str, bytes], Counter[bytes]]]:
        """[user turns] digest of each state after it, and the reads made in it by exact key."""
        tools = self._opened()
        tracker = StateTracker({name: initial_state(task, name) for name in task.simulators})
        for calls in calls_by_user_turn:
            reads: Counter[bytes] = Counter()
            for call, took_effect in calls:
                traits = tools.traits(call.name)
                try:
                    key = call_key(call.name, canonical_text(tools.canonical(call.name, call.arguments)))
                except CacheError:  # no canonical form, so no call that ran
                    continue
                if not traits.writes:
                    reads[entry_key(key, tracker.digest(traits))] += 1
                tracker.record(traits, key, is_error=not took_effect)
            yield tracker.digests(), reads

    def _opened(self) -> ToolCache:
        if self._tools is None:
            options = CacheOptions(fuzzy=False, best_effort="off")
            self._tools = ToolCache(CacheStore.open(self._path, read_only=True), options=options)
        return self._tools


def _took_effect(result: ToolResult) -> bool:
    """Whether a write counts as made: as the frozen environment counts it."""
    return result.tier is not Tier.MISS and not (result.is_error and result.tier in _RAN)
