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
    seen, shown_tools, user_turn = [*given, *opening], [*tools, *revealed.get(0, ())], 0
    prompt = renderer.prompt(seen, tools=shown_tools, task_id=task_id)
    draft = TrajectoryDraft(prompt, terminator_id=renderer.terminator_id, is_sampled=False)
    for index, (message, following) in enumerate(turns, start=1):
        draft.add_turn(renderer.completion(message), message=message, user_turn=user_turn)
        draft.set_results([_result(item) for item in following if item.role is Role.TOOL])
        if index == len(turns):
            break
        new_tools: Sequence[ToolSchema] = ()
        if starts_user_turn(following):
            user_turn += 1
            new_tools = revealed.get(user_turn, ())
        seen += (message, *following)
        shown_tools += new_tools
        if renderer.extends(following):
            draft.extend(renderer.extension(following, new_tools=new_tools))
        else:
            draft.continue_from(renderer.prompt(seen, tools=shown_tools, task_id=task_id))
    return draft.finish(
        task_id=task_id,
        termination=Termination.ANSWER,
        train_last_sample_only=renderer.policy.thinking == "strip",
        messages=messages,
    )


def _result(message: Message) -> ToolResult:
    return ToolResult(name=message.name, content=message.content, call_id=message.tool_call_id)
