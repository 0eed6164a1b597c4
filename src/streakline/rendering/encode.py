"""A written conversation as a trajectory to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streakline.errors import DataError
from streakline.rendering.history import split_turns, starts_user_turn
from streakline.rendering.renderer import Renderer
from streakline.types import Message, Role, Sample, Termination, ToolResult, ToolSchema, Trajectory, Turn

__all__ = ["encode_conversation"]


def encode_conversation(
    renderer: Renderer,
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolSchema],
    task_id: str = "",
    num_given: int | None = None,
    revealed_tools: Mapping[int, Sequence[ToolSchema]] | None = None,
) -> Trajectory:
    """Encode a demonstration: every assistant turn after the given messages is trained, by the policy's history rule.

    Under thinking `keep` there is one sample. Under `split` a new sample begins where a new request rewrites the
    history, and all are trained; under `strip` only the last one is, and the other turns are counted as untrained. In
    the `context` template every turn is a sample of its own.

    Args:
        renderer: Turns messages into tokens.
        messages: The whole conversation; what follows the last assistant message is left out.
        tools: Tools known from the start.
        task_id: Task that is demonstrated.
        num_given: Leading messages that are given with the request and never trained, assistant messages among them;
            None = those before the first assistant message.
        revealed_tools: User turn (0-based) -> tools that are told of from that turn on; None = none.

    Returns:
        A trajectory without engine log-probabilities.

    Raises:
        DataError: If nothing is left to train on, or a message can't be rendered.
    """
    first = next((i for i, message in enumerate(messages) if message.role is Role.ASSISTANT), len(messages))
    given = tuple(messages[: first if num_given is None else num_given])
    opening, turns = split_turns(messages[len(given) :])
    if not turns:
        raise DataError(f"Expected the demonstration of {task_id!r} to hold an assistant turn to train, but got none")
    draft = _Draft(renderer, tools, dict(revealed_tools or {}), task_id, messages=[*given, *opening])
    draft.open_sample()
    for index, (message, following) in enumerate(turns):
        draft.add_turn(message, following)
        if index < len(turns) - 1:
            draft.go_on(following)
    return draft.finish(messages)


@dataclass(slots=True)
class _Draft:
    """A trajectory while it is written."""

    renderer: Renderer
    tools: Sequence[ToolSchema]
    revealed: dict[int, Sequence[ToolSchema]]
    task_id: str
    messages: list[Message]
    samples: list[list[int]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    user_turn: int = 0

    def open_sample(self) -> None:
        self.samples.append(list(self._prompt()))

    def add_turn(self, message: Message, following: Sequence[Message]) -> None:
        ids = self.samples[-1]
        start = len(ids)
        ids.extend(self.renderer.completion(message))
        results = tuple(_result(item) for item in following if item.role is Role.TOOL)
        self.turns.append(
            Turn(
                sample=len(self.samples) - 1,
                start=start,
                end=len(ids),
                message=message,
                user_turn=self.user_turn,
                results=results,
            )
        )
        self.messages.append(message)

    def go_on(self, following: Sequence[Message]) -> None:
        new_tools: Sequence[ToolSchema] = ()
        if starts_user_turn(following):
            self.user_turn += 1
            new_tools = self.revealed.get(self.user_turn, ())
        self.messages.extend(following)
        ids = self.samples[-1]
        if self.renderer.extends(following):
            ids.extend(self.renderer.extension(following, new_tools=new_tools))
            return
        prompt = self._prompt()
        if prompt[: len(ids)] == tuple(ids):
            ids.extend(prompt[len(ids) :])
        else:
            self.samples.append(list(prompt))

    def finish(self, messages: Sequence[Message]) -> Trajectory:
        last = len(self.samples) - 1
        strip = self.renderer.policy.thinking == "strip"
        trained = [turn for turn in self.turns if not strip or turn.sample == last]
        masks = [[False] * len(ids) for ids in self.samples]
        for turn in trained:
            masks[turn.sample][turn.start : turn.end] = [True] * (turn.end - turn.start)
        samples = (
            Sample(token_ids=tuple(ids), loss_mask=tuple(mask)) for ids, mask in zip(self.samples, masks, strict=True)
        )
        return Trajectory(
            task_id=self.task_id,
            samples=tuple(samples),
            turns=tuple(self.turns),
            termination=Termination.ANSWER,
            terminator_id=self.renderer.terminator_id,
            messages=tuple(messages),
            untrained_turns=len(self.turns) - len(trained),
        )

    def _prompt(self) -> tuple[int, ...]:
        visible = [*self.tools]
        for user_turn in range(self.user_turn + 1):
            visible.extend(self.revealed.get(user_turn, ()))
        return self.renderer.prompt(self.messages, tools=visible, task_id=self.task_id)


def _result(message: Message) -> ToolResult:
    return ToolResult(name=message.name, content=message.content, call_id=message.tool_call_id)
