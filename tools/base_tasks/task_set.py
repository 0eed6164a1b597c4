"""The tasks that the base checkpoint is trained on."""

from __future__ import annotations

import random
from typing import final

from base_tasks.dictation import DICTATED
from streakline.tasks.base import TaskSet
from streakline.tasks.toolworld import KINDS
from streakline.tasks.toolworld.draw import draw_task
from streakline.tasks.toolworld.task_set import balanced_kind, options_folder
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON, Task

_DEFAULTS: dict[str, JSON] = {
    "kinds": None,
    "levels": [1, 2, 3, 4],
    "user_turns": [1, 2],
    "distractors": 2,
    "dictated_share": 0.5,
}


@final
class BaseTaskSet(TaskSet):
    """As `ToolWorldTaskSet`, with phrases that name each step and with values that no other split has.

    Args:
        size: Number of tasks.
        seed: Of everything that is drawn.
        most_user_turns: 2 or 3.
        dictated_share: Share of the tasks that dictate calls word for word, over all tools.
    """

    def __init__(self, size: int, *, seed: int = 0, most_user_turns: int = 2, dictated_share: float = 0.5) -> None:
        self._size = size
        self._user_turns = range(1, most_user_turns + 1)
        self._dictated_share = dictated_share
        options = {**_DEFAULTS, "user_turns": [*self._user_turns], "dictated_share": dictated_share}
        self._prefix = f"toolworld/base/short/{seed}/{options_folder(options, defaults=_DEFAULTS)}"

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Task:
        if not 0 <= index < self._size:
            raise IndexError(f"Expected `index` in [0, {self._size}), but got {index}")
        task_id = f"{self._prefix}{index}"
        rng = random.Random(f"{task_id}/0")
        dictated = rng.random() < self._dictated_share
        return draw_task(
            task_id,
            kind=DICTATED if dictated else balanced_kind(tuple(KINDS.values()), index=index, prefix=self._prefix),
            values=Values(rng, split="base"),
            user_turns=self._user_turns,
            distractors=2,
            schema="short",
        )
