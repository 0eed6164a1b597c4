"""A world whose tools answer from recorded results, read-only or recorded as it goes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias, final

from streakline.cache.database import SCHEMA_VERSION
from streakline.cache.lookup import CacheOptions, Served, ToolCache, open_cache
from streakline.cache.state import StateTracker, ToolKind
from streakline.cache.store import CacheStore, NewEntry
from streakline.environment.base import Environment
from streakline.environment.live import LiveEnvironment, call_fault, encodable, error_result
from streakline.environment.tool_traits import declare_tools, fingerprint, initial_state
from streakline.errors import ConfigError, DataError
from streakline.types import JSON, Task, Tier, ToolCall, ToolResult, ToolSchema

Mode: TypeAlias = Literal["frozen", "record", "live"]
"""`frozen`: all results come from the tiers of a store that is never written. `record`: a call that was recorded in
this state is served, any other runs live and is recorded. `live`: every call runs, and no store is opened."""

_OPTIONS = CacheOptions()


@final
class CachedEnvironment(Environment):
    """One episode whose results come from a cache; `CachedTools` makes it.

    Calls are checked as in `LiveEnvironment`, and refused in the same words. A task without simulators whose calls are
    its outcome, or none of whose tools is known to the cache, is answered as there too, in any mode.

    `exact` is kept honest by the state digests. They move on with each write that succeeds; with a write that is served
    from another call or state whatever its result says, since what it would have done is unknown; and not with a miss:
    the model is told that nothing happened. A call that fails and yet writes is never recorded, so never exact.
    """

    def __init__(
        self,
        task: Task,
        *,
        cache: ToolCache | None,
        mode: Mode = "frozen",
        latency_s: float = 0.0,
        timeout_s: float | None = 5.0,
    ) -> None:
        self._task = task
        self._cache = cache
        self._records = mode == "record"
        self._seed = 0
        self._latency_s = latency_s
        self._timeout_s = timeout_s
        self._visible: dict[str, ToolSchema] = {schema.name: schema for schema in task.tools}
        self._tracker = StateTracker({name: initial_state(task, name) for name in task.simulators})
        self._live: LiveEnvironment | None = None
        self._unseen: list[int | ToolCall] = []  # user turns, and served writes, that the live world hasn't met
        if cache is None or self._is_acknowledged(cache):
            self._cache = None
            self._world()

    def seed_draws(self, seed: int) -> None:
        """Take the seed of independent draws."""
        self._seed = seed

    def begin_user_turn(self, index: int) -> None:
        """Reveal the tools that the task holds back until this user turn."""
        self._visible.update({schema.name: schema for schema in self._task.revealed_tools.get(index, ())})
        self._unseen.append(index)

    def execute(self, call: ToolCall) -> ToolResult:
        """Answer one call. See `Environment.execute`; raises `CacheError` where the store is damaged."""
        if self._cache is None:
            return self._run(call)
        fault = call_fault(call, visible=self._visible) or ("The episode is closed" if self.done else "")
        if fault:
            return error_result(call, fault)
        state = self._tracker.digest(self._cache.traits(call.name))
        served = self._cache.lookup(call.name, call.arguments, state=state, seed=self._seed)
        if served.entry is None and self._records and not served.fault:
            return self._run_and_record(call, key=served.call, cache=self._cache)
        return self._result(call, served, cache=self._cache)

    def state(self) -> dict[str, JSON]:
        """Public state by simulator in mode `live`; else the digest of each state, since the world itself is unknown.

        Digests are equal where the same writes were made to the same start: worlds can be equal whose digests aren't.
        """
        if self._cache is None:
            return self._world().state()
        digests = self._tracker.digests()
        return {name: digests[name].hex() for name in self._task.simulators}

    @property
    def done(self) -> bool:
        """Whether a tool that ran live has closed the episode; recorded results never do."""
        return self._live is not None and self._live.done

    def _is_acknowledged(self, cache: ToolCache) -> bool:
        known = any(cache.knows(name) for name in self._visible)
        return not self._task.simulators and (self._records or bool(self._task.answers) or not known)

    def _world(self) -> LiveEnvironment:
        """The live world, brought to where the episode is."""
        if self._live is None:
            self._live = LiveEnvironment(self._task, timeout_s=self._timeout_s)
        for event in self._unseen:
            if isinstance(event, int):
                self._live.begin_user_turn(event)
            else:
                self._live.execute(event)
        self._unseen.clear()
        return self._live

    def _run(self, call: ToolCall) -> ToolResult:
        world = self._world()
        if self._latency_s and self._task.simulators and not call_fault(call, visible=self._visible):
            time.sleep(self._latency_s)
        return world.execute(call)

    def _run_and_record(self, call: ToolCall, *, key: bytes, cache: ToolCache) -> ToolResult:
        simulator = self._world().simulator(call.name)
        before = fingerprint(simulator)
        result = self._run(call)
        if self.done:  # its thread may still be writing
            return result
        wrote = fingerprint(simulator) != before
        if wrote and not cache.traits(call.name).writes:
            # Before the entry: whoever is served it must know that it wrote.
            declare_tools(cache.store, [type(simulator).__name__], writing=[call.name])
            cache.refresh()
        traits = cache.traits(call.name)
        if not (wrote and result.is_error):
            entry = NewEntry(
                tool=call.name,
                arguments=cache.canonical(call.name, call.arguments),
                result=result.content,
                is_error=result.is_error,
                state=self._tracker.digest(traits),
                source=f"record:{self._task.id}",
                recorded_at=time.time(),
            )
            cache.store.add([entry])
        self._tracker.record(traits, key, is_error=result.is_error and not wrote)
        return result

    def _result(self, call: ToolCall, served: Served, *, cache: ToolCache) -> ToolResult:
        entry = served.entry
        if entry is None:
            return replace(error_result(call, self._miss(call, served)), tier=Tier.MISS, similarity=0.0)
        if self._records:
            cache.refresh()  # Another process may have seen since that the tool writes.
        traits = cache.traits(call.name)
        self._tracker.record(traits, served.call, is_error=entry.is_error and served.tier is Tier.EXACT)
        if self._records and traits.writes:
            self._unseen.append(call)
        return ToolResult(
            name=call.name,
            content=encodable(entry.result),
            is_error=entry.is_error,
            tier=served.tier,
            similarity=served.similarity,
            entry_id=str(entry.id),
            call_id=call.id,
        )

    def _miss(self, call: ToolCall, served: Served) -> str:
        if served.fault:
            return served.fault
        close = [f"`{name}`" for name in served.close_names if name in self._visible]
        hint = f". Did you mean {' or '.join(close)}?" if close else ""
        return f"No result of `{call.name}` is recorded{hint}"


@final
class CachedTools:
    """Makes the world of an episode, with results from a cache (paper B); stands where `LiveEnvironment` does.

    The store is opened at the first use. Its digest is checkpoint state: a run isn't continued on another frozen cache.

    Args:
        path: File of the store.
        mode: `frozen` serves from the store alone; `record` runs what isn't recorded yet, and records it; `live` runs
            every call and opens no store.
        options: Tiers that serve, in mode `frozen`. In mode `record` only exact results serve.
        latency_s: Seconds that each live call takes longer, to measure what slow tools would cost.
        timeout_s: Seconds that one live call may take; None = no limit.

    Raises:
        ConfigError: `latency_s` is negative.
    """

    def __init__(
        self,
        path: str,
        mode: Mode = "frozen",
        options: CacheOptions = _OPTIONS,
        latency_s: float = 0.0,
        timeout_s: float | None = 5.0,
    ) -> None:
        if not latency_s >= 0:
            raise ConfigError(f"Expected `latency_s` to be at least 0, but got {latency_s}")
        self._path = path
        self._mode = mode
        self._options = options
        self._latency_s = latency_s
        self._timeout_s = timeout_s
        self._cache: ToolCache | None = None
        self._declared: set[str] = set()

    def __call__(self, task: Task) -> Environment:
        """Make the world of one episode."""
        cache = self.open()
        if cache is not None and self._mode == "record" and not self._declared.issuperset(task.simulators):
            declare_tools(cache.store, task.simulators)
            cache.refresh()
            self._declared.update(task.simulators)
        return CachedEnvironment(
            task, cache=cache, mode=self._mode, latency_s=self._latency_s, timeout_s=self._timeout_s
        )

    def open(self) -> ToolCache | None:
        """Open the store, and the index where a tier needs it; None in mode `live`.

        Raises:
            CacheError: The store is missing (`frozen`), damaged or of another version.
        """
        if self._cache is None and self._mode != "live":
            store = CacheStore.open(self._path, read_only=self._mode == "frozen")
            options = self._options
            if self._mode == "record":
                options = replace(options, fuzzy=False, best_effort="off")
            self._cache = open_cache(store, options=options)
        return self._cache

    def close(self) -> None:
        """Let go of the store; the next use opens it again."""
        if self._cache is not None:
            self._cache.store.close()
        self._cache = None

    @property
    def digest(self) -> str:
        """Digest of what the store holds; empty in mode `live`."""
        cache = self.open()
        return cache.store.digest() if cache else ""

    def statistics(self) -> dict[str, JSON]:
        """What answers, for the record of a run: counts, digest, schema version; in mode `live` the mode alone."""
        cache = self.open()
        if cache is None:
            return {"mode": self._mode}
        kinds = Counter(record.traits.kind.value for record in cache.store.tools().values())
        tools: dict[str, JSON] = {kind.value: kinds[kind.value] for kind in ToolKind}
        return {"mode": self._mode, "entries": cache.store.num_entries, "tools": tools, **self.state_dict()}

    def state_dict(self) -> dict[str, str | int]:
        """Digest and schema version of the store, wherever it lies."""
        return {"digest": self.digest, "schema_version": SCHEMA_VERSION}

    def load_state_dict(self, state: Mapping[str, str | int]) -> None:
        """Refuse to go on with another cache in mode `frozen`; raises `DataError`."""
        if self._mode == "frozen" and dict(state) != self.state_dict():
            raise DataError(
                f"Expected `{self._path}` to be the cache of the checkpoint ({str(state.get('digest'))[:12]}), but got "
                f"another ({self.digest[:12]}): use that cache, or start a new run"
            )
