"""Fills a cache of tool results: from recorded conversations, or by running gold calls in the simulators.

Both can be stopped at any point and started again: a line whose entries are stored (told by file name, number and
content), and a call that was recorded in its state, are not recorded twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import final

from streakline.cache.canonical import call_key, canonical_arguments, canonical_text
from streakline.cache.state import StateTracker, ToolKind, ToolTraits
from streakline.cache.store import CacheStore, NewEntry, ToolRecord
from streakline.data.conversations import Conversation, read_conversation
from streakline.environment.cached import CachedTools
from streakline.environment.tool_traits import declare_tools, writing_tools
from streakline.errors import CacheError, ConfigError, DataError
from streakline.types import Message, Role, Task, Tier, ToolCall

_LINES_A_TRANSACTION = 100


@dataclass(kw_only=True)
class BuildReport:
    """What came of a build."""

    calls: int = 0
    """Calls with a result."""
    added: int = 0
    """New entries."""
    duplicates: int = 0
    """Results that were there for the same call in the same state."""
    conflicts: int = 0
    """New entries beside another result for the same call in the same state."""
    unanswered: int = 0
    """Calls without a result; they are left out."""
    known_lines: int = 0
    """Lines that an earlier build had stored."""
    faults: list[str] = field(default_factory=list)
    """One sentence for each line or call that was skipped."""


@final
class ConversationRecorder:
    """Records the answered calls of files of conversations.

    `traits` says what results depend on, by tool; the others count as pure, until an audit finds otherwise. Nothing is
    known of the state in which a conversation begins, so a stateful call is exact within its own conversation alone.
    A tool whose results are recorded can still be declared volatile, but no longer get or lose a state.

    Raises:
        ConfigError: If `traits` give a tool another state than its results were recorded with.
    """

    def __init__(
        self, store: CacheStore, *, traits: Mapping[str, ToolTraits] | None = None, recorded_at: float
    ) -> None:
        self.report = BuildReport()
        self._store = store
        self._traits = traits or {}
        self._recorded_at = recorded_at
        self._tools = store.tools()
        for name in self._traits.keys() & self._tools.keys():
            self._declare(name, self._traits[name])

    def record(self, path: Path) -> Iterator[int]:
        """Record a file; yields the number of lines done, now and then. Raises `DataError` where it can't be read."""
        done = self._store.sources()
        try:
            with path.open("rb") as file:
                lines = enumerate(file, 1)
                while chunk := list(islice(lines, _LINES_A_TRANSACTION)):
                    sources = {_source(path, *item): item for item in chunk if item[1].strip()}
                    self.report.known_lines += len(sources.keys() & done)
                    added = self._store.add(
                        entry
                        for source, (number, line) in sources.items()
                        if source not in done
                        for entry in self._of_line(line, where=f"{path}, line {number}", source=source)
                    )
                    self.report.added += added.added
                    self.report.duplicates += added.duplicates
                    self.report.conflicts += added.conflicts
                    yield chunk[-1][0]
        except OSError as error:
            raise DataError(f"Expected a readable file at {path}, but got: {error.strerror or error}") from error

    def _declare(self, name: str, traits: ToolTraits) -> None:
        """Change the traits of a tool that is known."""
        known = self._tools[name]
        if traits not in (known.traits, ToolTraits(kind=ToolKind.VOLATILE)):
            raise ConfigError(
                f"Expected traits of `{name}` as its results were recorded with ({known.traits}), or volatile, "
                f"but got {traits}: record them in a new file"
            )
        if traits != known.traits:
            self._tools[name] = replace(known, traits=traits)
            self._store.set_tool(name, self._tools[name])

    def _of_line(self, line: bytes, *, where: str, source: str) -> list[NewEntry]:
        """Entries of one line; none where it is malformed, which is reported."""
        try:
            conversation = read_conversation(line, where=where)
            schemas = {tool.name: dict(tool.parameters) for tool in conversation.tools}
            canonical_text(schemas)
        except DataError as error:
            self.report.faults.append(str(error))
            return []
        except (ValueError, RecursionError) as error:
            self.report.faults.append(f"Expected schemas of tools to be JSON in {where}, but got: {error}")
            return []
        names = {call.name for message in conversation.messages for call in message.tool_calls}
        for name in sorted(names - self._tools.keys()):
            self._tools[name] = ToolRecord(traits=self._traits.get(name, ToolTraits()), parameters=schemas.get(name))
            self._store.set_tool(name, self._tools[name])
        return list(self._entries(conversation, where=where, source=source))

    def _entries(self, conversation: Conversation, *, where: str, source: str) -> Iterator[NewEntry]:
        states = {record.traits.state for record in self._tools.values() if record.traits.state}
        tracker = StateTracker({name: [source, name] for name in states})
        for call, answer in paired_results(conversation.messages):
            if answer is None:
                self.report.unanswered += 1
                continue
            record = self._tools[call.name]
            try:
                arguments = canonical_arguments(call.arguments, parameters=record.parameters)
            except CacheError as error:
                self.report.faults.append(f"{error}, in {where}")
                continue
            is_error = _is_error(answer.content)
            self.report.calls += 1
            yield NewEntry(
                tool=call.name,
                arguments=arguments,
                result=answer.content,
                is_error=is_error,
                state=tracker.digest(record.traits),
                source=source,
                recorded_at=self._recorded_at,
            )
            tracker.record(record.traits, call_key(call.name, canonical_text(arguments)), is_error=is_error)


def record_gold(store: CacheStore, tasks: Sequence[Task], *, report: BuildReport) -> Iterator[Task]:
    """Run the gold calls of tasks in their simulators and record what they answer; yields the tasks that are done.

    What the tools write to is learned from all tasks first, so that each entry's state holds every write before it.

    Raises:
        DataError: If a task's world can't be made.
        CacheError: If the store can't be written.
    """
    writing = set(chain.from_iterable(writing_tools(task) for task in tasks))
    declare_tools(store, dict.fromkeys(name for task in tasks for name in task.simulators), writing=writing)
    tools = CachedTools(str(store.path), mode="record", timeout_s=None)
    try:
        for task in tasks:
            before = store.num_entries
            environment = tools(task)
            for index, steps in enumerate(task.gold):
                environment.begin_user_turn(index)
                for call in chain.from_iterable(steps):
                    report.duplicates += environment.execute(call).tier is Tier.EXACT
                    report.calls += 1
            report.added += store.num_entries - before
            yield task
    finally:
        tools.close()


def paired_results(messages: Sequence[Message]) -> Iterator[tuple[ToolCall, Message | None]]:
    """Pair calls with their results: by id where both carry one, else in order; None = no result."""
    for index, message in enumerate(messages):
        answers: list[Message] = []
        for other in messages[index + 1 :]:
            if other.role is not Role.TOOL:
                break
            answers.append(other)
        for call in message.tool_calls:
            answer = next((item for item in answers if call.id and item.tool_call_id == call.id), None)
            if answer is None:
                answer = next((item for item in answers if not (call.id and item.tool_call_id)), None)
            if answer is not None:
                answers.remove(answer)
            yield call, answer


def _source(path: Path, number: int, line: bytes) -> str:
    """Name a line; its digest tells it from that of another file of the name, or of the file before it was edited."""
    return f"{path.name}:{number}:{sha256(line).hexdigest()[:12]}"


def _is_error(content: str) -> bool:
    """Whether a result is an error by the convention that live tools keep to: an object with the key `error`."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "error" in value
