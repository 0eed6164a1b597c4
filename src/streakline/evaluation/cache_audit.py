"""What a tool cache is worth: how often it serves what the live tool would answer, and how far it reaches.

Held-out calls run in the live simulators and, side by side, are asked of the frozen cache as in training, once for each
threshold. So states are followed as training follows them: a write that is served from elsewhere moves its state on, a
miss doesn't. What is held fixed is the calls: an agent that reads a wrong result might have gone on otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

from streakline.cache.index import open_index
from streakline.cache.lookup import CacheOptions, ToolCache
from streakline.cache.state import ToolKind
from streakline.cache.store import CacheStore
from streakline.environment.base import Environment
from streakline.environment.cached import CachedEnvironment
from streakline.environment.live import LiveEnvironment
from streakline.environment.replay import result_key
from streakline.environment.tool_traits import fingerprint, initial_state
from streakline.evaluation.held_out_calls import HeldOutCalls
from streakline.evaluation.intervals import Interval, clustered_share
from streakline.types import JSON, Task, Tier, ToolCall, ToolResult

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the cache made of a call."""

    episode: int
    """Number of the episode."""
    task_id: str
    """Its task, the unit of intervals."""
    tier: Tier
    """By which it was served; `miss` = it was not."""
    similarity: float
    """Of the recorded call to the asked one."""
    is_live: bool
    """Whether the result equals the live one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedCall:
    """One call, answered live and by the cache."""

    tool: str
    """Name of the tool."""
    arguments: Mapping[str, JSON]
    """As the caller wrote them."""
    live: str
    """What the tool answered."""
    served: str
    """What the cache answers with its own options."""
    answer: Answer
    """`served` against `live`."""
    sweep: Mapping[float, Answer]
    """The same for each threshold."""
    age_s: float | None
    """Seconds between the recording of what was served and the newest recording (or `as_of`); None = a miss."""
    wrote: bool
    """Whether the call changed the live world."""
    diverged: bool
    """Whether an earlier call changed the live world and not the state that the cache follows: it was a miss, or its
    tool isn't known to write. From then on exact results can differ through no fault of their own tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Coverage and fidelity over some calls."""

    calls: Mapping[Tier, int]
    """Calls by tier."""
    episodes: Mapping[Tier, int]
    """Episodes by the worst tier of these calls."""
    fidelity: Mapping[str, Interval]
    """Share of results that equal the live ones, where there are any: by tier; `other_call`, the fuzzy ones of a
    similarity below 1 (the same call in another state has 1, and serves at every threshold); `served`, over all tiers;
    `rollouts`, the share of episodes in which all do."""
    num_other_call: int
    """Results that `other_call` is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheAudit:
    """What an audit found."""

    overall: Figures
    """With the cache's own options."""
    tools: Mapping[str, Figures]
    """By tool, the most called first."""
    ages_s: Mapping[float, Figures]
    """By the least age of what was served."""
    sweep: Mapping[float, Figures]
    """By threshold, ascending."""
    min_fidelity: float
    """Share of fuzzy results that must equal the live ones."""
    proposed_threshold: float | None
    """See `propose`."""
    kinds: Mapping[str, str]
    """Tools that do what their declared kind leaves out, with what they seem to be and why. One that is declared
    volatile is never contradicted: that no difference was seen proves nothing."""
    known_tasks: Sequence[str]
    """Ids of tasks that the cache was recorded from, or that begin in a world that it was recorded in."""


@final
class CacheAuditor:
    """Replays held-out calls, live and against one cache.

    Args:
        store: The recorded results.
        options: Under which they serve.
        thresholds: Of similarity, each of which is tried too, with fuzzy results on.

    Raises:
        CacheError: The store is damaged.
        ConfigError: A threshold is outside (0, 1].
    """

    def __init__(self, store: CacheStore, *, options: CacheOptions, thresholds: Sequence[float]) -> None:
        settings = {value: replace(options, fuzzy=True, threshold=value) for value in sorted(thresholds)}
        index = open_index(store)
        self._store = store
        self._cache = ToolCache(store, index=index, options=options)
        self._sweep = {value: ToolCache(store, index=index, options=each) for value, each in settings.items()}
        self._as_of = store.newest if options.as_of is None else options.as_of
        self.num_refused = 0
        """Calls that fit no tool or schema: live tools and cache refuse them in the same words."""
        self.num_cut = 0
        """Episodes in which a live tool overran its time: that call and those after it are left out."""

    def replay(self, episode: HeldOutCalls, *, number: int) -> Iterator[AuditedCall]:
        """Make the calls of an episode in fresh worlds; its number also seeds independent draws.

        Raises:
            DataError: The world of the task can't be made.
        """
        task, diverged = episode.task, False
        live, cached = LiveEnvironment(task), CachedEnvironment(task, cache=self._cache)
        sweep = {value: CachedEnvironment(task, cache=cache) for value, cache in self._sweep.items()}
        environments: list[Environment] = [live, cached, *sweep.values()]
        for environment in environments:
            environment.seed_draws(number)
        for index, turn in enumerate(episode.calls):
            for environment in environments:
                environment.begin_user_turn(index)
            for call in turn:
                state, served = cached.state(), cached.execute(call)
                if served.tier is Tier.LIVE:
                    self.num_refused += 1
                    continue
                result, wrote = _run(call, live)
                if live.done:
                    self.num_cut += 1
                    return
                yield AuditedCall(
                    tool=call.name,
                    arguments=dict(call.arguments),
                    live=result.content,
                    served=served.content,
                    answer=_answer(served, result, episode=number, task_id=task.id),
                    sweep={
                        value: _answer(world.execute(call), result, episode=number, task_id=task.id)
                        for value, world in sweep.items()
                    },
                    age_s=self._age(served),
                    wrote=wrote,
                    diverged=diverged,
                )
                diverged = diverged or (wrote and cached.state() == state)

    def _age(self, served: ToolResult) -> float | None:
        if not served.entry_id:
            return None
        return max(0.0, self._as_of - self._store.get(int(served.entry_id)).recorded_at)


def summarise(
    store: CacheStore,
    calls: Sequence[AuditedCall],
    *,
    tasks: Iterable[Task],
    min_fidelity: float,
    ages_s: Sequence[float],
) -> CacheAudit:
    """Sum up audited calls of some tasks; `ages_s` are the bounds between the bins of ages."""
    bounds = [0.0, *sorted(ages_s)]
    served = [call for call in calls if call.age_s is not None]
    sweep = {value: figures(call.sweep[value] for call in calls) for value in (calls[0].sweep if calls else ())}
    tools = _by(calls, lambda call: call.tool)
    return CacheAudit(
        overall=figures(call.answer for call in calls),
        tools=dict(sorted(tools.items(), key=lambda item: (-sum(item[1].calls.values()), item[0]))),
        ages_s=dict(sorted(_by(served, lambda call: bounds[bisect_right(bounds, call.age_s or 0.0) - 1]).items())),
        sweep=sweep,
        min_fidelity=min_fidelity,
        proposed_threshold=propose(sweep, min_fidelity=min_fidelity),
        kinds=kind_findings(store, calls),
        known_tasks=_known(store, tasks),
    )


def figures(answers: Iterable[Answer]) -> Figures:
    """Sum up answers; intervals are over tasks."""
    found = list(answers)
    episodes: dict[int, list[Answer]] = defaultdict(list)
    for answer in found:
        episodes[answer.episode].append(answer)
    parts = {str(tier): [item for item in found if item.tier is tier] for tier in Tier if tier is not Tier.MISS}
    parts["other_call"] = [item for item in parts[Tier.FUZZY] if item.similarity < 1]
    parts["served"] = [item for item in found if item.tier is not Tier.MISS]
    parts["rollouts"] = [replace(each[0], is_live=all(item.is_live for item in each)) for each in episodes.values()]
    return Figures(
        calls=dict(Counter(item.tier for item in found)),
        episodes=dict(
            Counter(max((item.tier for item in each), key=lambda tier: tier.rank) for each in episodes.values())
        ),
        fidelity={name: _share(part) for name, part in parts.items() if part},
        num_other_call=len(parts["other_call"]),
    )


def propose(sweep: Mapping[float, Figures], *, min_fidelity: float) -> float | None:
    """Find the lowest threshold at which other calls are right often enough; None = fuzzy results never are.

    Where they aren't, the same call in another state may be: then the highest threshold, if it leaves only that.
    """
    for threshold, found in sorted(sweep.items()):
        if "other_call" in found.fidelity and found.fidelity["other_call"].estimate >= min_fidelity:
            return threshold
    highest = max(sweep, default=None)
    if highest is None or sweep[highest].num_other_call or Tier.FUZZY not in sweep[highest].fidelity:
        return None
    return highest if sweep[highest].fidelity[Tier.FUZZY].estimate >= min_fidelity else None


def kind_findings(store: CacheStore, calls: Iterable[AuditedCall]) -> dict[str, str]:
    """Find the tools whose declared kind is contradicted, in the store or by the live tools. See `CacheAudit.kinds`."""
    conflicts, differing, writes = Counter(store.conflicts()), Counter[str](), Counter[str]()
    for call in calls:
        writes[call.tool] += call.wrote
        differing[call.tool] += call.answer.tier is Tier.EXACT and not call.answer.is_live and not call.diverged
    findings = {}
    for name, record in store.tools().items():
        kind, seems = record.traits.kind, "volatile" if record.traits.state else "stateful or volatile"
        if kind is ToolKind.VOLATILE:
            continue
        if conflicts[name] or differing[name]:
            findings[name] = (
                f"declared {kind}, seems {seems}: {conflicts[name]} recorded calls have differing results in the same "
                f"state, and {differing[name]} exact results differ from the live ones"
            )
        elif writes[name] and not record.traits.writes:
            findings[name] = f"declared {kind}, seems to write: {writes[name]} calls changed the live world"
    return findings


def _run(call: ToolCall, live: LiveEnvironment) -> tuple[ToolResult, bool]:
    """Run a call, and see whether it changed the world."""
    simulator = live.simulator(call.name)
    before = fingerprint(simulator)
    result = live.execute(call)
    return result, not live.done and fingerprint(simulator) != before  # after a time-out its thread may still write


def _answer(served: ToolResult, live: ToolResult, *, episode: int, task_id: str) -> Answer:
    is_live = served.tier is not Tier.MISS and result_key(served) == result_key(live)
    return Answer(episode=episode, task_id=task_id, tier=served.tier, similarity=served.similarity, is_live=is_live)


def _known(store: CacheStore, tasks: Iterable[Task]) -> list[str]:
    sources = {source.removeprefix("record:") for source in store.sources()}
    states = {entry.state for entry in store.iterate()}
    return [
        task.id
        for task in tasks
        if task.id in sources or states & {initial_state(task, name) for name in task.simulators}
    ]


def _by(calls: Iterable[AuditedCall], key: Callable[[AuditedCall], _Key]) -> dict[_Key, Figures]:
    groups: dict[_Key, list[Answer]] = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call.answer)
    return {name: figures(answers) for name, answers in groups.items()}


def _share(answers: Iterable[Answer]) -> Interval:
    values: dict[str, list[bool]] = defaultdict(list)
    for answer in answers:
        values[answer.task_id].append(answer.is_live)
    return clustered_share(values)
