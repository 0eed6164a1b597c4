"""Records that travel between the stages; the shared vocabulary of the package.

Tasks come in, a `Trajectory` goes through everything, `Group`s of them are scored and selected, a `TrainingBatch`
reaches the loss. All are frozen, keyword-only and checked when built: a broken mask raises where it was made, not
three stages later in a loss that is silently zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

from streakline.errors import RecordError

if TYPE_CHECKING:
    import torch

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""Any value that survives a round trip through JSON."""


class Role(StrEnum):
    """Who speaks a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Tier(StrEnum):
    """Where a tool result came from, best first. The worst of a trajectory decides how far its answer is trusted."""

    LIVE = "live"
    """The tool itself ran."""
    EXACT = "exact"
    """The same call in the same state had been recorded."""
    FUZZY = "fuzzy"
    """A similar call of the same tool had been recorded."""
    BEST_EFFORT = "best_effort"
    """Some other call of the same tool had been recorded."""
    MISS = "miss"
    """Nothing fitting had been recorded: the model was told so."""

    @property
    def rank(self) -> int:
        """0 for the best tier; greater is worse."""
        return list(Tier).index(self)


class Termination(StrEnum):
    """Why an episode ended. Every trajectory has exactly one."""

    ANSWER = "answer"
    """The policy gave its final answer to the last request."""
    LENGTH = "length"
    """A turn, or the trajectory, met its token limit: the last turn is truncated."""
    TOOL_OVERFLOW = "tool_overflow"
    """A tool result did not fit the remaining context."""
    MAX_TURNS = "max_turns"
    """The cap on assistant turns was met."""
    TOOL_ERROR = "tool_error"
    """The environment itself failed (not: a tool that answered with an error, which the model may mend)."""
    INVALID_CALLS = "invalid_calls"
    """The cap on malformed or unknown calls was met."""
    REPEATED_CALL = "repeated_call"
    """The cap on identical calls in a row was met."""
    ENVIRONMENT_DONE = "environment_done"
    """The environment closed the episode."""
    ENGINE_ERROR = "engine_error"
    """The engine could not continue this one rollout."""

    @property
    def is_truncated(self) -> bool:
        """Whether a limit cut the episode off, in place of the policy or the environment ending it."""
        return self in {Termination.LENGTH, Termination.TOOL_OVERFLOW, Termination.MAX_TURNS}

    @property
    def is_finished(self) -> bool:
        """Whether the policy or the environment ended the episode, and neither a limit, a cap nor a failure."""
        return self in {Termination.ANSWER, Termination.ENVIRONMENT_DONE}

    @property
    def is_error(self) -> bool:
        """Whether the machinery failed, so that the outcome says nothing about the policy."""
        return self in {Termination.TOOL_ERROR, Termination.ENGINE_ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """What the policy is told of one tool."""

    name: str
    """Name by which it is called, unique within a task."""
    description: str = ""
    """One or a few sentences; empty where the source gives none."""
    parameters: Mapping[str, JSON] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema of the arguments: an object type with `properties` and `required`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call, as a name and literal arguments. Never code."""

    name: str
    """Tool name as written by the caller; may be unknown to the environment."""
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    """Literal arguments by parameter name; empty = a call without arguments."""
    id: str = ""
    """Pairs a call with its result in formats that need it; empty where order pairs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came back for one call."""

    name: str
    """Tool that was called."""
    content: str
    """Text given to the model, JSON where the tool returns a structure."""
    is_error: bool = False
    """Whether the call failed (unknown tool, invalid arguments, error from the tool)."""
    tier: Tier = Tier.LIVE
    """Where the result came from."""
    similarity: float = 1.0
    """Similarity of the served call to the asked one, in [0, 1]; 1 for live and exact."""
    entry_id: str = ""
    """Cache entry that was served; empty for a live result."""
    call_id: str = ""
    """`ToolCall.id` of the call it answers; empty where order pairs them."""
    truncated: bool = False
    """Whether the content was shortened to its token budget."""

    def __post_init__(self) -> None:
        """Check the range."""
        if not 0 <= self.similarity <= 1:
            raise RecordError(f"Expected `similarity` to be in [0, 1], but got {self.similarity}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation, independent of any chat template."""

    role: Role
    """Who speaks."""
    content: str = ""
    """Text without thinking and without tool calls; empty = none."""
    thinking: str = ""
    """Reasoning of an assistant message, without its tags; empty = none."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls of an assistant message in order; empty = none."""
    name: str = ""
    """For a tool message, the tool that answered."""
    tool_call_id: str = ""
    """For a tool message, the id of the call it answers; empty where order pairs them."""

    def __post_init__(self) -> None:
        """Check that only the assistant calls tools."""
        if self.tool_calls and self.role is not Role.ASSISTANT:
            raise RecordError(f"Expected `tool_calls` only on an assistant message, but got role {self.role.value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing to be done: tools, a world, and one or more user requests, with what a right outcome is.

    `gold` is executed, not compared as text: a trajectory succeeds when the world ends as the gold calls leave it and
    the reads that the gold makes were made. `answers` is for tasks without a world (BFCL single-turn), where the
    call itself is the outcome.
    """

    id: str
    """Stable and unique over all task sets: `<source>/<split or category>/<name>`."""
    source: str
    """Task set it came from, such as `toolworld` or `bfcl`."""
    kind: str
    """Request kind or category, the unit of per-kind reporting."""
    tools: tuple[ToolSchema, ...]
    """Tools the policy sees from the first turn."""
    requests: tuple[tuple[Message, ...], ...]
    """[user turns][messages]: what is said to the policy at each user turn; the first may carry a history."""
    system: str = ""
    """System prompt of the task; empty = that of the rendering policy."""
    revealed_tools: Mapping[int, tuple[ToolSchema, ...]] = field(default_factory=dict)
    """User turn (0-based) -> tools that the policy sees from that turn on; empty = none."""
    simulators: tuple[str, ...] = ()
    """Class names of the simulators that make up the world; empty = the tools are not executed."""
    initial_state: Mapping[str, JSON] = field(default_factory=dict)
    """Simulator name -> scenario that it loads."""
    long_context: bool = False
    """Whether the simulators pad their state, as BFCL's long-context category does."""
    clock: str = "2026-01-01T09:00:00"
    """ISO 8601 local time at which the simulators' clock stands still."""
    gold: tuple[tuple[tuple[ToolCall, ...], ...], ...] = ()
    """[user turns][steps][calls]: right calls; calls of a step do not depend on each other. An empty user turn =
    nothing must be called there (the policy asks, or says that it can't)."""
    replies: tuple[str, ...] = ()
    """[user turns]: a right closing text for each user turn; empty = none is known."""
    answers: tuple[Mapping[str, JSON], ...] = ()
    """Right calls of a task without a world, in the source's own notation of accepted values; empty = has a world."""
    level: int = 0
    """Difficulty, greater is harder; 0 = not graded."""

    def __post_init__(self) -> None:
        """Check that the per-user-turn fields agree."""
        if not self.requests:
            raise RecordError(f"Expected `requests` of task {self.id} to hold at least one user turn, but got none")
        for label, value in (("gold", self.gold), ("replies", self.replies)):
            if value and len(value) != len(self.requests):
                raise RecordError(
                    f"Expected `{label}` of {self.id} to have {len(self.requests)} user turns, but got {len(value)}"
                )

    def visible_tools(self, user_turn: int) -> dict[str, ToolSchema]:
        """Tools that the policy sees in a 0-based user turn, by name."""
        revealed = (tool for turn in range(user_turn + 1) for tool in self.revealed_tools.get(turn, ()))
        return {tool.name: tool for tool in (*self.tools, *revealed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What an engine returned for one generation: the tokens it sampled, as it sampled them."""

    token_ids: tuple[int, ...]
    """[T] sampled ids, the terminator included where it was sampled."""
    logprobs: tuple[float, ...]
    """[T] natural log-probabilities under the distribution that was sampled from (temperature applied)."""
    finish_reason: Literal["stop", "length", "error"]
    """`stop`: the terminator was sampled; `length`: the limit was met first; `error`: see `error`."""
    error: str = ""
    """What went wrong; empty = nothing."""
    weight_version: int = 0
    """Version of the weights that sampled it."""

    def __post_init__(self) -> None:
        """Check that ids and log-probabilities pair up, and that an error says what it is."""
        _require_equal_lengths(token_ids=self.token_ids, logprobs=self.logprobs)
        if (self.finish_reason == "error") != bool(self.error):
            raise RecordError(
                f"Expected `error` to be given with finish_reason 'error' alone, but got {self.error!r} with "
                f"{self.finish_reason!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One assistant turn inside a trajectory, and what it led to."""

    sample: int
    """Index of the `Sample` whose tokens it is trained on."""
    start: int
    """First position in the sample that the policy generated."""
    end: int
    """One past the terminator, which stands at `end - 1`."""
    message: Message
    """The parsed turn."""
    truncated: bool = False
    """Whether a limit cut it off: its terminator was then added by us and is not trained."""
    user_turn: int = 0
    """0-based user turn that it answers."""
    results: tuple[ToolResult, ...] = ()
    """One result a call, in order; empty = it called nothing, or the episode ended before its calls ran."""
    malformed_calls: int = 0
    """Calls that it tried to write and that could not be read."""
    closed_thinking: bool = False
    """Whether it left its thinking open, and the text that follows it closes it."""

    def __post_init__(self) -> None:
        """Check the span, and that no result answers nothing."""
        if not 0 <= self.start < self.end:
            raise RecordError(f"Expected `start` < `end` of a turn, but got {self.start} and {self.end}")
        if len(self.results) > len(self.message.tool_calls):
            raise RecordError(
                f"Expected at most one result a call, but got {len(self.results)} for {len(self.message.tool_calls)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One token sequence exactly as the policy saw and wrote it."""

    token_ids: tuple[int, ...]
    """[T] prompt, turns and injected text."""
    loss_mask: tuple[bool, ...]
    """[T] True where the token is trained: written by the policy, and not in a turn left out by the history policy."""
    logprobs_engine: tuple[float, ...] = ()
    """[T] engine log-probabilities, 0.0 where `loss_mask` is False; empty = not sampled (a demonstration)."""

    def __post_init__(self) -> None:
        """Check that the fields pair up."""
        _require_equal_lengths(token_ids=self.token_ids, loss_mask=self.loss_mask)
        if self.logprobs_engine:
            _require_equal_lengths(token_ids=self.token_ids, logprobs_engine=self.logprobs_engine)
            pairs = zip(self.loss_mask, self.logprobs_engine, strict=True)
            if any(value and not trained for trained, value in pairs):
                raise RecordError("Expected `logprobs_engine` to be 0 where `loss_mask` is False, but got more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One episode: the record that rollout, rewards, down-sampling, losses and evaluation share.

    Two turns, one tool result between them, history `keep`, advantage +0.5 (P prompt, A generated, R injected,
    E terminator; `E*` the terminator of a truncated turn)::

        token        P0  P1 | A0  A1  E  | R0  R1 | A2  E   |
        loss_mask     .   . |  x   x  x  |  .   . |  x  x   |
        advantage     .   . | .5  .5  .5 |  .   . | .5  .5  |
        turns                 [2, 5)              [7, 9)

    Had the limit cut the second turn, its last column would be `E*` with mask False: the terminator that closes the
    sequence is ours, and training on it would teach the policy that stopping there was its idea.

    With history `keep` there is one sample. With `split` there is one for each change of the history, all trained;
    with `strip` only the last is trained, and `untrained_turns` counts the turns that the policy wrote but can't be
    trained on, because the history it later saw no longer holds them as written.
    """

    task_id: str
    """Task that was attempted."""
    samples: tuple[Sample, ...]
    """Token sequences to train on; at least one."""
    turns: tuple[Turn, ...]
    """Assistant turns in order; at least one unless the engine failed before the first."""
    termination: Termination
    """Why the episode ended."""
    terminator_id: int
    """Token that ends an assistant turn."""
    group_member: int = 0
    """Index within its group; part of the seed."""
    messages: tuple[Message, ...] = ()
    """The whole conversation, for people and for export; empty = not kept."""
    untrained_turns: int = 0
    """Turns left out of `samples` by the history policy."""
    weight_version: int = 0
    """Version of the weights that sampled it."""
    reward: float | None = None
    """Combined reward; None = not scored yet, or unscored for good (a failed judge)."""
    reward_terms: Mapping[str, float | None] = field(default_factory=dict)
    """Value of each term by name; None = that term could not be scored."""
    reward_notes: Mapping[str, str] = field(default_factory=dict)
    """What a term says of its value, by name, such as the reason of a judge; a term that says nothing is not in it."""
    detail: str = ""
    """What went wrong, where `termination` alone doesn't say; empty = nothing to add."""

    def __post_init__(self) -> None:
        """Check masks, spans and terminators of every turn."""
        if not self.samples:
            raise RecordError(f"Expected `samples` of {self.task_id} to hold at least one sample, but got none")
        covered = [[False] * len(sample.token_ids) for sample in self.samples]
        for turn in self.turns:
            self._check_turn(turn)
            if any(covered[turn.sample][turn.start : turn.end]):
                raise RecordError(f"Expected turns of {self.task_id} not to overlap, but got {turn.start}:{turn.end}")
            covered[turn.sample][turn.start : turn.end] = [True] * (turn.end - turn.start)
        for sample, inside in zip(self.samples, covered, strict=True):
            if any(mask and not ok for mask, ok in zip(sample.loss_mask, inside, strict=True)):
                raise RecordError(f"Expected `loss_mask` of {self.task_id} to be False outside turns, but got True")
        untrained = sum(not turn.truncated and not self._is_trained(turn) for turn in self.turns)
        if untrained > self.untrained_turns:
            raise RecordError(
                f"Expected a trained token in each whole turn of {self.task_id} but {self.untrained_turns}, "
                f"but got none in {untrained}"
            )

    def _is_trained(self, turn: Turn) -> bool:
        return any(self.samples[turn.sample].loss_mask[turn.start : turn.end])

    def _check_turn(self, turn: Turn) -> None:
        if turn.sample >= len(self.samples) or turn.end > len(self.samples[turn.sample].token_ids):
            raise RecordError(f"Expected turn [{turn.start}, {turn.end}) of {self.task_id} inside sample {turn.sample}")
        sample = self.samples[turn.sample]
        span = sample.token_ids[turn.start : turn.end]
        if span.count(self.terminator_id) != 1 or span[-1] != self.terminator_id:
            raise RecordError(
                f"Expected one terminator at the end of turn [{turn.start}, {turn.end}) of {self.task_id}, "
                f"but got {span.count(self.terminator_id)}"
            )
        if sample.loss_mask[turn.end - 1] != (not turn.truncated) and self._is_trained(turn):
            raise RecordError(
                f"Expected the terminator of {self.task_id} to be trained unless its turn is truncated, "
                f"but got mask {sample.loss_mask[turn.end - 1]} and truncated={turn.truncated}"
            )

    @property
    def worst_tier(self) -> Tier:
        """Worst tier of any served result; `live` where no tool was called."""
        tiers = [result.tier for turn in self.turns for result in turn.results]
        return max(tiers, key=lambda tier: tier.rank, default=Tier.LIVE)

    @property
    def num_user_turns(self) -> int:
        """User turns that it reached."""
        return max((turn.user_turn for turn in self.turns), default=-1) + 1

    @property
    def num_trained_tokens(self) -> int:
        """Trained tokens over all samples."""
        return sum(sum(sample.loss_mask) for sample in self.samples)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All parsed calls in order."""
        return tuple(call for turn in self.turns for call in turn.message.tool_calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The trajectories of one task that are compared with each other."""

    task: Task
    """What was attempted."""
    trajectories: tuple[Trajectory, ...]
    """[G] those kept for the update; at first all, fewer after down-sampling."""
    all_rewards: tuple[float | None, ...]
    """[n] rewards of all sampled trajectories, kept or not, so that statistics over `all` survive down-sampling;
    None = unscored."""
    answer_scores: tuple[float | None, ...] = ()
    """[n] what success of all sampled trajectories is judged by, where that is not the reward; empty = it is."""

    def __post_init__(self) -> None:
        """Check that the trajectories belong to the task."""
        if len(self.trajectories) > len(self.all_rewards):
            raise RecordError(
                f"Expected at most {len(self.all_rewards)} kept trajectories, but got {len(self.trajectories)}"
            )
        strangers = {trajectory.task_id for trajectory in self.trajectories} - {self.task.id}
        if strangers:
            raise RecordError(f"Expected trajectories of task {self.task.id}, but got {sorted(strangers)}")

    @property
    def success_scores(self) -> tuple[float | None, ...]:
        """[n] what success of all sampled trajectories is judged by."""
        return self.answer_scores or self.all_rewards

    @property
    def rewards(self) -> tuple[float | None, ...]:
        """[G] rewards of the kept trajectories."""
        return tuple(trajectory.reward for trajectory in self.trajectories)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBatch:
    """Padded rows, one a sample, ready for a forward pass."""

    input_ids: torch.Tensor
    """[B, T] int64, right-padded."""
    attention_mask: torch.Tensor
    """[B, T] bool, False on padding."""
    loss_mask: torch.Tensor
    """[B, T] bool, True where the token is trained; the log-probability of column t comes from column t - 1."""
    advantages: torch.Tensor
    """[B] float32, one a row; zeros for demonstrations."""
    logprobs_old: torch.Tensor
    """[B, T] float32 log-probabilities at the start of the update, 0 where `loss_mask` is False."""
    logprobs_engine: torch.Tensor
    """[B, T] float32 log-probabilities of the engine, 0 where `loss_mask` is False."""
    trajectory_index: torch.Tensor
    """[B] int64: which trajectory a row belongs to (several rows under history `split`)."""
    num_barred: torch.Tensor
    """[B] int64: leading trained tokens in whose place no terminator could be drawn."""

    def __post_init__(self) -> None:
        """Check shapes and that something is trained in the first column nowhere."""
        shape = self.input_ids.shape
        for name, value in (
            ("attention_mask", self.attention_mask),
            ("loss_mask", self.loss_mask),
            ("logprobs_old", self.logprobs_old),
            ("logprobs_engine", self.logprobs_engine),
        ):
            if value.shape != shape:
                raise RecordError(f"Expected `{name}` of shape {tuple(shape)}, but got {tuple(value.shape)}")
        for name, value in (
            ("advantages", self.advantages),
            ("trajectory_index", self.trajectory_index),
            ("num_barred", self.num_barred),
        ):
            if value.shape != shape[:1]:
                raise RecordError(f"Expected `{name}` of shape {tuple(shape[:1])}, but got {tuple(value.shape)}")
        if bool((self.loss_mask & ~self.attention_mask).any()) or bool(self.loss_mask[:, :1].any()):
            raise RecordError("Expected `loss_mask` to be False on padding and in the first column, but got True")


def _require_equal_lengths(**fields: tuple[object, ...]) -> None:
    lengths = {name: len(value) for name, value in fields.items()}
    if len(set(lengths.values())) > 1:
        raise RecordError(f"Expected equal lengths, but got {lengths}")
