"""Tasks for a model that was never trained: requests that name each step, and dictated calls over all tools."""

from base_tasks.task_set import BaseTaskSet

__all__ = ["BaseTaskSet"]
