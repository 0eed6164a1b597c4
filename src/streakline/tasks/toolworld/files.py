"""Requests about files and folders (`GorillaFileSystem`)."""

from __future__ import annotations

import random
from collections.abc import Mapping

from streakline.tasks.toolworld.kinds import Draft, Habit, Kind, Plan, call, drop_first_step, replace_first_turn
from streakline.tasks.toolworld.values import Split, Values, split_of
from streakline.types import JSON, Task

__all__ = ["FILE_KINDS", "file_state"]


def file_state(contents: Mapping[str, str]) -> dict[str, dict[str, JSON]]:
    """A file system whose one folder holds these files."""
    files: dict[str, JSON] = {name: {"type": "file", "content": content} for name, content in contents.items()}
    return {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": files}}}}


def _write_note(values: Values, _: Split) -> Draft:
    file, text = values.file(), values.text()
    return Draft(
        values={"file": file, "text": text},
        gold=(((call("touch", file_name=file),), (call("echo", content=text, file_name=file),)),),
        state=file_state({values.file(): values.word()}),
    )


def _file_away(values: Values, _: Split) -> Draft:
    file, folder = values.file(), values.word()
    return Draft(
        values={"file": file, "folder": folder},
        gold=(((call("mkdir", dir_name=folder),), (call("mv", source=file, destination=folder),)),),
        state=file_state({file: values.word()}),
    )


def _swap_steps(task: Task, _: random.Random) -> Plan:
    return replace_first_turn(task, task.gold[0][::-1])


def _remove_file(values: Values, _: Split) -> Draft:
    file = values.file()
    return Draft(
        values={"file": file},
        gold=(((call("rm", file_name=file),),),),
        state=file_state({file: values.word(), values.file(): values.word()}),
    )


def _remove_unnamed(values: Values, split: Split) -> Draft:
    named = _remove_file(values, split)
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
        phrases={
            "base": (
                "First touch {file}, then echo {text} into {file}.",
                "Make an empty file {file} and after that write {text} into it.",
                "Create {file}. Then put the text {text} in it.",
            ),
            "train": (
                "Save a note {file} that says {text}.",
                "Write {text} to a new file {file}.",
                "I need a new note {file} with {text} in it.",
                "Put {text} into a new file called {file}.",
            ),
            "validation": (
                "Please write a new note {file} that says {text}.",
                "Save {text} to a new file called {file}.",
            ),
            "test": (
                "I need {text} saved in a new file {file}.",
                "Please put {text} into a new note {file}.",
                "Write a new file called {file} that says {text}.",
            ),
        },
    ),
    Kind(
        name="file_away",
        simulators=("GorillaFileSystem",),
        draft=_file_away,
        habit=Habit(
            name="swaps_order",
            description="moves the file before the folder exists, which renames it",
            share=0.5,
            apply=_swap_steps,
        ),
        phrases={
            "base": (
                "First mkdir {folder}, then mv {file} to {folder}.",
                "Make an empty folder {folder} and after that move {file} to it.",
                "Create the folder {folder}. Then put {file} in there.",
            ),
            "train": (
                "Put {file} into a new folder {folder}.",
                "Move {file} to a new folder called {folder}.",
                "I want {file} in a new folder {folder}.",
                "File {file} away in a new folder {folder}.",
            ),
            "validation": (
                "Please move {file} into a new folder {folder}.",
                "File {file} in a new folder called {folder}.",
            ),
            "test": (
                "I want {file} moved to a new folder {folder}.",
                "Please put {file} away in a new folder called {folder}.",
                "Move {file} into a new folder called {folder}, please.",
            ),
        },
    ),
    Kind(
        name="remove_file",
        simulators=("GorillaFileSystem",),
        draft=_remove_file,
        follows=True,
        habit=Habit(name="invents_name", description="removes another file", share=0.0, apply=_invent_name),
        phrases={
            "base": (
                "Use rm on the file {file}.",
                "The file {file} goes: rm it.",
                "Take the file {file} off the disk.",
            ),
            "train": (
                "Delete {file}.",
                "Remove the file {file}.",
                "Please delete the file {file}.",
                "I do not need {file}, remove it.",
            ),
            "validation": ("Please remove {file}.", "Delete the file {file} now."),
            "test": (
                "I do not need the file {file}, delete it.",
                "Please remove the file {file} now.",
                "Delete {file}, please.",
            ),
        },
    ),
    Kind(
        name="remove_unnamed",
        simulators=("GorillaFileSystem",),
        draft=_remove_unnamed,
        user_turns=(2,),
        habit=Habit(
            name="invents_name",
            description="makes a file name up in place of asking which file is meant",
            share=0.6,
            apply=_invent_name,
        ),
        phrases={
            "base": (
                "Ask which file to rm. | Use rm on {file}.",
                "A file goes, ask for its name. | The name is {file}.",
                "Take a file off the disk, but ask which. | Take {file}.",
            ),
            "train": (
                "Delete a file for me. | {file}",
                "Remove one of my files. | The file {file}.",
                "I do not need one of my files, delete it. | It is {file}.",
                "Please remove a file. | Remove {file}, please.",
            ),
            "validation": (
                "Please delete one of my files. | {file}, please.",
                "Remove a file for me. | I mean {file}.",
            ),
            "test": (
                "Delete one of my files for me. | The file is {file}.",
                "Please remove one of my files. | I mean the file {file}.",
                "I do not need a file, remove it. | Please delete {file}.",
            ),
        },
    ),
)
