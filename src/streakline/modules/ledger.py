"""Where the seconds of a step went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class TimeLedger:
    """Adds up wall-clock seconds under names. Blocks may nest: the inner seconds are then in both."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time spent inside the block, also where it raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self._seconds[name] = self[name] + seconds

    def __getitem__(self, name: str) -> float:
        """Seconds so far; 0 for an unknown name."""
        return self._seconds.get(name, 0.0)
