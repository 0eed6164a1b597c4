"""The tiers: what a call gets from the recorded results, and how far that can be trusted.

==============  ========================================================================================
`exact`         the same call, and for a stateful tool in the same state
`fuzzy`         the same call in another state; else calls whose token sets reach the threshold of Jaccard
`best_effort`   any call of the same tool, chosen by option
`miss`          the tool is unknown, volatile or without recorded results, or the call has no canonical form
==============  ========================================================================================

An entry that is older than `max_age_s` counts for the tier below the one that it fits. Neither a further entry nor a
lower threshold ever makes the tier of a look-up worse (as far as the index recalls, and as long as `as_of` is held).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal, NamedTuple, final

from streakline.cache.canonical import call_key, canonical_arguments, canonical_text, entry_key, nfc
from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore, Entry
from streakline.cache.tokens import call_tokens, jaccard
from streakline.errors import CacheError, ConfigError
from streakline.types import JSON, Tier

if TYPE_CHECKING:
    from streakline.cache.index import FuzzyIndex  # loads FAISS

_DRAWN_FROM = 8
"""Candidates that an independent draw chooses from."""
_SEARCHED_BY_AGE = 64
"""Neighbours that are looked at where some may be too old."""
_REMEMBERED = 65536
"""Answers that are kept: the members of a group make the same calls."""
_REMEMBERED_CHARACTERS = 4096
"""Of a result that is kept."""
_NEAR = 0.4
"""Least similarity of a call that counts as the nearest."""
_UNKNOWN_STATE = b"unknown"
"""Digest that no entry has: a stateful tool that is asked without a state has no exact result."""
_COMPARED_NAME = 80
"""Characters of an unknown name that are compared: a model may write a page."""


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Which tiers serve, and what."""

    fuzzy: bool = True
    """Whether similar calls serve."""
    threshold: float = 1.0
    """Least Jaccard similarity of the token sets, in (0, 1], at which a call counts as similar. At 1 that is the same
    call in another state alone: in the audits no lower one deserved more trust than `best_effort`."""
    best_effort: Literal["off", "medoid", "most_frequent", "nearest"] = "medoid"
    """What serves where no similar call is recorded: the tool's entry that is most like its others, its most frequent
    one, the nearest call (the medoid where none is near), or nothing."""
    max_age_s: float | None = None
    """Seconds after which an entry serves a tier lower; None = never."""
    as_of: float | None = None
    """Unix time at which ages are taken; None = that of the newest entry, so that answers are the same every day."""
    serve_volatile: bool = False
    """Whether results of volatile tools serve; otherwise these always miss."""
    draw: Literal["shared", "independent"] = "shared"
    """`shared`: all episodes get the best candidate. `independent`: each seed draws one of the first eight."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"Expected `threshold` to be in (0, 1], but got {self.threshold}")
        if self.max_age_s is not None and not self.max_age_s > 0:
            raise ConfigError(f"Expected `max_age_s` to be positive, but got {self.max_age_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a look-up found."""

    tier: Tier
    """`exact`, `fuzzy`, `best_effort` or `miss`."""
    entry: Entry | None = None
    """What serves; None = a miss."""
    similarity: float = 0.0
    """Jaccard similarity of the recorded call to the asked one, in [0, 1]; 0 for a miss."""
    call: bytes = b""
    """Key of the asked call, without state; empty where it has no canonical form."""
    close_names: tuple[str, ...] = ()
    """For a miss, recorded tools of similar name, the most similar first."""
    fault: str = ""
    """Why the call has no canonical form; empty = it has one."""


class _Asked(NamedTuple):
    """A call in canonical form that may be served."""

    tool: str
    arguments: dict[str, JSON]
    call: bytes
    key: bytes
    """Exact key."""
    stateful: bool
    seed: int


class _Candidate(NamedTuple):
    similarity: float
    entry: Entry


@final
class ToolCache:
    """Answers calls from a store. The traits and schemas of its tools are read once; see `refresh`.

    `index` proposes similar calls. Without it, only the same call in another state is `fuzzy`, and the first entry of a
    tool serves as its medoid.
    """

    def __init__(
        self, store: CacheStore, *, index: FuzzyIndex | None = None, options: CacheOptions | None = None
    ) -> None:
        self.store = store
        self._index = index
        self._options = options or CacheOptions()
        self._digest = store.digest()
        self._tools = store.tools()
        self._oldest = -math.inf
        if (age := self._options.max_age_s) is not None:
            self._oldest = (store.newest if self._options.as_of is None else self._options.as_of) - age
        self._answers: dict[bytes, Served] = {}
        self._of_tool: dict[str, list[tuple[Entry, set[int]]]] = {}
        self._of_call: dict[bytes, list[Entry]] = {}
        self._close_names: dict[str, tuple[str, ...]] = {}

    def refresh(self) -> None:
        """Read the traits and schemas of the tools again where the store has changed."""
        digest = self.store.digest()
        if digest != self._digest:
            self._digest = digest  # read first: what changes in between is read again next time
            self._tools = self.store.tools()
            self._close_names.clear()

    def knows(self, tool: str) -> bool:
        """Whether the store has a record of the tool."""
        return nfc(tool) in self._tools

    def traits(self, tool: str) -> ToolTraits:
        """What the results of a tool depend on; an unknown tool counts as pure."""
        record = self._tools.get(nfc(tool))
        return record.traits if record else ToolTraits()

    def canonical(self, tool: str, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        """Bring arguments to the form in which calls of the tool are recorded. See `canonical_arguments`."""
        record = self._tools.get(nfc(tool))
        return canonical_arguments(arguments, parameters=record.parameters if record else None)

    def lookup(self, tool: str, arguments: Mapping[str, JSON], *, state: bytes = b"", seed: int = 0) -> Served:
        """Find what a call gets, whatever a model may have written.

        Args:
            tool: Its name.
            arguments: As the caller wrote them.
            state: Digest of the state that it meets, for a stateful tool; empty = unknown.
            seed: Of the episode, for independent draws: one seed draws one result for one call in one state.

        Raises:
            CacheError: The store is damaged.
        """
        asked = self._asked(tool, arguments, state, seed)
        if isinstance(asked, Served):
            return asked
        answer = self._answers.get(asked.key)
        if answer is None:
            entry = self.store.exact(asked.key)
            if entry is not None and self._is_fresh(entry):
                answer = Served(tier=Tier.EXACT, entry=entry, similarity=1.0, call=asked.call)
            else:
                answer = self._inexact(asked, entry)
            self._remember(asked.key, answer)
        return answer

    def _asked(self, tool: str, arguments: Mapping[str, JSON], state: bytes, seed: int) -> _Asked | Served:
        """The call in canonical form, or the miss that needs no search."""
        tool = tool if tool.isascii() else nfc(tool)
        record = self._tools.get(tool)
        try:
            canonical = canonical_arguments(arguments, parameters=record.parameters if record else None)
        except CacheError as error:
            return self._miss(tool, b"", fault=str(error))
        call = call_key(tool, canonical_text(canonical))
        kind = record.traits.kind if record else None
        if kind is None or (kind is ToolKind.VOLATILE and not self._options.serve_volatile):
            return self._miss(tool, call)
        stateful = kind is ToolKind.STATEFUL
        key = entry_key(call, state or _UNKNOWN_STATE) if stateful else call
        return _Asked(tool, canonical, call, key, stateful, seed)

    def _remember(self, key: bytes, answer: Served) -> None:
        """Keep an answer that is the same whenever and for whomever it is given."""
        is_lasting = self.store.read_only and (answer.tier is Tier.EXACT or self._options.draw == "shared")
        if is_lasting and (answer.entry is None or len(answer.entry.result) <= _REMEMBERED_CHARACTERS):
            if len(self._answers) == _REMEMBERED:
                self._answers.clear()
            self._answers[key] = answer

    def _miss(self, tool: str, call: bytes, *, fault: str = "") -> Served:
        name = tool[:_COMPARED_NAME]
        close = self._close_names.get(name)
        if close is None:
            others = [other for other in self._tools if other != tool]
            close = tuple(difflib.get_close_matches(name, others, n=3))
            if len(self._close_names) < _REMEMBERED:
                self._close_names[name] = close
        return Served(tier=Tier.MISS, call=call, close_names=close, fault=fault)

    def _inexact(self, asked: _Asked, aged: Entry | None) -> Served:
        """Serve a call that has no fresh exact entry; `aged` is the one that is too old, which serves a tier lower."""
        options = self._options
        pool = self._same_call(asked, aged)
        fuzzy = [item for item in pool if item.entry is aged or self._is_fresh(item.entry)]
        tokens: set[int] = set()
        if not fuzzy:
            tokens = call_tokens(asked.tool, asked.arguments)
            known = {item.entry.id for item in pool}
            pool += [item for item in self._near(asked.tool, tokens) if item.entry.id not in known]
            fuzzy = [item for item in pool if item.similarity >= options.threshold and self._is_fresh(item.entry)]
        if fuzzy and options.fuzzy:
            return self._serve(Tier.FUZZY, asked, fuzzy)
        if options.best_effort != "off":
            similar = [item for item in pool if item.similarity >= options.threshold]
            rest = [item for item in pool if item.similarity < options.threshold and self._is_fresh(item.entry)]
            candidates = [*similar, *rest] or self._any(asked.tool, tokens)
            if candidates:
                return self._serve(Tier.BEST_EFFORT, asked, candidates)
        return self._miss(asked.tool, asked.call)

    def _same_call(self, asked: _Asked, aged: Entry | None) -> list[_Candidate]:
        """The exact entry that is too old, then those of the call in other states, fresh ones first."""
        pool = [] if aged is None else [_Candidate(1.0, aged)]
        if self._options.fuzzy and asked.stateful:
            same = self._of_call.get(asked.call)
            if same is None:
                same = sorted(self.store.same_call(asked.call), key=self._is_fresh, reverse=True)[:_DRAWN_FROM]
                if self.store.read_only and len(self._of_call) < _REMEMBERED:  # `ls` may have thousands.
                    self._of_call[asked.call] = same
            pool += [_Candidate(1.0, entry) for entry in same if aged is None or entry.id != aged.id]
        return pool

    def _near(self, tool: str, tokens: set[int]) -> list[_Candidate]:
        """Similar calls, the nearest first; those below the threshold only where they may serve."""
        by_nearness = self._options.best_effort == "nearest"
        if self._index is None or not (self._options.fuzzy or by_nearness):
            return []
        count = 1 if self._options.draw == "shared" else _DRAWN_FROM
        count = _SEARCHED_BY_AGE if self._options.max_age_s else count
        least = min(_NEAR, self._options.threshold) if by_nearness else self._options.threshold
        found = self._index.nearest(tool, tokens, count=count, min_similarity=least)
        return [_Candidate(item.similarity, self.store.get(item.entry_id)) for item in found]

    def _serve(self, tier: Tier, asked: _Asked, candidates: Sequence[_Candidate]) -> Served:
        chosen = candidates[0]
        if self._options.draw == "independent":
            draw = sha256(b"%d " % asked.seed + asked.key).digest()
            drawn_from = candidates[:_DRAWN_FROM]
            chosen = drawn_from[int.from_bytes(draw[:8], "big") % len(drawn_from)]
        return Served(tier=tier, entry=chosen.entry, similarity=chosen.similarity, call=asked.call)

    def _any(self, tool: str, tokens: set[int]) -> list[_Candidate]:
        """Fresh entries of the tool, the one that the option asks for first."""
        entries = self._of_tool.get(tool)
        if entries is None:
            count = 1 if self._options.draw == "shared" else _DRAWN_FROM
            first = self._first(tool)
            others = (entry for entry in self.store.iterate(tool) if first is None or entry.id != first.id)
            fresh = islice(filter(self._is_fresh, chain([] if first is None else [first], others)), count)
            entries = self._of_tool[tool] = [(entry, call_tokens(tool, entry.arguments)) for entry in fresh]
        return [_Candidate(jaccard(tokens, other), entry) for entry, other in entries]

    def _first(self, tool: str) -> Entry | None:
        if self._options.best_effort == "most_frequent":
            return self.store.most_frequent(tool)
        medoid = self._index.medoid(tool) if self._index else None
        return None if medoid is None else self.store.get(medoid)

    def _is_fresh(self, entry: Entry) -> bool:
        return entry.recorded_at >= self._oldest


def open_cache(store: CacheStore, *, options: CacheOptions) -> ToolCache:
    """Make the tool cache of a store, with an index where a tier needs one."""
    if not options.fuzzy and options.best_effort not in ("medoid", "nearest"):
        return ToolCache(store, options=options)
    from streakline.cache.index import open_index  # loads FAISS

    return ToolCache(store, index=open_index(store), options=options)
