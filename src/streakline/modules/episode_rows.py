"""Episodes as rows of a JSONL file."""

from __future__ import annotations

from streakline.data.conversations import message_to_json, tool_to_json
from streakline.types import JSON, Task, Trajectory


def trajectory_to_json(task: Task, trajectory: Trajectory) -> dict[str, JSON]:
    """One episode as a row that `data/conversations.py` reads, with its outcome beside it."""
    revealed = [tool for tools in task.revealed_tools.values() for tool in tools]
    return {
        "task_id": task.id,
        "kind": task.kind,
        "group_member": trajectory.group_member,
        "messages": [message_to_json(message) for message in trajectory.messages],
        "tools": [tool_to_json(tool) for tool in (*task.tools, *revealed)],
        "reward": trajectory.reward,
        "reward_terms": dict(trajectory.reward_terms),
        "termination": trajectory.termination.value,
        "detail": trajectory.detail,
        "tier": trajectory.worst_tier.value,
        "num_turns": len(trajectory.turns),
        "num_tokens": sum(len(sample.token_ids) for sample in trajectory.samples),
        "weight_version": trajectory.weight_version,
    }
