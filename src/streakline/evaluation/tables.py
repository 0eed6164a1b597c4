"""Tables for people: plain ASCII that is valid Markdown."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

_WIDTH = 160


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table, its first column to the left and the others to the right."""
    table = Table(box=box.MARKDOWN, show_edge=True)
    for index, title in enumerate(titles):
        table.add_column(title, justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    text = io.StringIO()
    Console(file=text, width=_WIDTH, color_system=None, force_terminal=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines() if line.strip())
