"""Episodes as rows of a JSONL file."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from transformers import PreTrainedTokenizerFast

from streakline.data.conversations import message_to_json, tool_to_json
from streakline.types import JSON, Message, Role, Sample, Task, ToolResult, Trajectory, Turn

_MAX_CONTEXT: Final = 2000
"""Characters kept of a stretch that is not trained; prompts are long, and their messages stand in the row anyway."""


def trajectory_to_json(
    task: Task, trajectory: Trajectory, *, tokenizer: PreTrainedTokenizerFast | None = None
) -> dict[str, JSON]:
    """One episode as a row that `data/conversations.py` reads, with its outcome beside it.

    `turns` says of each assistant turn what the messages leave out: where its results came from, what was cut off or
    could not be read, and whether it is trained. With a `tokenizer`, `samples` holds for each sample the decoded
    stretches of tokens that are all trained, or all not.
    """
    revealed = [tool for tools in task.revealed_tools.values() for tool in tools]
    row: dict[str, JSON] = {
        "task_id": task.id,
        "kind": task.kind,
        "group_member": trajectory.group_member,
        "messages": [message_to_json(message) for message in trajectory.messages],
        "tools": [tool_to_json(tool) for tool in (*task.tools, *revealed)],
        "reward": trajectory.reward,
        "reward_terms": dict(trajectory.reward_terms),
        "reward_notes": dict(trajectory.reward_notes),
        "termination": trajectory.termination.value,
        "detail": trajectory.detail,
        "tier": trajectory.worst_tier.value,
        "num_turns": len(trajectory.turns),
        "num_tokens": sum(len(sample.token_ids) for sample in trajectory.samples),
        "num_trained_tokens": trajectory.num_trained_tokens,
        "untrained_turns": trajectory.untrained_turns,
        "weight_version": trajectory.weight_version,
        "turns": [_turn_to_json(turn, trajectory) for turn in trajectory.turns],
    }
    if tokenizer is not None:
        row["samples"] = [_segments(sample, tokenizer) for sample in trajectory.samples]
    return row


def _turn_to_json(turn: Turn, trajectory: Trajectory) -> dict[str, JSON]:
    # By identity: a history that the task came with may hold an equal message.
    place = next((at for at, message in enumerate(trajectory.messages) if message is turn.message), None)
    following = trajectory.messages[place + 1 :] if place is not None else ()
    return {
        "message": place,
        "sample": turn.sample,
        "span": [turn.start, turn.end],
        "user_turn": turn.user_turn,
        "truncated": turn.truncated,
        "trained": any(trajectory.samples[turn.sample].loss_mask[turn.start : turn.end]),
        "malformed_calls": turn.malformed_calls,
        "closed_thinking": turn.closed_thinking,
        "results": [_result_to_json(result, place, number, following) for number, result in enumerate(turn.results, 1)],
    }


def _result_to_json(
    result: ToolResult, place: int | None, number: int, following: tuple[Message, ...]
) -> dict[str, JSON]:
    """Where one result came from; its text is given by the index of its message, or whole where there is none."""
    stands = place is not None and number <= len(following) and _holds(following[number - 1], result)
    text: dict[str, JSON] = {"message": place + number} if place is not None and stands else {"content": result.content}
    return text | {
        "name": result.name,
        "is_error": result.is_error,
        "tier": result.tier.value,
        "similarity": result.similarity,
        "entry_id": result.entry_id,
        "truncated": result.truncated,
    }


def _holds(message: Message, result: ToolResult) -> bool:
    return message.role is Role.TOOL and message.content == result.content


def _segments(sample: Sample, tokenizer: PreTrainedTokenizerFast) -> list[JSON]:
    pairs = zip(sample.loss_mask, sample.token_ids, strict=True)
    runs = [(trained, [token for _, token in run]) for trained, run in groupby(pairs, key=lambda pair: pair[0])]
    return [_segment(str(tokenizer.decode(ids)), trained=trained, num_tokens=len(ids)) for trained, ids in runs]


def _segment(text: str, *, trained: bool, num_tokens: int) -> dict[str, JSON]:
    left_out = 0 if trained else max(0, len(text) - _MAX_CONTEXT)
    if left_out:
        half = _MAX_CONTEXT // 2
        text = f"{text[:half]}\n[... {left_out} characters ...]\n{text[-half:]}"
    return {"text": text, "trained": trained, "num_tokens": num_tokens, "left_out": left_out}
