"""One episode as a state machine: a completion goes in, the next request comes out, at the end a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

from streakline.environment.base import Environment
from streakline.errors import ConfigError
from streakline.rendering.draft import TrajectoryDraft
from streakline.rendering.hermes import ParsedAssistant
from streakline.rendering.renderer import Renderer
from streakline.rollout.engine import GenerationRequest
from streakline.rollout.sampling import SamplingPolicy
from streakline.rollout.tool_calls import CallRunner
from streakline.types import Completion, Message, Role, Task, Termination, ToolSchema, Trajectory


@dataclass(frozen=True, kw_only=True)
class EpisodeConfig:
    """What an episode is, and what ends it apart from an answer."""

    mode: Literal["connected", "turn"] = "connected"
    """`connected`: the policy goes on from its own turns until all requests are answered. `turn`: one assistant turn
    after the task's messages, whose calls are executed for the grader."""
    max_turns: int = 8
    """Assistant turns of an episode."""
    max_turns_per_request: int | None = None
    """Assistant turns for one user request; None = only `max_turns` counts."""
    max_invalid_calls: int = 3
    """Malformed, unknown or ill-typed calls at which an episode ends."""
    max_repeated_calls: int = 2
    """Repetitions of a call, in a row and with the same result, at which an episode ends: 2 = the third time."""
    max_result_tokens: int = 512
    """Budget of one tool result; a longer one is shortened, and says so."""
    close_thinking: bool = True
    """Whether thinking that a turn leaves open is closed in the text behind the turn, so that the policy moves on, and
    whole calls in it are run (paper B). False = it stays open, and what it holds is no call."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, value, least in (
            ("max_turns", self.max_turns, 1),
            ("max_turns_per_request", self.max_turns_per_request or 1, 1),
            ("max_invalid_calls", self.max_invalid_calls, 1),
            ("max_repeated_calls", self.max_repeated_calls, 1),
            # The envelope of a shortened result takes about a dozen tokens.
            ("max_result_tokens", self.max_result_tokens, 32),
        ):
            if value < least:
                raise ConfigError(f"Expected `{name}` to be at least {least}, but got {value}")


def opening_messages(task: Task, *, mode: Literal["connected", "turn"]) -> tuple[Message, ...]:
    """Messages before the first assistant turn: those of the first request, in mode `turn` those of all."""
    system = (Message(role=Role.SYSTEM, content=task.system),) if task.system else ()
    requests = task.requests if mode == "turn" else task.requests[:1]
    return (*system, *(message for request in requests for message in request))


def opening_tools(task: Task, *, mode: Literal["connected", "turn"]) -> tuple[ToolSchema, ...]:
    """Tools that the policy sees in its first prompt."""
    return tuple(task.visible_tools(len(task.requests) - 1 if mode == "turn" else 0).values())


@final
@dataclass(kw_only=True)
class Episode:
    """The run of one group member in a world of its own, which is made when it starts."""

    task: Task
    make_environment: Callable[[], Environment]
    prompt_ids: tuple[int, ...]
    """[T] the task's opening messages, rendered; the members of a group share them."""
    renderer: Renderer
    sampling: SamplingPolicy
    config: EpisodeConfig
    group_member: int
    seed_of_turn: Callable[[int], int]
    """Gives the seed of the draws of a 0-based assistant turn."""

    def __post_init__(self) -> None:
        """Open the record."""
        task, renderer, config = self.task, self.renderer, self.config
        self._messages = list(opening_messages(task, mode=config.mode))
        self._tools = list(opening_tools(task, mode=config.mode))
        self._draft = TrajectoryDraft(self.prompt_ids, terminator_id=renderer.terminator_id, is_sampled=True)
        self._calls = CallRunner(
            make_environment=self.make_environment,
            encoder=renderer.encoder,
            max_invalid_calls=config.max_invalid_calls,
            max_repeated_calls=config.max_repeated_calls,
            max_result_tokens=config.max_result_tokens,
        )
        self._user_turn = 0
        self._turns_of_request = 0
        self._closes_thinking = False
        self._weight_version = 0
        self._trajectory: Trajectory | None = None
        self.generated_tokens = 0
        self.injected_tokens = 0

    @property
    def tool_seconds(self) -> float:
        """Time spent in the environment."""
        return self._calls.seconds

    def start(self) -> GenerationRequest | None:
        """Begin; None = the episode ended before its first turn, see the trajectory."""
        last = len(self.task.requests) - 1 if self.config.mode == "turn" else 0
        for user_turn in range(last + 1):
            if not self._begin_user_turn(user_turn):
                return None
        return self._request(Termination.LENGTH)

    def advance(self, completion: Completion) -> GenerationRequest | None:
        """Take over the engine's answer to the last request, run its calls, and go on; None = the episode has ended."""
        self._weight_version = completion.weight_version
        self.generated_tokens += len(completion.token_ids)
        if completion.finish_reason == "error" or not completion.token_ids:
            return self._end(Termination.ENGINE_ERROR, completion.error or "The engine returned no token")
        parsed = self.renderer.parse(completion.token_ids, close_thinking=self.config.close_thinking)
        self._closes_thinking = parsed.open_thinking and self.config.close_thinking
        self._messages.append(parsed.message)
        self._turns_of_request += 1
        if self._draft.add_turn(
            completion.token_ids, logprobs=completion.logprobs, message=parsed.message, user_turn=self._user_turn
        ):
            return self._end(Termination.LENGTH, f"Turn cut off after {len(completion.token_ids)} tokens")
        if parsed.message.tool_calls or parsed.errors:
            return self._after_calls(parsed)
        return self._after_answer()

    def trajectory(self) -> Trajectory:
        """The record of an episode that has ended."""
        assert self._trajectory is not None, "the episode still runs"  # noqa: S101
        return self._trajectory

    def _after_calls(self, parsed: ParsedAssistant) -> GenerationRequest | None:
        outcome = self._calls.run(parsed, visible={tool.name: tool for tool in self._tools})
        self._draft.set_results(outcome.results, malformed_calls=len(parsed.errors))
        self._messages.extend(outcome.messages)
        if outcome.termination is not None:
            return self._end(outcome.termination, outcome.detail)
        if self.config.mode == "turn":
            # The grader looks at the calls; a turn with nothing but malformed ones made none.
            reason = Termination.ENVIRONMENT_DONE if outcome.results else Termination.INVALID_CALLS
            return self._end(reason, "; ".join(parsed.errors))
        if self._is_out_of_turns():
            return None
        return self._inject(outcome.messages, overflow=Termination.TOOL_OVERFLOW)

    def _after_answer(self) -> GenerationRequest | None:
        following = self._user_turn + 1
        if self.config.mode == "turn" or following == len(self.task.requests):
            return self._end(Termination.ANSWER)
        self._turns_of_request = 0
        if self._is_out_of_turns() or not self._begin_user_turn(following):
            return None
        messages = self.task.requests[following]
        new_tools = self.task.revealed_tools.get(following, ())
        self._messages.extend(messages)
        self._tools.extend(new_tools)
        return self._inject(messages, new_tools=new_tools, overflow=Termination.LENGTH)

    def _begin_user_turn(self, index: int) -> bool:
        self._user_turn = index
        outcome = self._calls.begin_user_turn(index)
        if outcome.termination is not None:
            self._end(outcome.termination, outcome.detail)
        return outcome.termination is None

    def _inject(
        self, messages: Sequence[Message], *, new_tools: Sequence[ToolSchema] = (), overflow: Termination
    ) -> GenerationRequest | None:
        """Show the policy new messages, unless they leave it no room: then they are not part of the sample."""
        if self.renderer.extends(messages):
            injected = self.renderer.extension(messages, new_tools=new_tools, close_thinking=self._closes_thinking)
            if self._is_out_of_room(len(self._draft.token_ids) + len(injected), overflow):
                return None
            self._draft.extend(injected)
            self.injected_tokens += len(injected)
        else:
            prompt = self.renderer.prompt(self._messages, tools=self._tools, task_id=self.task.id)
            if self._is_out_of_room(len(prompt), overflow):
                return None
            self.injected_tokens += self._draft.continue_from(prompt)
        if self._closes_thinking:
            self._draft.mark_thinking_closed()
        return self._request(overflow)

    def _request(self, overflow: Termination) -> GenerationRequest | None:
        prompt = self._draft.token_ids
        length = len(prompt)
        if self._is_out_of_room(length, overflow):
            return None
        # One token is kept for the terminator of a turn that is cut off.
        limit = min(self.sampling.max_new_tokens, self.sampling.max_tokens - length - 1)
        return GenerationRequest(
            prompt_ids=prompt,
            seed=self.seed_of_turn(self._draft.num_turns),
            max_new_tokens=limit,
            min_new_tokens=0 if self._draft.num_turns else min(self.sampling.min_new_tokens, limit),
        )

    def _is_out_of_room(self, length: int, overflow: Termination) -> bool:
        if length + 2 <= self.sampling.max_tokens:
            return False
        self._end(overflow, f"{length} tokens leave no room for a turn within {self.sampling.max_tokens}")
        return True

    def _is_out_of_turns(self) -> bool:
        limit = self.config.max_turns_per_request
        if self._draft.num_turns < self.config.max_turns and (limit is None or self._turns_of_request < limit):
            return False
        self._end(Termination.MAX_TURNS)
        return True

    def _end(self, termination: Termination, detail: str = "") -> GenerationRequest | None:
        """Build the record; returns the next request, which there is none of."""
        self._trajectory = self._draft.finish(
            task_id=self.task.id,
            termination=termination,
            train_last_sample_only=self.renderer.policy.thinking == "strip",
            group_member=self.group_member,
            messages=self._messages,
            weight_version=self._weight_version,
            detail=detail,
        )
        return None
