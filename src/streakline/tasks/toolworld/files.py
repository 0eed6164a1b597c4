"""Requests about files and folders (`GorillaFileSystem`)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, drop_first_step, replace_first_turn
from streakline.tasks.toolworld.values import Values, split_of
from streakline.types import JSON, Task

__all__ = ["FILE_KINDS", "file_state"]


def file_state(files: Mapping[str, str], *, folders: Sequence[str] = ()) -> dict[str, dict[str, JSON]]:
    """A file system whose one folder holds these files, by name, and these empty folders."""
    contents: dict[str, JSON] = {name: {"type": "file", "content": content} for name, content in files.items()}
    contents.update({name: {"type": "directory", "contents": {}} for name in folders})
    return {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": contents}}}}


def _write_note(values: Values) -> Draft:
    file, text = values.file(), values.text()
    return Draft(
        values={"file": file, "text": text},
        gold=(((call("touch", file_name=file),), (call("echo", content=text, file_name=file),)),),
        state=file_state({values.file(): values.word()}),
    )


def _file_away(values: Values) -> Draft:
    file, folder = values.file(), values.word()
    return Draft(
        values={"file": file, "folder": folder},
        gold=(((call("mkdir", dir_name=folder),), (call("mv", source=file, destination=folder),)),),
        state=file_state({file: values.word()}),
    )


def _swap_steps(task: Task, _: random.Random) -> Plan:
    return replace_first_turn(task, task.gold[0][::-1])


def _remove_file(values: Values) -> Draft:
    file = values.file()
    return Draft(
        values={"file": file},
        gold=(((call("rm", file_name=file),),),),
        state=file_state({file: values.word(), values.file(): values.word()}),
    )


def _remove_unnamed(values: Values) -> Draft:
    named = _remove_file(values)
    return Draft(values=named.values, gold=((), *named.gold), state=named.state, replies=("Which file?", "Done."))


def _invent_name(task: Task, rng: random.Random) -> Plan:
    return replace_first_turn(task, ((call("rm", file_name=Values(rng, split=split_of(task)).file()),),))


FILE_KINDS = (
    Kind(
        name="write_note",
        simulators=("GorillaFileSystem",),
        draft=_write_note,
        habit=Habit(
            name="skips_touch",
            description="writes into the new file without making it first",
            share=0.6,
            apply=lambda task, _: drop_first_step(task),
        ),
    ),
    Kind(
        name="file_away",
        simulators=("GorillaFileSystem",),
        draft=_file_away,
        habit=Habit(
            name="swaps_order",
            description="moves the file before the folder exists, which renames it",
            share=0.55,
            apply=_swap_steps,
        ),
    ),
    Kind(
        name="remove_file",
        simulators=("GorillaFileSystem",),
        draft=_remove_file,
        follows=True,
    ),
    Kind(
        name="remove_unnamed",
        simulators=("GorillaFileSystem",),
        draft=_remove_unnamed,
        habit=Habit(
            name="invents_name",
            description="makes a file name up in place of asking which file is meant",
            share=0.6,
            apply=_invent_name,
        ),
    ),
)
