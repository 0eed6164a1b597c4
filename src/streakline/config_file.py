"""Finds the line of a configuration file that a complaint is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from streakline.errors import ConfigError


def refuse_unreadable(path: Path) -> None:
    """Check a file, and those that it draws in, before anything is made of their values.

    Raises:
        ConfigError: If one is not YAML, is empty, or says a key twice: the second would silently replace the first.
    """
    root = _compose(path)
    if not isinstance(root, yaml.MappingNode):
        what = "nothing" if root is None else f"a {root.id}"
        raise ConfigError(f"Expected {path} to hold `option: value` lines, but got {what}")
    if all(value.tag == "tag:yaml.org,2002:null" for _, value in root.value):
        raise ConfigError(f"Expected {path} to hold `option: value` lines, but got names without a value")
    for file, node in _nodes(path, root):
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, _ in node.value:
                if str(key.value) in seen:
                    raise ConfigError(f"Expected `{key.value}` once, but got it again ({_place(file, key)})")
                seen.add(str(key.value))


def find_line(option: str, path: Path) -> str:
    """Say where an option of a dotted name stands, in the file or in one that it draws in; the file where it can't."""
    root = _compose(path)
    return (root and _find(option.split("."), path, root)) or str(path)


def _find(names: Sequence[str], path: Path, node: yaml.Node) -> str | None:
    if isinstance(node, yaml.SequenceNode):
        found = (_find(names, path, item) for item in node.value)
        return next((place for place in found if place), None)
    if isinstance(node, yaml.ScalarNode):
        part = _named_file(path, node)
        root = part and _compose(part)
        return _find(names, part, root) if part and root else None
    for key, value in node.value:
        if str(key.value).rstrip("+") == names[0]:
            return (len(names) > 1 and _find(names[1:], path, value)) or _place(path, key)
    # `init_args` and the names of a dictionary's values are left out of the option's name.
    deeper = (_find(names, path, value) for _, value in node.value)
    return next((place for place in deeper if place), None)


def _nodes(path: Path, node: yaml.Node) -> Iterator[tuple[Path, yaml.Node]]:
    yield path, node
    if isinstance(node, yaml.ScalarNode) and (part := _named_file(path, node)) and (root := _compose(part)):
        yield from _nodes(part, root)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _nodes(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _nodes(path, value)


def _named_file(path: Path, node: yaml.ScalarNode) -> Path | None:
    """The file that a value names, relative to the file in which it stands."""
    part = path.parent / node.value
    return part if part.suffix in {".yaml", ".yml"} and part.is_file() and part != path else None


def _compose(path: Path) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        began = f"{error.context} (line {error.context_mark.line + 1}) " if error.context and error.context_mark else ""
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"Expected YAML, but {began}got: {error.problem} ({path}{line})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected {path} to hold text, but got: {error}") from error
    return node


def _place(path: Path, node: yaml.Node) -> str:
    return f"{path}, line {node.start_mark.line + 1}"
