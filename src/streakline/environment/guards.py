"""What a call would make of a world that is too large to go through.

BFCL's copy of a directory shares what is in it. So each copy into another copy may double the files that are seen,
while the world itself hardly grows, and a few calls make one that no search or comparison ever ends in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from streakline.types import ToolCall

MAX_FILES = 2000
"""Files and directories of a world, each as often as it is seen. The gold calls of BFCL lead to 127 at most."""


def growth_refusal(call: ToolCall, *, simulator: object) -> str:
    """Say why a copy or move of a directory would make too large a world; empty = it would not, or is none."""
    if call.name not in ("cp", "mv"):
        return ""
    here = _contents(vars(simulator).get("_current_dir"))
    source = here.get(str(call.arguments.get("source")))
    if not _is_directory(source):
        return ""
    destination = here.get(str(call.arguments.get("destination")))
    target = _contents(destination) if _is_directory(destination) else here
    seen = list(islice(_walk(vars(simulator).get("root")), MAX_FILES))
    places = sum(_contents(node) is target for node in seen if _is_directory(node))
    added = sum(1 for _ in islice(_walk(source), MAX_FILES))
    if len(seen) + places * added <= MAX_FILES:
        return ""
    return f"Expected at most {MAX_FILES} files and directories after `{call.name}`, but got more"


def _walk(node: object) -> Iterator[object]:
    """All that is seen from a file or directory, in a loop without end where a directory holds itself."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if _is_directory(node):
            pending.extend(_contents(node).values())


def _is_directory(node: object) -> bool:
    return node is not None and "contents" in vars(node)


def _contents(directory: object) -> Mapping[str, object]:
    contents = vars(directory).get("contents") if directory is not None else None
    return contents if isinstance(contents, dict) else {}
