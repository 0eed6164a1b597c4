"""ToolWorld: seeded, templated tasks over the benchmark's real simulators, and demonstrations of them."""

from streakline.tasks.toolworld.demonstrations import HABITS, Demonstration, demonstrate
from streakline.tasks.toolworld.requests import KINDS
from streakline.tasks.toolworld.task_set import ToolWorldTaskSet

__all__ = ["HABITS", "KINDS", "Demonstration", "ToolWorldTaskSet", "demonstrate"]
