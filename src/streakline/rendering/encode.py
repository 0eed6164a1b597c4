"""A written conversation as a trajectory to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streakline.errors import DataError
from streakline.rendering.draft import TrajectoryDraft
from streakline.rendering.history import split_turns, starts_user_turn
from streakline.rendering.renderer import Renderer
from streakline.types import Message, Role, Termination, ToolResult, ToolSchema, Trajectory


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

    The leading `num_given` messages come with the request and are never trained, assistant messages among them; None =
    those before the first assistant message. What follows the last assistant message is left out. `revealed_tools`
    holds, by 0-based user turn, the tools that are told of from that turn on.

    Raises:
        DataError: If nothing is left to train on, or a message can't be rendered.
    """
    first = next((i for i, message in enumerate(messages) if message.role is Role.ASSISTANT), len(messages))
    given = tuple(messages[: first if num_given is None else num_given])
    opening, turns = split_turns(messages[len(given) :])
    if not turns:
        raise DataError(f"Expected the demonstration of {task_id!r} to hold an assistant turn to train, but got none")
    revealed = revealed_tools or {}
    writer = _Writer(renderer, [*given, *opening], tools=[*tools, *revealed.get(0, ())], task_id=task_id)
    for message, following in turns[:-1]:
        writer.add_turn(message, following)
        writer.go_on(following, revealed)
    writer.add_turn(*turns[-1])
    return writer.draft.finish(
        task_id=task_id,
        termination=Termination.ANSWER,
        train_last_sample_only=renderer.policy.thinking == "strip",
        messages=messages,
    )


class _Writer:
    """Writes one message after the other into a draft."""

    def __init__(self, renderer: Renderer, messages: list[Message], *, tools: list[ToolSchema], task_id: str) -> None:
        self._renderer = renderer
        self._messages = messages
        self._tools = tools
        self._task_id = task_id
        self._user_turn = 0
        self.draft = TrajectoryDraft(self._prompt(), terminator_id=renderer.terminator_id, is_sampled=False)

    def add_turn(self, message: Message, following: Sequence[Message]) -> None:
        self.draft.add_turn(self._renderer.completion(message), message=message, user_turn=self._user_turn)
        self.draft.set_results([_result(item) for item in following if item.role is Role.TOOL])
        self._messages.append(message)

    def go_on(self, following: Sequence[Message], revealed: Mapping[int, Sequence[ToolSchema]]) -> None:
        new_tools: Sequence[ToolSchema] = ()
        if starts_user_turn(following):
            self._user_turn += 1
            new_tools = revealed.get(self._user_turn, ())
            self._tools.extend(new_tools)
        self._messages.extend(following)
        if self._renderer.extends(following):
            self.draft.extend(self._renderer.extension(following, new_tools=new_tools))
        else:
            self.draft.continue_from(self._prompt())

    def _prompt(self) -> tuple[int, ...]:
        return self._renderer.prompt(self._messages, tools=self._tools, task_id=self._task_id)


def _result(message: Message) -> ToolResult:
    return ToolResult(name=message.name, content=message.content, call_id=message.tool_call_id)
