"""Requests about files and folders (`GorillaFileSystem`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streakline.tasks.toolworld.kinds import Draft, Kind, State, call, in_turn
from streakline.tasks.toolworld.values import Values
from streakline.types import JSON


def file_state(files: Mapping[str, str], *, folders: Sequence[str] = ()) -> State:
    """A file system whose one folder holds these files, by name, and these empty folders."""
    contents: dict[str, JSON] = {name: {"type": "file", "content": content} for name, content in files.items()}
    contents.update({name: {"type": "directory", "contents": {}} for name in folders})
    return {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": contents}}}}


def _write_note(values: Values) -> Draft:
    file, text = values.file(), values.text()
    return Draft(
        values={"file": file, "text": text},
        gold=(in_turn(call("touch", file_name=file), call("echo", content=text, file_name=file)),),
        state=file_state({values.file(): values.word()}),
    )


def _file_away(values: Values) -> Draft:
    file, folder = values.file(), values.word()
    return Draft(
        values={"file": file, "folder": folder},
        gold=(in_turn(call("mkdir", dir_name=folder), call("mv", source=file, destination=folder)),),
        state=file_state({file: values.word()}),
    )


def _remove_file(values: Values) -> Draft:
    file = values.file()
    return Draft(
        values={"file": file},
        gold=(in_turn(call("rm", file_name=file)),),
        state=file_state({file: values.word(), values.file(): values.word()}),
    )


def _remove_unnamed(values: Values) -> Draft:
    named = _remove_file(values)
    return Draft(values=named.values, gold=((), *named.gold), state=named.state, replies=("Which file?", "Done."))


_FILES = ("GorillaFileSystem",)

FILE_KINDS = (
    Kind(name="write_note", simulators=_FILES, draft=_write_note),
    Kind(name="file_away", simulators=_FILES, draft=_file_away),
    Kind(name="remove_file", simulators=_FILES, draft=_remove_file, follows=True),
    Kind(name="remove_unnamed", simulators=_FILES, draft=_remove_unnamed),
)
