"""What a judge is shown of an episode: the conversation without thinking, and what would have been right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streakline.types import Message, Role, Task, Termination, ToolResult, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCase:
    """One answer with all that it rests on."""

    id: str
    """Task that was attempted."""
    messages: tuple[Message, ...]
    """Requests, calls, results and answers in order."""
    answers: tuple[str, ...]
    """[user turns] text that closed each; empty text = nothing did."""
    references: tuple[str, ...] = ()
    """[user turns] a right text for each; empty = none is known."""
    cut_off: str = ""
    """What ended it in place of a final answer; empty = it was answered."""

    @property
    def final_answer(self) -> str:
        """What closed the last user turn; empty = nothing did."""
        return self.answers[-1] if self.answers else ""


def case_of(task: Task, trajectory: Trajectory) -> JudgeCase:
    """What a judge is shown of a trajectory. User turns that it did not reach have an empty answer."""
    messages = [Message(role=Role.SYSTEM, content=task.system)] if task.system else []
    answers: list[str] = []
    for user_turn, request in enumerate(task.requests):
        turns = [turn for turn in trajectory.turns if turn.user_turn == user_turn]
        if not turns and user_turn:
            answers += [""] * (len(task.requests) - user_turn)
            break
        messages += request
        for turn in turns:
            written = turn.message
            messages.append(Message(role=Role.ASSISTANT, content=written.content, tool_calls=written.tool_calls))
            messages += [_result_message(result) for result in turn.results]
        answers.append(_closing_text(turns[-1].message) if turns else "")
    is_answered = trajectory.termination is Termination.ANSWER
    return JudgeCase(
        id=task.id,
        messages=tuple(messages),
        answers=tuple(answers),
        references=task.replies,
        cut_off="" if is_answered else trajectory.termination.value,
    )


def conversation_case(name: str, messages: Sequence[Message], *, references: Sequence[str] = ()) -> JudgeCase:
    """What a judge is shown of a conversation; a user turn begins with each user message that follows another role."""
    answers: list[str] = []
    for before, message in zip((None, *messages[:-1]), messages, strict=True):
        if message.role is Role.USER and (before is None or before.role is not Role.USER):
            answers.append("")
        elif message.role is Role.ASSISTANT and answers:
            answers[-1] = _closing_text(message)
    return JudgeCase(id=name, messages=tuple(messages), answers=tuple(answers), references=tuple(references))


def _closing_text(message: Message) -> str:
    return "" if message.tool_calls else message.content


def _result_message(result: ToolResult) -> Message:
    return Message(role=Role.TOOL, content=result.content, name=result.name)
